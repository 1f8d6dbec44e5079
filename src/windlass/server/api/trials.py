"""Routes for trials: create, list, get, follow, change, stop and delete."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from msgspec import Meta

from windlass.model.errors import Conflict, InvalidArgument, NotFound
from windlass.model.job import ExternalCall, FunctionCall, ProcessCall, ShellCall
from windlass.model.records import TrialKind, TrialRecord, TrialState
from windlass.model.requests import (
    API,
    AskToStop,
    Built,
    ChangeTrial,
    CreateTrial,
    CreateTrials,
    Deleted,
    ScaleTrial,
    StopTrial,
    TrialPage,
)
from windlass.model.status import Event
from windlass.server.db.scopes import Scope
from windlass.server.db.where_parser import MAX_LENGTH
from windlass.server.operations.delete import delete_trial
from windlass.server.operations.describe import describe, enrich, enrich_page
from windlass.server.operations.generators import built
from windlass.server.operations.stop import ask_to_stop, stop
from windlass.server.operations.submit import submit, submit_all
from windlass.server.operations.trial_stream import stream_answer
from windlass.server.services import Services
from windlass.server.stores.logs.cursors import LONGEST_CURSOR
from windlass.server.stores.trials.list_query import TrialQuery
from windlass.server.web.label_query import LabelText, read_labels
from windlass.server.web.messages import EVENTS, OCTETS, Answer, Request, file_answer
from windlass.server.web.query_types import Cursor, Limit, MaybeText, Text
from windlass.server.web.routing import Route

_LARGEST_TRIAL = 64 << 20

# Without limits, because an out-of-range id is an unknown id (404), not an invalid request.
TrialId = int
SomeId = Annotated[int, Meta(ge=1, le=2**63 - 1)] | None
Time = Annotated[float, Meta(ge=-1e12, le=1e12)] | None
LogCursor = Annotated[str, Meta(max_length=LONGEST_CURSOR)] | None


async def create_trial(
    request: Request,
    services: Services,
    data: CreateTrial,
    logs: bool = True,
    cursor: LogCursor = None,
    waiter: SomeId = None,
) -> TrialRecord | Answer:
    """Create a trial.

    Return the trial's record or, if the client accepts events, a stream of its changes. `waiter` is
    the id of the trial whose program sent this request, if that program waits for the new trial to
    end.
    """
    record = await submit(services, data)
    if EVENTS in request.header(b"accept"):
        return stream_answer(services, record.id, logs=logs, cursor=cursor, waiter=waiter)
    return enrich(services, record)


async def create_trials(services: Services, data: CreateTrials) -> list[TrialRecord]:
    """Create either all requested trials or none. Return their records in the requested order."""
    return [enrich(services, record) for record in await submit_all(services, data)]


async def list_trials(
    services: Services,
    uid: MaybeText = None,
    experiment: MaybeText = None,
    experiment_id: int | None = None,
    project: MaybeText = None,
    project_id: int | None = None,
    state: Annotated[str, Meta(max_length=200)] | None = None,
    name: MaybeText = None,
    labels: LabelText = None,
    origin_id: SomeId = None,
    parent_id: SomeId = None,
    archived: bool | None = None,
    kind: Annotated[str, Meta(max_length=200)] | None = None,
    user: MaybeText = None,
    created_after: Time = None,
    created_before: Time = None,
    where: Annotated[str, Meta(max_length=MAX_LENGTH)] | None = None,
    sort: Text = "id",
    cursor: Cursor | None = None,
    limit: Limit = 100,
) -> TrialPage:
    """List the trials that match all filters, in sorted pages.

    Commands and shells are listed only if `kind` asks for them.
    """
    page = await services.trials.page(
        TrialQuery(
            uid=uid,
            scope=Scope(
                experiment=experiment,
                experiment_id=experiment_id,
                project=project,
                project_id=project_id,
            ),
            states=parse_states(state),
            name=name,
            labels=read_labels(labels),
            origin_id=origin_id,
            parent_id=parent_id,
            archived=archived,
            kinds=_kinds(kind),
            user=user,
            created_after=created_after,
            created_before=created_before,
            where=where,
            sort=sort,
            cursor=cursor,
            limit=limit,
        )
    )
    return enrich_page(services, page)


async def get_trial(services: Services, trial_id: TrialId) -> TrialRecord:
    """Return one trial."""
    return await describe(services, trial_id)


async def remove_trial(services: Services, trial_id: TrialId) -> Deleted:
    """Delete a finished trial, including its logs, metrics and files."""
    return Deleted(trials=tuple(await delete_trial(services, trial_id)))


async def list_events(services: Services, trial_id: TrialId) -> list[Event]:
    """Return the events of a trial, oldest first."""
    await services.trials.record(trial_id)
    return await services.trials.events(trial_id)


async def get_result(services: Services, trial_id: TrialId) -> Answer:
    """Return a trial's result as the pickle that the trial's process wrote."""
    record = await services.trials.record(trial_id)
    if not record.state.is_final:
        raise Conflict(
            f"Trial {trial_id} has no return value yet: it is {record.state.value}.",
            hint=f"Wait for it: windlass logs {trial_id} -f",
        )
    if record.result is None:
        executable = record.spec.roles[0].executable
        kinds = {
            ProcessCall: "command",
            ShellCall: "shell",
            ExternalCall: "process that Windlass did not start",
        }
        kind = kinds.get(type(executable), "generator")
        is_function = isinstance(executable, FunctionCall)
        why = "it did not return" if is_function else f"it is a {kind}, not a function"
        raise NotFound(
            f"Trial {trial_id} has no return value: {why}.", hint=f"See: windlass show {trial_id}"
        )
    return await _stored(services, trial_id, "return value", record.result.digest)


async def get_error(services: Services, trial_id: TrialId) -> Answer:
    """Return a trial's exception as the pickle that the trial's process wrote."""
    record = await services.trials.record(trial_id)
    if record.error is None or record.error.pickle is None:
        raise NotFound(
            f"Trial {trial_id} has no recorded exception.", hint=f"See: windlass show {trial_id}"
        )
    return await _stored(services, trial_id, "exception", record.error.pickle)


async def _stored(services: Services, trial_id: int, what: str, digest: str) -> Answer:
    try:
        return await asyncio.to_thread(file_answer, partial(services.blobs.open, digest))
    except FileNotFoundError as error:
        raise NotFound(
            f"The {what} of trial {trial_id} is missing from the store, or was damaged and set "
            "aside.",
            hint=f"Repeat the trial: windlass rerun {trial_id}",
        ) from error


async def stop_trial(services: Services, trial_id: TrialId, data: StopTrial) -> TrialRecord:
    """Stop a trial. A finished trial does not change."""
    await stop(services, trial_id, data)
    return await describe(services, trial_id)


async def trial_built(services: Services, trial_id: TrialId, data: Built) -> TrialRecord:
    """Record that a trial's generator has ended, with or without an error."""
    await built(services, trial_id, data)
    return await describe(services, trial_id)


