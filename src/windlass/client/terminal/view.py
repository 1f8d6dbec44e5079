"""Shows a running trial's output as it arrives, with a status line below.

In a terminal, the status line is erased before each new piece of output and redrawn below it. Only
escape sequences that set colours or draw progress bars take effect (`sanitize.py`). A file or a
pipe gets only the unchanged output.

With several replicas, only whole lines are printed, each after its replica's name. A line that
stays unfinished for a while takes the place of the status line until it ends.

In a notebook, the status is an output of the cell that is updated in place (`notebook_cell.py`).
Output is printed in whole lines, so that a saved notebook has only a progress bar's last state.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from itertools import groupby
from operator import add, attrgetter
from typing import TYPE_CHECKING, TextIO

from windlass.client.connection.wait_reports import show_in, stop_showing_in
from windlass.client.terminal.notebook_cell import in_notebook
from windlass.client.terminal.recent_output import RecentOutput
from windlass.client.terminal.sanitize import RESET, Reach, leaves_colour, tame
from windlass.client.terminal.screen import (
    Redraw,
    can_encode,
    cells,
    encodable,
    fit,
    is_terminal,
    may_colour,
    terminal_size,
    write,
)
from windlass.client.terminal.sparse_lines import SparseLines
from windlass.model.logs import LogPart
from windlass.model.text.quantities import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from windlass.client.terminal.interleave import Lanes, OutputLine
    from windlass.client.terminal.notebook_cell import CellStatus

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_FRAMES = "|/-\\"
_DELAY = 0.15  # seconds before a status line appears
_TICK = 0.1
_TICK_PLAIN = 0.5
_TICK_CELL = 0.25
_CLOCK = 12  # terminal cells for the spinner and the time: "⠋ ", " 59m 59s"
_PAUSE = 0.3  # seconds before one of several replicas' unfinished lines is shown


class View:
    """Shows the output and status of one run.

    Use a view as a context manager, so that its status line is always erased at the end.
    """

    def __init__(
        self,
        out: TextIO | None = None,
        err: TextIO | None = None,
        *,
        reach: Reach = Reach.LINES,
    ) -> None:
        self._reach = reach
        self.cell = _new_cell() if out is None and err is None and in_notebook() else None
        self._owns_cell = True
        self._out = out or sys.stdout or _nowhere()
        self._err = err or sys.stderr or _nowhere()
        draws = is_terminal(self._err) and os.environ.get("TERM") != "dumb"
        self.is_live = draws or self.cell is not None
        self._is_coloured = draws and not os.environ.get("NO_COLOR")
        self._shares_screen = draws and is_terminal(self._out)
        is_plain = not can_encode(self._err, _FRAMES)
        self._frames = _PLAIN_FRAMES if is_plain else _FRAMES
        self._ellipsis = "..." if is_plain else "…"
        self._text = ""
        self._progress: float | None = None
        self._since = time.monotonic()
        self._is_drawn = False
        self._coloured: set[TextIO] = set()  # terminals where a colour is active
        self._open_line: TextIO | None = None  # the stream with an unfinished line
        self._last_target: TextIO | None = None
        self._recent = RecentOutput()
        # Set for a trial with several replicas, and in notebooks.
        self._lanes = None if self.cell is None else _lanes([])
        self._colours = {self._out: may_colour(self._out), self._err: may_colour(self._err)}
        self._lock = threading.Lock()
        self._frame = 0
        self._awaited = ""  # the current wait, for a file or a pipe
        self._overall = ""  # the combined state of all trials that the program waits for
        self._lines = SparseLines()
        if self.cell is not None:
            self._redraw = Redraw(self._tick_cell, _TICK_CELL, "windlass-view")
        elif self.is_live:
            self._redraw = Redraw(self._tick, _TICK, "windlass-view")
        else:
            self._redraw = Redraw(self._tick_plain, _TICK_PLAIN, "windlass-view")

    def __enter__(self) -> View:
        self._redraw.start()
        show_in(self.say)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        stop_showing_in(self.say)
        self._redraw.stop()
        self.end_lines()
        with self._lock:
            self._wipe()
            self._end_open_line()
            if self.cell is not None and self._owns_cell:
                self.cell.end("" if error else self._text)
            for terminal in self._coloured:  # later output must not inherit the colour
                terminal.write(RESET)
                terminal.flush()

    def status(self, text: str, progress: float | None = None) -> None:
        """Set the status line's text and, if known, the progress from 0 to 1."""
        # The text may contain an untrusted message from a cluster or a program.
        text = " ".join(tame(text, Reach.LINE).split())
        with self._lock:
            self._progress = progress
            if text != self._text:
                self._text = text
                self._since = time.monotonic()

    def stage(self, text: str) -> None:
        """Show this program's current step, which can take long, in the status line."""
        self.status(text)
        self.wait_for(text)

    def wait_for(self, text: str) -> None:
        """Set the text that describes the current wait.

        In a file or a pipe, the text appears as occasional lines.
        """
        self._awaited = " ".join(tame(text, Reach.LINE).split())

    def overall(self, text: str) -> None:
        """Set the text in front of the status, which summarizes all trials being waited for."""
        self._overall = text
        if self.cell is not None:
            self.cell.overall = text

    def share_cell(self, cell: CellStatus) -> None:
        """Show the status in an output that several views use one after another."""
        self.cell, self._owns_cell = cell, False

    def shows(self, text: str) -> bool:
        """Return whether a status text fits into the status line together with the elapsed time."""
        if self.cell is not None:
            return True
        return self.is_live and cells(text) <= terminal_size()[0] - _CLOCK

    def show(self, part: LogPart) -> None:
        """Print a piece of output to the stream that the program wrote it to, stdout or stderr."""
        self._recent.add(part)
        self.show_all((part,))

    def has_shown(self, text: str) -> bool:
        """Return whether the output printed last contains a text."""
        return sys.stderr is not None and self._recent.contains(text)

    def show_all(self, parts: Iterable[LogPart]) -> None:
        """Print pieces of output to the streams that the program wrote them to, stdout or stderr.

        Successive pieces for the same stream are written together.
        """
        if self._lanes is not None:
            if self.cell is not None and not self.cell.is_shown:
                self._tick_cell()  # the status is shown above the output
            for part in parts:
                with self._lock:
                    self._print(self._lanes, self._lanes.feed(part, time.monotonic()))
            return
        for stream, run in groupby(parts, key=attrgetter("stream")):
            target = self._err if stream == "stderr" else self._out
            pieces = list(run)
            with self._lock:
                self._wipe()
                if self._open_line is not None and self._open_line is not target:
                    self._end_open_line()
                texts = [piece.text for piece in pieces]
                if is_terminal(target):
                    texts = [tame(text, self._reach) for text in texts]
                    for text in texts:
                        self._note_colour(target, text)
                ends = ["\n" if piece.end else "" for piece in pieces]
                self._write(target, "".join(map(add, texts, ends)))
                self._open_line = None if pieces[-1].end else target

    def tell_apart(self, names: Sequence[str]) -> None:
        """From now on, prefix each line with its replica's name.

        If `names` is empty, nothing changes.
        """
        if not names:
            return
        with self._lock:
            if self._lanes is None:
                self._end_open_line()
                self._lanes = _lanes(names)
            else:
                self._lanes.rename(names)

    def end_lines(self) -> None:
        """Print the unfinished lines of all replicas."""
        if self._lanes is not None:
            with self._lock:
                self._print(self._lanes, self._lanes.rest())

    def flush(self) -> None:
        """Flush stdout and stderr."""
        with self._lock:
            self._out.flush()
            self._err.flush()

    def say(self, text: str) -> None:
        """Print a message from Windlass to stderr."""
        with self._lock:
            self._wipe()
            self._end_open_line()
            self._write(self._err, text + "\n")
            self._err.flush()

    def note(self, text: str) -> None:
        """Print a message from Windlass, but only in a terminal."""
        if self.cell is not None:
            self.cell.note(text)
        elif self.is_live:
            text = tame(text)
            self.say(f"\x1b[2m{text}\x1b[0m" if self._is_coloured else text)

    def _print(self, lanes: Lanes, lines: Iterable[OutputLine]) -> None:
        """Print whole lines from several replicas, prefixed with the replicas' names."""
        from windlass.client.terminal.interleave import contained

        for line in lines:
            self._wipe()
            target = self._err if line.stream == "stderr" else self._out
            text = line.text
            if self.cell is not None:
                text = contained(text)
            elif is_terminal(target) and self._reach is not Reach.ALL:
                text = tame(contained(text))
            prefix = lanes.prefix(line.name, coloured=self._colours[target])
            self._write(target, f"{prefix}{text}\n")

    def _write(self, target: TextIO, text: str) -> None:
        """Write text after everything written earlier, even to the other stream.

        Stdout and stderr can lead to the same file or pipe, so the other stream is flushed first.
        """
        if self._last_target is not None and self._last_target is not target:
            self._last_target.flush()
        write(target, text)
        self._last_target = target

    def _note_colour(self, target: TextIO, text: str) -> None:
        left = leaves_colour(text)
        if left is not None and self._reach is not Reach.ALL:
            (self._coloured.add if left else self._coloured.discard)(target)

    def _end_open_line(self) -> None:
        # An unfinished line only needs to end if both streams lead to the same terminal.
        if self._open_line is not None and self._shares_screen:
            write(self._open_line, "\n")
        if self._open_line is not None:
            self._open_line.flush()
            self._open_line = None

    def _tick_plain(self) -> None:
        text = self._awaited
        if self._lines.is_due(text, time.monotonic()):
            self.say(text)

    def _tick_cell(self) -> None:
        with self._lock:
            if not self._redraw.is_stopped:
                self._draw_cell()

    def _draw_cell(self) -> None:
        from windlass.client.terminal.interleave import uncoloured

        if self.cell is None or not self._text:
            return
        begun = self._lanes.unended(time.monotonic() - _PAUSE) if self._lanes else None
        line = "" if begun is None or self._lanes is None else self._lanes.prefix(begun.name)
        line += "" if begun is None else uncoloured(begun.text)
        passed = int(time.monotonic() - self._since)
        # During a long wait, the time is updated less often.
        clock = self._clock(passed - passed % (10 if passed > 60 else 1))
        self.cell.update(self._text, clock, line)

    def _tick(self) -> None:
        self._frame += 1
        with self._lock:
            now = time.monotonic()
            lanes = self._lanes
            begun = lanes.unended(now - _PAUSE) if lanes else None
            is_due = self._is_drawn or now - self._since >= _DELAY
            if lanes is not None and begun is not None:
                self._draw_begun(lanes, begun)
            elif self._text and self._open_line is None and is_due:
                self._draw(self._frame)

    def _draw(self, frame: int) -> None:
        passed = int(time.monotonic() - self._since)
        clock = self._clock(passed)
        text = f"{self._overall}; {self._text}" if self._overall else self._text
        line = f"{self._frames[frame % len(self._frames)]} {text}"
        width = terminal_size()[0] - 4 - len(clock)
        line = fit(encodable(self._err, line), width, self._ellipsis) + clock
        mark = f"\x1b[36m{line[0]}\x1b[0m" if self._is_coloured else line[0]
        write(self._err, f"\r\x1b[K{mark}{line[1:]}")
        self._err.flush()
        self._is_drawn = True

    def _clock(self, passed: int) -> str:
        """Return the progress and the elapsed time, with a space before each."""
        share = "" if self._progress is None else f" {self._progress:.0%}"
        return share + (f" {format_duration(passed)}" if passed else "")

    def _draw_begun(self, lanes: Lanes, line: OutputLine) -> None:
        """Draw a replica's unfinished line in place of the status line, cut to the terminal."""
        from windlass.client.terminal.interleave import uncoloured

        width = terminal_size()[0] - len(lanes.prefix(line.name)) - 1
        text = encodable(self._err, tame(uncoloured(line.text)))
        prefix = lanes.prefix(line.name, coloured=self._is_coloured)
        write(self._err, f"\r\x1b[K{prefix}{fit(text, width, self._ellipsis)}")
        self._err.flush()
        self._is_drawn = True

    def _wipe(self) -> None:
        if self._is_drawn:
            write(self._err, "\r\x1b[K")
            self._err.flush()
            self._is_drawn = False


def _new_cell() -> CellStatus:
    from windlass.client.terminal.notebook_cell import CellStatus

    return CellStatus()


def _lanes(names: Sequence[str]) -> Lanes:
    from windlass.client.terminal.interleave import Lanes

    return Lanes(names)


def _nowhere() -> TextIO:
    """Return a stream that discards output.

    It stands in for a standard stream that was closed before Python started.
    """
    return open(os.devnull, "w")
