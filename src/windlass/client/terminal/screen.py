"""Helpers for terminal output: sizes, text widths and a thread that redraws."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TextIO


class Redraw:
    """Calls a function several times a second in a separate thread, from `start` until `stop`."""

    def __init__(self, draw: Callable[[], None], seconds: float, name: str) -> None:
        self._draw = draw
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread that calls the function."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the calls and wait until the last one has ended."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called. From then on, a running call must draw nothing more."""
        return self._stop.is_set()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self._draw()


def terminal_size(stream: TextIO | None = None) -> tuple[int, int]:
    """Return the columns and rows of a stream's terminal, by default that of stderr."""
    try:
        columns, rows = os.get_terminal_size(2 if stream is None else stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return columns or 80, rows or 24  # a terminal of unknown size reports 0


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def may_colour(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colours and the user has not disabled them."""
    is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "")
    return is_wanted and is_terminal(stream)


def can_encode(stream: TextIO, text: str) -> bool:
    """Return whether a stream's encoding supports the given characters."""
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError, AttributeError):
        return False
    return True


def write(stream: TextIO, text: str) -> None:
    """Write text to a stream, escaping characters that the stream cannot encode."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(encodable(stream, text))


def encodable(stream: TextIO, text: str) -> str:
    """Escape the characters that a stream cannot encode."""
    if can_encode(stream, text):
        return text
    encoding = stream.encoding or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def fit(text: str, width: int, ellipsis: str) -> str:
    """Cut text to a number of terminal cells, but keep at least its first character.

    >>> fit("* queued", 6, "…"), fit("* 训练", 5, "…"), fit("* queued", -1, "…")
    ('* que…', '* 训…', '*')
    """
    if cells(text) <= width:
        return text
    left = width - len(ellipsis)
    end = 0
    while end < len(text) and (left := left - cells(text[end])) >= 0:
        end += 1
    return text[:end] + ellipsis if end else text[:1]


def cells(text: str) -> int:
    """Return the number of terminal cells that text occupies."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
