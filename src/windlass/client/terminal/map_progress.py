"""Shows how many trials of a `map` call are done, running, failed or stopped."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from windlass.client.connection.experiment_events import ExperimentEvents
from windlass.client.connection.transport import Transport
from windlass.client.terminal.screen import Redraw
from windlass.client.terminal.sparse_lines import SparseLines
from windlass.client.terminal.view import View
from windlass.model.errors import WindlassError
from windlass.model.records import TrialRecord, TrialState

if TYPE_CHECKING:
    from windlass.client.terminal.notebook_cell import CellStatus

_FIRST = 1.0  # seconds; a shorter `map` needs no progress
_TICK = 0.5
_RUNNING = (TrialState.STARTING, TrialState.RUNNING, TrialState.RESTARTING)


class MapProgress:
    """Shows a text such as "train: 7 of 20 done, 2 running, 1 failed" while a `map` waits.

    In a terminal, this text precedes the status of the trial whose value comes next. In a file or a
    pipe, the text appears as occasional lines. `is_own` returns whether a trial belongs to the
    `map`.
    """

    def __init__(self, name: str, is_own: Callable[[int], bool], total: Callable[[], int]) -> None:
        self._name = name
        self._is_own = is_own
        self._total = total
        self._states: dict[int, TrialState] = {}
        self._view: View | None = None
        self._cell: CellStatus | None = None  # one output of a notebook cell for all views
        self._first: TrialRecord | None = None
        self._transport: Transport | None = None
        self._following: ExperimentEvents | None = None
        self._began = time.monotonic()
        self._lines = SparseLines(self._began)
        self._redraw = Redraw(self._tick, _TICK, "windlass-map")

    def start(self, transport: Transport, first: TrialRecord) -> None:
        """Start showing the progress. `first` is the first trial of the `map`."""
        self._transport, self._first = transport, first
        self._redraw.start()

    @contextlib.contextmanager
    def showing(self, view: View) -> Iterator[None]:
        """Show the progress in a view during the `with` block."""
        if view.cell is not None:
            self._cell = self._cell or view.cell
            view.share_cell(self._cell)
        if view.is_live and len(self._states) > 1:
            view.overall(self.text())
        self._view = view
        try:
            yield
        finally:
            self._view = None

    def close(self) -> None:
        """End the thread that follows the trials."""
        self._redraw.stop()
        if self._following is not None:
            self._following.cut()
        if self._cell is not None:
            self._cell.overall = self.text() if len(self._states) > 1 else ""
            self._cell.end()

    def ended(self, trial: TrialRecord) -> None:
        """Take the record of a trial whose value the `map` has received."""
        self._states[trial.id] = trial.state

    def text(self) -> str:
        """Return the progress as a line of text."""
        total, counts = self._total(), Counter(self._states.copy().values())
        done = counts[TrialState.SUCCEEDED]
        numbers = {
            "running": sum(counts[state] for state in _RUNNING),
            "stopping": counts[TrialState.STOPPING],
            "failed": counts[TrialState.FAILED],
            "stopped": counts[TrialState.STOPPED],
        }
        parts = [f"{done} of {total} done"]
        parts += [f"{number} {word}" for word, number in numbers.items() if number]
        return f"{self._name}: {', '.join(parts)}"

    def _tick(self) -> None:
        if self._following is None:
            if time.monotonic() - self._began >= _FIRST:
                self._follow()
            return
        view = self._view
        if view is None or len(self._states) < 2:
            return
        text = self.text()
        if view.is_live:
            view.overall(text)
        elif self._lines.is_due(text, time.monotonic()):
            view.say(text)

    def _follow(self) -> None:
        if self._transport is None or self._first is None:
            return
        first = self._first
        self._following = ExperimentEvents(
            self._transport, first.experiment_id, created_after=first.created - 1e-3
        )
        threading.Thread(target=self._read, name="windlass-map-events", daemon=True).start()

    def _read(self) -> None:
        assert self._following is not None  # noqa: S101 -- `_follow` has set it
        with contextlib.suppress(WindlassError):  # the wait for the next value reports the error
            for news in self._following:
                if isinstance(news, TrialRecord) and self._is_own(news.id):
                    self._states[news.id] = news.state