async def ask_to_stop_trial(services: Services, trial_id: TrialId, data: AskToStop) -> TrialRecord:
    """Ask a trial to end by itself, by making `wl.should_stop()` return True in its program.

    A finished trial does not change.
    """
    await ask_to_stop(services, trial_id, data)
    return await describe(services, trial_id)


async def change_trial(services: Services, trial_id: TrialId, data: ChangeTrial) -> TrialRecord:
    """Change a trial's name, labels or notes."""
    await services.trials.change(trial_id, data)
    services.hub.publish(trial_id)
    return await describe(services, trial_id)


async def suspend_trial(services: Services, trial_id: TrialId) -> TrialRecord:
    """Suspend a trial by stopping all of its replicas until the trial is resumed.

    A suspended trial does not count as failed.
    """
    from windlass.server.operations import suspend_and_scale

    await suspend_and_scale.suspend(services, trial_id, suspended=True)
    return await describe(services, trial_id)


async def resume_trial(services: Services, trial_id: TrialId) -> TrialRecord:
    """Resume a suspended trial. The trial starts again as soon as it gets capacity."""
    from windlass.server.operations import suspend_and_scale

    await suspend_and_scale.suspend(services, trial_id, suspended=False)
    return await describe(services, trial_id)


async def scale_trial(services: Services, trial_id: TrialId, data: ScaleTrial) -> TrialRecord:
    """Set the number of replicas in the requested roles. All other roles do not change."""
    from windlass.server.operations import suspend_and_scale

    await suspend_and_scale.scale(services, trial_id, data.replicas)
    return await describe(services, trial_id)


def _kinds(text: str | None) -> Sequence[TrialKind]:
    if not text:
        return ()
    kinds = {kind.value for kind in TrialKind}
    names = [name.strip().lower() for name in text.split(",")]
    wrong = [name for name in names if name not in kinds]
    if wrong:
        raise InvalidArgument(
            f"There is no kind {wrong[0]!r} of trial.", hint=f"Choose one of: {', '.join(kinds)}."
        )
    return [TrialKind(name) for name in names]


def parse_states(text: str | None) -> list[TrialState]:
    """Parse the query parameter `state`, which is a comma-separated list of trial states."""
    if not text:
        return []
    states = {state.value for state in TrialState}
    names = [name.strip().upper() for name in text.split(",")]
    wrong = [name for name in names if name not in states]
    if wrong:
        raise InvalidArgument(
            f"There is no state {wrong[0]!r}.", hint=f"Choose one of: {', '.join(sorted(states))}."
        )
    return [TrialState(name) for name in names]


_TRIALS = f"{API}/trials"
_TRIAL = f"{_TRIALS}/{{trial_id:int}}"
routes = [
    Route("DELETE", f"{API}/trials/{{trial_id:int}}", remove_trial),
    Route("POST", _TRIALS, create_trial, status=201, largest_body=_LARGEST_TRIAL),
    Route("POST", f"{_TRIALS}/batch", create_trials, status=201, largest_body=_LARGEST_TRIAL),
    Route("GET", _TRIALS, list_trials),
    Route("GET", _TRIAL, get_trial),
    Route("PATCH", _TRIAL, change_trial),
    Route("GET", f"{_TRIAL}/events", list_events),
    Route("GET", f"{_TRIAL}/result", get_result, media_type=OCTETS),
    Route("GET", f"{_TRIAL}/error", get_error, media_type=OCTETS),
    Route("POST", f"{_TRIAL}/stop", stop_trial),
    Route("POST", f"{_TRIAL}/built", trial_built),
    Route("POST", f"{_TRIAL}/ask-to-stop", ask_to_stop_trial),
    Route("POST", f"{_TRIAL}/suspend", suspend_trial),
    Route("POST", f"{_TRIAL}/resume", resume_trial),
    Route("POST", f"{_TRIAL}/scale", scale_trial),
]
