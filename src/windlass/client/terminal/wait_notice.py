"""Reports why a trial is waiting, in addition to the status line.

A file or a pipe has no status line, so waits are reported there as occasional lines of output. A
terminal may cut off the end of the status line, which often contains advice. If so, the whole text
appears above the status line after a short time.
"""

from __future__ import annotations

import threading

from windlass.client.terminal.sanitize import tame
from windlass.client.terminal.status_line import status_text
from windlass.client.terminal.view import View
from windlass.model.records import TrialRecord, TrialState

_SOON = 1.0  # seconds before a terminal shows the whole text
_REPORTED_ELSEWHERE = (TrialState.QUEUED, TrialState.RESTARTING)


class WaitNotice:
    """Reports each reason for a long wait once.

    With `reports_running`, a running trial counts as a wait, because its output is not shown.
    """

    def __init__(self, view: View, *, reports_running: bool = False) -> None:
        self._view = view
        self._reports_running = reports_running
        self._message = ""
        self._reported: set[str] = set()
        self._timer: threading.Timer | None = None

    def __enter__(self) -> WaitNotice:
        return self

    def __exit__(self, *_: object) -> None:
        self._view.wait_for("")
        self._end()

    def update(self, trial: TrialRecord) -> None:
        """Take the trial's newest record, and schedule a report if the trial is waiting."""
        if self._view.is_live:
            self._report_soon(trial)
            return
        waits = trial.state is not TrialState.RUNNING or self._reports_running
        is_wait = waits and not trial.state.is_final
        self._view.wait_for(_as_sentence(status_text(trial)) if is_wait else "")

    def _report_soon(self, trial: TrialRecord) -> None:
        """Schedule a report of a message that the terminal's status line cannot show in full.

        Queue positions are left out, because they change often. Restarts are reported elsewhere.
        """
        is_concerned = not trial.state.is_final and trial.state not in _REPORTED_ELSEWHERE
        message = trial.message if is_concerned else ""
        if message.rpartition(": ")[2] == trial.state.value.lower():
            message = ""  # the message only repeats the state
        if message == self._message:
            return
        self._end()
        self._message = message
        text = status_text(trial)
        if message and message not in self._reported and not self._view.shows(text):
            self._timer = threading.Timer(_SOON, self._report, [message, text])
            self._timer.daemon = True
            self._timer.start()

    def _report(self, message: str, text: str) -> None:
        self._reported.add(message)
        self._view.note(_as_sentence(text))

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _as_sentence(text: str) -> str:
    return f"T{tame(text)[1:]}"
