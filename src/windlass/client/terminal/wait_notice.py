"""Reports why a trial waits, if the status line does not show the reason.

A file or a pipe has no status line, so a long wait is reported as a line of output. A terminal may
cut the end of the status line, which often contains advice. In this case, the whole text appears
above the status line after a short time.
"""

from __future__ import annotations

import threading

from windlass.client.terminal.sanitize import tame
from windlass.client.terminal.status_line import status_text
from windlass.client.terminal.view import View
from windlass.model.records import TrialRecord, TrialState

_LONG = 10.0  # seconds before a wait is reported
_TROUBLED = 3.0  # the same for a starting trial, which may have a permanent problem
_SOON = 1.0  # the same in a terminal that does not show the whole status line
_WAITING = (TrialState.QUEUED, TrialState.STARTING, TrialState.STOPPING)
_REPORTED_ELSEWHERE = (TrialState.QUEUED, TrialState.RESTARTING)


class WaitNotice:
    """Reports the reason of a long wait. Each reason is reported once."""

    def __init__(self, view: View, patience: float | None = None) -> None:
        self._view = view
        self._patience = patience
        self._message = ""
        self._reported: set[str] = set()
        self._timer: threading.Timer | None = None

    def __enter__(self) -> WaitNotice:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def update(self, trial: TrialRecord) -> None:
        """Process the newest record of the trial."""
        message = trial.message if self._is_concerned(trial.state) else ""
        if message.rpartition(": ")[2] == trial.state.value.lower():
            message = ""  # the message only repeats the state
        if message == self._message:
            return
        self._end()
        self._message = message
        text = status_text(trial)
        if message and message not in self._reported and not self._view.shows(text):
            self._timer = threading.Timer(self._wait(trial), self._report, [message, text])
            self._timer.daemon = True
            self._timer.start()

    def _wait(self, trial: TrialRecord) -> float:
        if self._patience is not None:
            return self._patience
        if self._view.is_live:
            return _SOON
        return _TROUBLED if trial.state is TrialState.STARTING else _LONG

    def _is_concerned(self, state: TrialState) -> bool:
        if self._view.is_live:  # other states are shown elsewhere
            return not state.is_final and state not in _REPORTED_ELSEWHERE
        return state in _WAITING

    def _report(self, message: str, text: str) -> None:
        self._reported.add(message)
        (self._view.note if self._view.is_live else self._view.say)(f"T{tame(text)[1:]}")

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
