"""Draws lines at the bottom of a terminal, and redraws them when their text changes.

To a file or a pipe, the first line is written now and then, and the final lines at the end. In a
notebook, all lines are one output of the cell, which is updated in place.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from windlass.client.terminal.notebook_cell import CellOutput, in_notebook
from windlass.client.terminal.screen import (
    Redraw,
    cells,
    encodable,
    fit,
    is_terminal,
    may_colour,
    terminal_size,
    write,
)
from windlass.client.terminal.sparse_lines import SparseLines

_TICK = 0.2
_TICK_CELL = 0.5
_STYLES = {
    "bold": 1,
    "name": 1,  # a name, which is shortened before other parts of the line
    "dim": 2,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "magenta": 35,
    "cyan": 36,
}
_SHORTEST_NAME = 12

Span = tuple[str, str]  # text and its style, which may be ""
Line = Sequence[Span]


class Live:
    """Draws the lines returned by `render` several times a second during a `with` block.

    A separate thread calls `render`. Lines printed with `say` stay above the drawn lines.

    ```python
    with Live(lambda: [[("3 running", "bold")]]) as live:
        live.say("a line that stays")
    ```
    """

    def __init__(self, render: Callable[[], Sequence[Line]], out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._render = render
        self._cell = CellOutput() if out is None and in_notebook() else None
        self._said: list[Line] = []  # the permanent lines in a notebook
        draws = (
            self._out is not None
            and is_terminal(self._out)
            and os.environ.get("TERM") not in ("dumb", "")
        )
        self.is_live = draws or self._cell is not None
        self._is_coloured = draws and may_colour(self._out)
        self._drawn: list[str] = []
        self._lock = threading.Lock()
        self._lines = SparseLines()
        draw = self._tick if draws else self._tick_plain
        if self._cell is not None:
            self._redraw = Redraw(self._tick_cell, _TICK_CELL, "windlass-live")
        else:
            self._redraw = Redraw(draw, _TICK, "windlass-live")

    def __enter__(self) -> Live:
        if self._out is not None:
            self._redraw.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._redraw.stop()
        with self._lock:
            self._wipe()
            self._show_cell([])

    def say(self, *lines: Line) -> None:
        """Print permanent lines, even if the output is not a terminal."""
        if self._cell is not None:
            with self._lock:
                self._said += lines
            return
        if self._out is None:
            return
        with self._lock:
            self._wipe()
            for line in lines:
                write(self._out, self._painted(line, None) + "\n")
            self._out.flush()

    def _tick_plain(self) -> None:
        """Occasionally print the first of the drawn lines to an output that is not a terminal.

        The line's elapsed time is left out.
        """
        line = next(iter(self._render()), ())
        line = [(text, style) for text, style in line if style != "dim"]
        if self._lines.is_due("".join(text for text, _ in line), time.monotonic()):
            self.say(line)

    def _tick_cell(self) -> None:
        lines = self._render()
        with self._lock:
            if not self._redraw.is_stopped:
                self._show_cell(lines)

    def _show_cell(self, lines: Sequence[Line]) -> None:
        from windlass.display.html.lines import lines_page

        shown = [*self._said, *lines]
        if self._cell is not None and (shown or self._cell.is_shown):
            text = "\n".join("".join(part for part, _ in line) for line in shown)
            self._cell.show(lines_page(shown) if shown else "", text)

    def _tick(self) -> None:
        columns, rows = terminal_size(self._out)
        lines = [self._painted(line, columns - 1) for line in self._render()[: rows - 1]]
        with self._lock:
            if lines != self._drawn and not self._redraw.is_stopped:
                self._draw(lines)

    def _draw(self, lines: list[str]) -> None:
        up = f"\x1b[{len(self._drawn)}A" if self._drawn else ""
        body = "".join(f"{line}\x1b[K\n" for line in lines)
        write(self._out, f"\r{up}{body}\x1b[J")
        self._out.flush()
        self._drawn = lines

    def _wipe(self) -> None:
        if self._drawn:
            write(self._out, f"\r\x1b[{len(self._drawn)}A\x1b[J")
            self._out.flush()
            self._drawn = []

    def _painted(self, line: Line, width: int | None) -> str:
        """Return a line with its colours, shortened to `width` terminal cells."""
        painted = ""
        ellipsis = "…" if encodable(self._out, "…") == "…" else "..."
        spans = [(encodable(self._out, _one_line(text)), style) for text, style in line]
        if width is not None:
            spans = _giving_way(spans, width, ellipsis)
        for shown, style in spans:
            if width is not None:
                if width <= 0:
                    break
                cut = fit(shown, width, ellipsis)
                width = 0 if cut != shown else width - cells(shown)
                shown = cut
            code = _STYLES.get(style)
            is_painted = self._is_coloured and code is not None
            painted += f"\x1b[{code}m{shown}\x1b[0m" if is_painted else shown
        return painted


def _giving_way(spans: list[Span], width: int, ellipsis: str) -> list[Span]:
    """Shorten the name in a line that is too long.

    To make space for normal text, the name is shortened as much as necessary. To make space for dim
    text, it is shortened only a little.

    >>> line = [("search ", ""), ("'of-a-very-long-name'", "name"), ("  7 of 24 trials", "")]
    >>> _giving_way(line, 36, "…")[1]
    ("'of-a-very-l…", 'name')
    >>> _giving_way([*line, ("  9s, about 21s left", "dim")], 36, "…")[1]
    ("'of-a-very-…", 'name')
    >>> _giving_way([*line, ("  9s, about 21s left", "dim")], 30, "…")[1]
    ("'of-a-…", 'name')
    """
    others = sum(cells(text) for text, style in spans if style != "name")
    dim = sum(cells(text) for text, style in spans if style == "dim")
    left = max(width - others, min(_SHORTEST_NAME, width - others + dim))
    return [
        (fit(text, left, ellipsis) if style == "name" else text, style) for text, style in spans
    ]


def _one_line(text: str) -> str:
    """Convert untrusted text to one line without control characters."""
    if text.isprintable():
        return text
    spaced = "".join(" " if c.isspace() else c for c in text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in spaced)
