"""Creates experiments, and fetches one experiment or a list of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.arguments.scopes import check_id
from windlass.client.connection.transport import request_path
from windlass.client.resources.base import list_resources
from windlass.client.resources.experiment.experiment import Experiment
from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.records import ExperimentRecord
from windlass.model.requests import ExperimentPage
from windlass.model.text.quantities import format_duration

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from windlass.client.arguments.filters import Filters
    from windlass.client.connection.pages import Listing
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.workspace import Project

_MAX_LISTED = 20  # list at most this many experiments in the error for an ambiguous name


def create_experiment(
    transport: Transport,
    name: str,
    project: str | None,
    labels: Sequence[str],
    description: str,
    config: Mapping[str, Any] | None,
    *,
    exist_ok: bool,
    wait: bool,
    dry_run: bool,
) -> Experiment:
    """Create an experiment, or a dry-run experiment that only shows what would run."""
    from windlass.authoring.prepare.new_experiment import new_experiment

    request = new_experiment(name, project, labels, description, config, exist_ok=exist_ok)
    if dry_run:
        from windlass.client.dry_run.client import DryClient
        from windlass.client.dry_run.experiment import DryExperiment

        return DryExperiment(DryClient(*transport.named), request)
    record = transport.ask("POST", "/experiments", ExperimentRecord, body=request)
    return Experiment(transport, record, waits=wait)


def get_experiment(
    transport: Transport, id_or_name: int | str, project: Project | str | int | None = None
) -> Experiment:
    """Fetch an experiment by its id or by its name, which must be unique."""
    if id_or_name == "":
        raise InvalidArgument(
            "The name of an experiment cannot be empty.", hint="See: windlass ls --experiments"
        )
    if isinstance(id_or_name, str):
        named = _list_named(transport, id_or_name, project, archived=False)
        if len(named) > 1:
            raise _ambiguous(id_or_name, named)
        return (named or _list_named(transport, id_or_name, project, archived=None))[0]
    path = request_path("experiments", check_id("experiment", id_or_name))
    return Experiment(transport, transport.ask("GET", path, ExperimentRecord))


def list_experiments(
    transport: Transport, *, sort_by: str, limit: int | None, **filters: Unpack[Filters]
) -> Listing[Experiment]:
    """List the experiments that match the filters, fetching pages on demand."""
    return list_resources(
        transport, Experiment, ExperimentPage, sort_by=sort_by, limit=limit, **filters
    )


def _list_named(
    transport: Transport, name: str, project: Any, *, archived: bool | None
) -> list[Experiment]:
    """Return the newest experiments with the given name.

    The server reports an error if there are none.
    """
    return list(
        list_experiments(
            transport,
            called=name, project=project, archived=archived, sort_by="-id", limit=_MAX_LISTED + 1,
        )
    )  # fmt: skip


def _ambiguous(name: str, named: list[Experiment]) -> Conflict:
    """Build the error for a name that several experiments share.

    The error lists these experiments, newest first.
    """
    now = time.time()
    lines = []
    for experiment in named[:_MAX_LISTED]:
        count = experiment.trial_count
        age = format_duration(max(now - experiment.record.created, 0))
        lines.append(
            f"{experiment.id}: {count} trial{'' if count == 1 else 's'} in {experiment.project},"
            f" made {age} ago"
        )
    number = str(len(named))
    if len(named) > _MAX_LISTED:
        number = f"more than {_MAX_LISTED}"
        lines.append("and others. See: windlass ls --experiments")
    newest = named[0].id
    return Conflict(
        f"There are {number} experiments named {name!r}.",
        hint="\n".join(
            [
                f"Use an id, as in wl.get_experiment({newest}) or windlass ls -e {newest}:",
                *lines,
            ]
        ),
    )
