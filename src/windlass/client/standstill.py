"""Trials that do not begin, or do not end, told of where nobody sees a status line."""

from __future__ import annotations

import threading

from windlass.client.standing import status_text
from windlass.client.taming import tame
from windlass.client.view import View
from windlass.model.records import TrialRecord, TrialState

_LONG = 10.0  # seconds after which it is worth a line
_WAITING = (TrialState.QUEUED, TrialState.STARTING, TrialState.STOPPING)


class Standstill:
    """Says what a trial has waited for so long already; each thing once."""

    def __init__(self, view: View, patience: float = _LONG) -> None:
        self._view = view
        self._patience = patience
        self._text = ""
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Standstill:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def look(self, trial: TrialRecord) -> None:
        """See how a trial stands now."""
        if self._view.is_live:
            return
        text = status_text(trial) if trial.state in _WAITING and trial.message else ""
        if text == self._text:
            return
        self._end()
        self._text = text
        if text:
            self._timer = threading.Timer(self._patience, self._view.say, [f"T{tame(text)[1:]}"])
            self._timer.daemon = True
            self._timer.start()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
