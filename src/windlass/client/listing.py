"""Lists of trials: what is asked for, as the server reads it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.attributes import label_query
from windlass.client.moments import moment_of
from windlass.client.pages import Listing, flag, walk, words
from windlass.client.scopes import scope
from windlass.client.trials import Trial
from windlass.model.errors import InvalidArgument, shown
from windlass.model.wire import TrialPage

if TYPE_CHECKING:
    from windlass.client.experiments import Experiment
    from windlass.client.moments import Moment
    from windlass.client.places import Project
    from windlass.client.transport import Transport


def list_trials(
    transport: Transport,
    *,
    experiment: Experiment | str | int | None = None,
    project: Project | str | int | None = None,
    state: str | Sequence[str] | None = None,
    name: str | None = None,
    labels: str | Sequence[str] | None = None,
    user: str | None = None,
    kind: str | Sequence[str] | None = None,
    created_after: Moment | None = None,
    created_before: Moment | None = None,
    where: str | None = None,
    origin_id: int | None = None,
    parent_id: int | None = None,
    archived: bool | None = None,
    sort_by: str = "id",
    limit: int | None = None,
) -> Listing[Trial[Any]]:
    """Trials that match, lazily: each page is asked for when it is needed."""
    query: dict[str, Any] = {
        **scope("experiment", experiment),
        **scope("project", project),
        "state": words("state", state, str.upper),
        "name": name,
        "labels": label_query(labels),
        "user": user,
        "kind": words("kind", kind, str.lower),
        "created_after": moment_of("created_after", created_after),
        "created_before": moment_of("created_before", created_before),
        "where": where,
        "origin_id": origin_id,
        "parent_id": parent_id,
        "archived": flag(archived),
        "sort": sort_by,
    }
    pages = walk(transport, "/trials", TrialPage, query, limit)
    return pages.each(lambda record: Trial(transport, record))


def trial_ids(trials: Iterable[Trial[Any] | int]) -> list[int]:
    """The ids of trials that are named by themselves or by their ids."""
    if not isinstance(trials, Iterable):
        raise InvalidArgument(
            f"{shown(trials)} is no list of trials.", hint="Write it as [3, 5]. See: windlass ls"
        )
    ids = [each.id if isinstance(each, Trial) else each for each in trials]
    wrong = [each for each in ids if isinstance(each, bool) or not isinstance(each, int)]
    if wrong:
        raise InvalidArgument(
            f"{shown(wrong[0])} is no trial: trials or their ids are.", hint="See: windlass ls"
        )
    return ids
