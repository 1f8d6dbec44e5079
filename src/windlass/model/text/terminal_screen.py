"""What programs say to terminals, as far as it matters to one who comes later or leaves early.

Pure functions of the bytes that came out of a shell.
"""

from __future__ import annotations

import re

_MODE = re.compile(rb"\x1b\[\?([0-9;]{1,60})([hl])|\x1b([=>])|\x1bc|\x1b\[!p")
# What a terminal is in before anybody says anything.
_ON_AT_FIRST = {7, 25}
# Those that one who comes later must know of, and that one who leaves must undo.
_KEPT = frozenset({1, 7, 9, 25, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004})
_SECOND_SCREEN = (1049, 1047, 47)

# Questions, which a terminal answers as if somebody typed. Asked once more, they would be
# answered once more, to a program that did not ask.
_QUESTION = re.compile(
    rb"\x1b\[[>=?]?[0-9;]*[cnx]"  # what are you, how are you, where is the cursor
    rb"|\x1b\[\??[0-9;]*\$p"  # is a mode on
    rb"|\x1b\[(?:1[1345689]|2[01])(?:;[0-9]*)*t"  # where and how large is the window
    rb"|\x1b\[>[0-9;]*q"  # which version are you
    rb"|\x1b\[\?u"  # which keys do you tell
    rb"|\x1b\][0-9;]*;\?(?:\x07|\x1b\\)"  # which colour is that
    rb"|\x1bP[+$]q[^\x1b\x07]{0,200}(?:\x07|\x1b\\)"  # what can you do
    rb"|\x1bZ|\x05"
)
_STYLE_RESET = b"\x1b[m"


class Modes:
    """The modes of a terminal, as what came out of a shell has left them.

    >>> modes = Modes()
    >>> modes.feed(b"\\x1b[?1049h\\x1b[?25l a full screen")
    >>> modes.entered()
    b'\\x1b[?1049h\\x1b[?25l'
    >>> modes.left()
    b'\\x1b[m\\x1b[?25h\\x1b[?1049l'
    """

    def __init__(self) -> None:
        self._changed: dict[int, bool] = {}
        self._keypad = False
        self._rest = b""  # what may be the beginning of a sequence

    @property
    def has_second_screen(self) -> bool:
        """Whether a program has the whole screen to itself, as editors do."""
        return any(self._changed.get(mode) for mode in _SECOND_SCREEN)

    def feed(self, data: bytes) -> None:
        """Take note of more that came."""
        data = self._rest + data
        for match in _MODE.finditer(data):
            if match[1] is not None:
                self._set(match[1], on=match[2] == b"h")
            elif match[3] is not None:
                self._keypad = match[3] == b"="
            else:
                self._changed, self._keypad = {}, False
        tail = data[-64:]
        at = tail.rfind(b"\x1b")
        self._rest = tail[at:] if at >= 0 and not _MODE.match(tail, at) else b""

    def entered(self) -> bytes:
        """What puts another terminal into the same modes."""
        sequences = [
            b"\x1b[?%d%b" % (mode, b"h" if on else b"l") for mode, on in self._changed.items()
        ]
        return b"".join(sequences) + (b"\x1b=" if self._keypad else b"")

    def left(self) -> bytes:
        """What puts a terminal back to how it was."""
        sequences = [
            b"\x1b[?%d%b" % (mode, b"l" if on else b"h")
            for mode, on in reversed(self._changed.items())
        ]
        keypad = b"\x1b>" if self._keypad else b""
        return _STYLE_RESET + keypad + b"".join(sequences) if sequences or keypad else b""

    def _set(self, numbers: bytes, *, on: bool) -> None:
        for number in numbers.split(b";"):
            mode = int(number) if number else 0
            if mode not in _KEPT:
                continue
            self._changed.pop(mode, None)
            if on != (mode in _ON_AT_FIRST):
                self._changed[mode] = on


def without_questions(data: bytes) -> bytes:
    """The same, to be shown once more: with nothing that a terminal would answer.

    >>> without_questions(b"hello\\x1b[6n\\x1b[1mworld\\x1b]11;?\\x07")
    b'hello\\x1b[1mworld'
    """
    return _QUESTION.sub(b"", data)


def replay(kept: bytes, most: int) -> bytes:
    """What shows one who comes later about what others see, from the bytes that are kept.

    It begins with a line, or where a program took the whole screen; in the modes that hold there.

    >>> replay(b"one\\ntwo\\nthree", 7)
    b'\\x1b[mthree'
    """
    modes = Modes()
    modes.feed(kept)
    start = max(len(kept) - most, 0)
    if modes.has_second_screen:
        begun = max(kept.rfind(b"\x1b[?%dh" % mode) for mode in _SECOND_SCREEN)
        if begun >= start:
            before = Modes()
            before.feed(kept[:begun])
            return before.entered() + without_questions(kept[begun:])
    if start:
        line = kept.find(b"\n", start) + 1
        start = line or start
    before = Modes()
    before.feed(kept[:start])
    begin = (_STYLE_RESET if start else b"") + before.entered()
    return begin + without_questions(kept[start:])


def plain_text(data: bytes) -> str:
    """What came out of a shell as text: no colours, no cursor that moves.

    >>> plain_text(b"\\x1b[1;32mok\\x1b[0m\\x1b]0;title\\x07 done\\r\\n")
    'ok done\\n'
    """
    text = _CONTROL.sub(b"", data).decode("utf-8", "replace")
    return _RETURNED.sub("", text.replace("\r\n", "\n"))


_CONTROL = re.compile(
    rb"\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]{0,4096}\x1b\\"
    rb"|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]|[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]"
)
_RETURNED = re.compile(r"[^\n]*\r(?=[^\n])|\r")
