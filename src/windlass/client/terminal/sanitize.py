"""Removes terminal escape sequences except colours and progress bars.

A log's author may not be its reader. An escape sequence could set the title of the reader's window,
fill the clipboard or draw over other text. It could also query the terminal, whose response would
look like typed input. Such sequences are shown as text.
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
    """How far program output may move the cursor when it draws on the terminal."""

    LINE = "line"  # within its own line, for logs that another user may have written
    LINES = "lines"  # also to lines above, for several progress bars in the user's own program
    ALL = "all"  # to the whole screen


def tame(text: str, reach: Reach = Reach.LINES) -> str:
    r"""Replace escape sequences with visible text, except for colours and redrawn lines.

    `reach` limits how far cursor movements may go.

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
        # Drop cursor movements silently, because a progress bar is still readable on a new line.
        return "" if match[2] else match[0].encode("unicode_escape").decode()

    return _STEERING.sub(shown, text)


def leaves_colour(text: str) -> bool | None:
    r"""Return whether text leaves a colour active, or None if it contains no colours.

    >>> leaves_colour("\x1b[31mred"), leaves_colour("\x1b[31mred\x1b[0m"), leaves_colour("plain")
    (True, False, None)
    """
    if "\x1b" not in text:
        return None
    colours = _COLOURS.findall(text)
    return not _PLAIN.fullmatch(colours[-1]) if colours else None
