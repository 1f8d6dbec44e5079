"""Shows untrusted text in a terminal, with control characters escaped and widths correct."""

from __future__ import annotations

import unicodedata


def clean(text: str) -> str:
    r"""Return the text as one line, with control characters escaped.

    >>> clean("two\nlines, \x1b[31mred")
    'two lines, \\x1b[31mred'
    """
    if text.isprintable():
        return text
    text = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def clean_lines(text: str) -> str:
    r"""Keep the text's line breaks and tabs, and escape all other control characters.

    >>> clean_lines("two\nlines, \x1b[31mred")
    'two\nlines, \\x1b[31mred'
    """
    return "\n".join(
        "".join(
            c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line
        )
        for line in text.split("\n")
    )


def shorten(text: str, width: int) -> str:
    """Shorten text to a width, marking the cut with an ellipsis.

    >>> shorten("accuracy", 8), shorten("accuracy", 5)
    ('accuracy', 'accu…')
    """
    if width_of(text) <= width:
        return text
    left, end = width - 1, 0
    while end < len(text) and (left := left - width_of(text[end])) >= 0:
        end += 1
    return text[:end] + "…"


def width_of(text: str) -> int:
    """Return how many columns text occupies on a screen.

    >>> width_of("loss"), width_of("損失")
    (4, 4)
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
