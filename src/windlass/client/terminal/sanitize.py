"""Removes terminal escape sequences except colours and progress bars.

The author of a log may be another user than the reader. An escape sequence could set the title of
the reader's window, fill the clipboard, or draw over other text. It could also query the terminal,
and the terminal would answer as if the reader had typed. Such sequences are shown as text.
"""

from __future__ import annotations

import re
from enum import Enum

_COLOUR = r"\x1b\[[0-9;:]*m"
_WITHIN_LINE = r"\x1b\[[0-9;]*[CDGK]"
_BETWEEN_LINES = r"\x1b\[[0-9;]*[ABEF]"
_OTHER = r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]"
_STEERING = re.compile(f"({_COLOUR}|{_WITHIN_LINE})|({_BETWEEN_LINES})|{_OTHER}")
_COLOURS = re.compile(_COLOUR)
_PLAIN = re.compile(r"\x1b\[(?:[0-9;:]*;)?0*m")
RESET = "\x1b[0m"


class Reach(Enum):
    """The area of the terminal that program output may draw on."""

    LINE = "line"  # only its own line, for logs that another user may have written
    LINES = "lines"  # also lines above, for several progress bars of the user's own program
    ALL = "all"  # the whole screen


def tame(text: str, reach: Reach = Reach.LINES) -> str:
    r"""Replace escape sequences by visible text, except sequences for colours and redrawn lines.

    `reach` is the area of the terminal in which cursor movements may take effect.

    >>> tame("\x1b[31mred\x1b[0m 10%\r20% \x1b]0;title\x07\x1b[2J")
    '\x1b[31mred\x1b[0m 10%\r20% \\x1b]0;title\\x07\\x1b[2J'
    >>> tame("up\x1b[A"), tame("up\x1b[A", Reach.LINE)
    ('up\x1b[A', 'up')
    """
    if reach is Reach.ALL or text.isprintable():
        return text

    def shown(match: re.Match[str]) -> str:
        if match[1] or (match[2] and reach is Reach.LINES):
            return match[0]
        # Drop cursor movements silently, because a progress bar is also readable on a new line.
        return "" if match[2] else match[0].encode("unicode_escape").decode()

    return _STEERING.sub(shown, text)


def leaves_colour(text: str) -> bool | None:
    r"""Return whether a colour is still active after a text, or None if the text has no colours.

    >>> leaves_colour("\x1b[31mred"), leaves_colour("\x1b[31mred\x1b[0m"), leaves_colour("plain")
    (True, False, None)
    """
    if "\x1b" not in text:
        return None
    colours = _COLOURS.findall(text)
    return not _PLAIN.fullmatch(colours[-1]) if colours else None
