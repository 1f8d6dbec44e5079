"""Keeps a shell's terminal correct when clients attach and detach.

A client that attaches later is sent the recent output again. A client that detaches gets its
terminal modes back. All functions depend only on the bytes that the shell wrote.
"""

from __future__ import annotations

import re

_MODE = re.compile(rb"\x1b\[\?([0-9;]{1,60})([hl])|\x1b([=>])|\x1bc|\x1b\[!p")
# The modes that are on in a new terminal.
_ON_AT_FIRST = {7, 25}
# The modes to set when a client attaches, and to reset when it detaches.
_KEPT = frozenset({1, 7, 9, 25, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004})
_SECOND_SCREEN = (1049, 1047, 47)

# Queries that a terminal answers with keyboard input. A replayed query would produce an answer that
# the program does not expect.
_QUESTION = re.compile(
    rb"\x1b\[[>=?]?[0-9;]*[cnx]"  # device attributes, status and cursor position
    rb"|\x1b\[\??[0-9;]*\$p"  # state of a mode
    rb"|\x1b\[(?:1[1345689]|2[01])(?:;[0-9]*)*t"  # position and size of the window
    rb"|\x1b\[>[0-9;]*q"  # version of the terminal
    rb"|\x1b\[\?u"  # keyboard protocol
    rb"|\x1b\][0-9;]*;\?(?:\x07|\x1b\\)"  # colours
    rb"|\x1bP[+$]q[^\x1b\x07]{0,200}(?:\x07|\x1b\\)"  # terminal capabilities and settings
    rb"|\x1bZ|\x05"
)
_STYLE_RESET = b"\x1b[m"


class Modes:
    """The terminal modes that a shell's output has set.

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
        self._rest = b""  # bytes that may start an incomplete sequence

    @property
    def has_second_screen(self) -> bool:
        """Return True if a program uses the alternate screen, as editors do."""
        return any(self._changed.get(mode) for mode in _SECOND_SCREEN)

    def feed(self, data: bytes) -> None:
        """Update the modes with the next bytes of output."""
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
        """Return the sequences that put a new terminal into these modes."""
        sequences = [
            b"\x1b[?%d%b" % (mode, b"h" if on else b"l") for mode, on in self._changed.items()
        ]
        return b"".join(sequences) + (b"\x1b=" if self._keypad else b"")

    def left(self) -> bytes:
        """Return the sequences that restore a terminal's previous modes."""
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
    """Remove queries that a terminal would answer, so that the output can be replayed.

    >>> without_questions(b"hello\\x1b[6n\\x1b[1mworld\\x1b]11;?\\x07")
    b'hello\\x1b[1mworld'
    """
    return _QUESTION.sub(b"", data)


def replay(kept: bytes, most: int) -> bytes:
    """Return the end of a shell's output, which roughly shows a new client the current screen.

    The result starts at the beginning of a line or where a program opened the alternate screen. It
    first sets the modes that were on at that point.

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
    """Return terminal output as plain text, without colours or cursor movements.

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
