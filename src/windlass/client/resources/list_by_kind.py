"""Fetches commands and shells, which the server records as special kinds of trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from windlass.client.arguments.scopes import whole_number
from windlass.client.connection.transport import Transport, request_path
from windlass.client.resources.base import list_resources
from windlass.client.resources.command import CommandRun
from windlass.client.resources.shell import Shell
from windlass.model.errors import InvalidArgument, NotFound
from windlass.model.records import TrialKind, TrialRecord
from windlass.model.requests import TrialPage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windlass.client.connection.pages import Listing

T = TypeVar("T", CommandRun, Shell)

_KINDS: dict[type, TrialKind] = {CommandRun: TrialKind.COMMAND, Shell: TrialKind.SHELL}


def list_by_kind(
    transport: Transport,
    kind: type[T],
    state: str | Sequence[str] | None = None,
    sort_by: str = "id",
    limit: int | None = None,
) -> Listing[T]:
    """List commands or shells, fetching pages on demand."""
    return list_resources(
        transport, kind, TrialPage,
        kind=_KINDS[kind].value, state=state, sort_by=sort_by, limit=limit,
    )  # fmt: skip


def get_by_kind(transport: Transport, kind: type[T], trial_id: Any) -> T:
    """Fetch a command or a shell by its id. Raise an error for a trial of another kind."""
    noun = _KINDS[kind].value
    number = whole_number(trial_id)
    if number is None:
        raise InvalidArgument(
            f"{trial_id!r} is not a {noun} id. Write a whole number.",
            hint=f"See: windlass {noun} ls",
        )
    try:
        record = transport.ask("GET", request_path("trials", number), TrialRecord)
    except NotFound as error:
        raise _missing(transport, kind, number, "") from error
    if record.kind is not _KINDS[kind]:
        is_job = record.kind is TrialKind.JOB
        other = "trial" if is_job else record.kind.value
        raise _missing(transport, kind, number, f" It is a {other}: {record.name}.")
    return kind(transport, record)


def _missing(transport: Transport, kind: type[T], trial_id: int, other: str) -> NotFound:
    noun = _KINDS[kind].value
    newest = next(list_by_kind(transport, kind, sort_by="-id", limit=1), None)
    there = f"The newest is {newest.id}." if newest else "There is none yet."
    return NotFound(
        f"There is no {noun} {trial_id}.{other}",
        hint=f"{there} See them all: windlass {noun} ls",
    )
