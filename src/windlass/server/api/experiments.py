"""Routes for experiments: create, change, list, get and follow."""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.records import ExperimentRecord, ExperimentState, TrialState
from windlass.model.requests import (
    API,
    ChangeExperiment,
    CreateExperiment,
    Deleted,
    ExperimentPage,
    StopTrial,
)
from windlass.server.errors import MissingBlobs
from windlass.server.operations.delete import delete_experiment
from windlass.server.operations.experiment_stream import follow_experiment
from windlass.server.operations.stop import stop_all
from windlass.server.services import Services
from windlass.server.web.label_query import LabelText, read_labels
from windlass.server.web.messages import EVENTS, Answer
from windlass.server.web.notifications import experiment_topic
from windlass.server.web.query_types import Cursor, Limit, MaybeText, Text
from windlass.server.web.routing import Route

Holder = Annotated[str, Meta(min_length=1, max_length=100)]

_LARGEST = 4 << 20


async def list_experiments(
    services: Services,
    project: MaybeText = None,
    project_id: int | None = None,
    called: MaybeText = None,
    name: MaybeText = None,
    labels: LabelText = None,
    state: Annotated[str, Meta(max_length=200)] | None = None,
    user: MaybeText = None,
    archived: bool | None = None,
    sort: Text = "id",
    cursor: Cursor | None = None,
    limit: Limit = 100,
) -> ExperimentPage:
    """List the experiments that match all filters, in sorted pages.

    `called` is a name, a `project/name` or an id, and must refer to an existing experiment.
    """
    return await services.experiments.page(
        project=project,
        project_id=project_id,
        called=called,
        name=name,
        labels=read_labels(labels),
        states=_states(state),
        user=user,
        archived=archived,
        sort=sort,
        cursor=cursor,
        limit=limit,
    )


def _states(text: str | None) -> list[ExperimentState]:
    states = [state.value for state in ExperimentState]
    names = [name.strip().upper() for name in text.split(",")] if text else []
    wrong = [name for name in names if name not in states]
    if wrong:
        raise InvalidArgument(
            f"There is no experiment state {wrong[0]!r}.",
            hint=f"Choose one of: {', '.join(states)}.",
        )
    return [ExperimentState(name) for name in names]


async def create_experiment(services: Services, data: CreateExperiment) -> ExperimentRecord:
    """Create an experiment. Names need not be unique."""
    return await services.experiments.create(data)


async def change_experiment(
    services: Services, experiment_id: int, data: ChangeExperiment
) -> ExperimentRecord:
    """Change an experiment's labels, notes, links and other attributes."""
    blobs = services.blobs

    def size_of(digest: str) -> int:
        if not blobs.has(digest):
            raise MissingBlobs([digest])
        return blobs.size(digest)

    record = await services.experiments.change(experiment_id, data, size_of)
    if not isinstance(data.priority, msgspec.UnsetType):
        await _put_forward(services, experiment_id, data.priority)
    services.hub.publish(experiment_topic(experiment_id))
    return record


async def _put_forward(services: Services, experiment_id: int, priority: int) -> None:
    """Set the priority of all queued trials in an experiment."""
    from windlass.server.operations.queue_order import set_priority

    for trial_id in reversed(await services.relations.going_on(experiment_id)):
        record = await services.trials.record(trial_id)
        if record.state is TrialState.QUEUED and record.spec.priority != priority:
            with contextlib.suppress(Conflict):  # ignore trials that ended meanwhile
                await set_priority(services, trial_id, priority)


async def stop_experiment(
    services: Services, experiment_id: int, data: StopTrial
) -> ExperimentRecord:
    """Stop all unfinished trials in an experiment."""
    await services.experiments.by_id(experiment_id)
    await stop_all(services, await services.relations.going_on(experiment_id), data)
    return await services.experiments.by_id(experiment_id)


async def remove_experiment(services: Services, experiment_id: int) -> Deleted:
    """Delete an experiment and its trials, all of which must have ended."""
    return Deleted(trials=tuple(await delete_experiment(services, experiment_id)))


async def hold_experiment(services: Services, experiment_id: int, holder: Holder) -> Answer:
    """Keep an experiment open for as long as the client reads this stream."""
    services.refuse_in_copy()
    await services.experiments.by_id(experiment_id)
    return Answer(
        services.leases.stream(services.hub, experiment_id, holder),
        media_type=EVENTS,
        headers={"Cache-Control": "no-store"},
    )


async def let_go_experiment(
    services: Services, experiment_id: int, holder: Holder
) -> ExperimentRecord:
    """End a client's lease on an experiment, which kept the experiment open."""
    await services.experiments.by_id(experiment_id)
    services.leases.let_go(experiment_id, holder)
    return await services.experiments.by_id(experiment_id)


async def stream_experiment(
    services: Services,
    experiment_id: int,
    metric: MaybeText = None,
    created_after: Annotated[float, Meta(ge=-1e12, le=1e12)] | None = None,
) -> Answer:
    """Stream the records of an experiment and its trials, followed by every later change.

    The stream does not end by itself. With `metric`, it also contains all values that the trials
    have reported or will report for this metric. With `created_after`, trials that were created
    earlier appear only when they change.
    """
    record = await services.experiments.by_id(experiment_id)
    if not all(TrialState(state).is_final for state in record.states):
        services.refuse_in_copy()  # no server changes a copied home's trials
    return Answer(
        follow_experiment(services, experiment_id, metric, created_after),
        media_type=EVENTS,
        headers={"Cache-Control": "no-store"},
    )


async def get_experiment(services: Services, name: str) -> ExperimentRecord:
    """Return one experiment by name or id."""
    return await services.experiments.record(name)


routes = [
    Route("DELETE", f"{API}/experiments/{{experiment_id:int}}", remove_experiment),
    Route("POST", f"{API}/experiments", create_experiment, status=201, largest_body=_LARGEST),
    Route(
        "PATCH",
        f"{API}/experiments/{{experiment_id:int}}",
        change_experiment,
        largest_body=_LARGEST,
    ),
    Route(
        "GET",
        f"{API}/experiments/{{experiment_id:int}}/stream",
        stream_experiment,
        media_type=EVENTS,
    ),
    Route(
        "GET", f"{API}/experiments/{{experiment_id:int}}/hold", hold_experiment, media_type=EVENTS
    ),
    Route("DELETE", f"{API}/experiments/{{experiment_id:int}}/hold", let_go_experiment),
    Route("POST", f"{API}/experiments/{{experiment_id:int}}/stop", stop_experiment),
    Route("GET", f"{API}/experiments", list_experiments),
    Route("GET", f"{API}/experiments/{{name:path}}", get_experiment),  # a name may contain slashes
]
