"""Asking for commands and shells: trials of a kind of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.client.pages import Listing, walk, words
from windlass.client.scopes import whole_number
from windlass.client.transport import Transport, path_of
from windlass.model.errors import InvalidArgument, NotFound
from windlass.model.records import TrialKind, TrialRecord
from windlass.model.wire import TrialPage


def list_records(
    transport: Transport,
    kind: TrialKind,
    state: str | Sequence[str] | None,
    sort_by: str,
    limit: int | None,
) -> Listing[TrialRecord]:
    """The records of one kind, lazily, a page at a time."""
    query: dict[str, Any] = {
        "kind": kind.value,
        "state": words("state", state, str.upper),
        "sort": sort_by,
    }
    return walk(transport, "/trials", TrialPage, query, limit)


def get_record(transport: Transport, trial_id: Any, kind: TrialKind) -> TrialRecord:
    """The one with that id; if it is something else, that is told, and which there are."""
    number = whole_number(trial_id)
    if number is None:
        raise InvalidArgument(
            f"{trial_id!r} is no id of a {kind.value}: it is a whole number.",
            hint=f"See: windlass {kind.value} ls",
        )
    try:
        record = transport.ask("GET", path_of("trials", number), TrialRecord)
    except NotFound as error:
        raise _missing(transport, number, kind, "") from error
    if record.kind is not kind:
        what = f" It is a {record.kind.value}" if record.kind is not TrialKind.JOB else " It is"
        is_trial = " a trial" if record.kind is TrialKind.JOB else ""
        raise _missing(transport, number, kind, f"{what}{is_trial}: {record.name}.")
    return record


def _missing(transport: Transport, trial_id: int, kind: TrialKind, is_other: str) -> NotFound:
    newest = list(list_records(transport, kind, None, "-id", 1))
    there = f"The newest is {newest[0].id}." if newest else "There is none yet."
    return NotFound(
        f"There is no {kind.value} {trial_id}.{is_other}",
        hint=f"{there} See them all: windlass {kind.value} ls",
    )
