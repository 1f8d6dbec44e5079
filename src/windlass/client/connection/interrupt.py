"""Stops a trial as Ctrl-C in a terminal stops a program."""

from __future__ import annotations

from windlass.client.connection.transport import Transport, request_path
from windlass.model.records import TrialRecord
from windlass.model.requests import StopTrial

TIME_TO_CLEAN_UP = StopTrial().grace / 2  # seconds from SIGINT to SIGTERM


def interrupt(transport: Transport, trial_id: int, reason: str) -> TrialRecord:
    """Stop a trial with SIGINT, which becomes SIGTERM and SIGKILL if the trial continues."""
    body = StopTrial(reason=reason, interrupt=True)
    return transport.ask("POST", request_path("trials", trial_id, "stop"), TrialRecord, body=body)
