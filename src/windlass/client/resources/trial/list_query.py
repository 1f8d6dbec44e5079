"""Fetches single trials and lists of trials."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from windlass.client.arguments.scopes import whole_number
from windlass.client.connection.pages import Listing
from windlass.client.resources.base import list_resources
from windlass.client.resources.trial.trial import Trial, get_trial
from windlass.model.errors import InvalidArgument, shown
from windlass.model.requests import TrialPage

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from windlass.client.arguments.filters import Filters
    from windlass.client.connection.transport import Transport


def find_trial(transport: Transport, trial_id: int | str) -> Trial[Any]:
    """Fetch a trial by a user-supplied id."""
    number = whole_number(trial_id)
    if number is None:
        raise InvalidArgument(
            f"{trial_id!r} is not a trial id. Write a whole number.", hint="See: windlass ls"
        )
    return get_trial(transport, number)


def list_trials(
    transport: Transport,
    *,
    sort_by: str = "id",
    limit: int | None = None,
    **filters: Unpack[Filters],
) -> Listing[Trial[Any]]:
    """List the trials that match the filters, fetching pages on demand."""
    return list_resources(transport, Trial, TrialPage, sort_by=sort_by, limit=limit, **filters)


def trial_ids(trials: Iterable[Trial[Any] | int]) -> list[int]:
    """Return the ids of trials given as trials or ids."""
    if not isinstance(trials, Iterable):
        raise InvalidArgument(
            f"{shown(trials)} is not a list of trials.", hint="Write it as [3, 5]. See: windlass ls"
        )
    ids = [trial.id if isinstance(trial, Trial) else trial for trial in trials]
    wrong = [value for value in ids if isinstance(value, bool) or not isinstance(value, int)]
    if wrong:
        raise InvalidArgument(
            f"{shown(wrong[0])} is neither a trial nor a trial id.", hint="See: windlass ls"
        )
    return ids
