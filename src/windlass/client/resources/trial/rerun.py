"""Repeats a recorded trial as a new trial, with or without changes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from windlass.model.errors import WindlassError

if TYPE_CHECKING:
    from windlass.authoring.rerun.rerun import Changes
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.records import TrialRecord


def submit_rerun(transport: Transport, record: TrialRecord, changes: Changes) -> Trial[Any]:
    """Submit a recorded trial again with some changes.

    Warnings point to the line of user code that called the public method.
    """
    from windlass.authoring.rerun.rerun import prepare_rerun
    from windlass.client.client import Client

    client = Client.over(transport)
    try:
        draft, notes = prepare_rerun(client, record, changes)
        for note in notes:
            warnings.warn(note, stacklevel=3)
        return client.submit(draft)
    except WindlassError as error:
        failure = error.with_traceback(None)  # hide Windlass frames from users
    raise failure
