"""Trials: made, listed, followed, stopped."""

from __future__ import annotations

import asyncio
from typing import Annotated

from litestar import Response, Router, get, post
from litestar.params import Parameter
from litestar.response import Stream

from windlass.model.errors import Conflict, InvalidArgument, NotFound
from windlass.model.job import FunctionCall
from windlass.model.records import TrialRecord, TrialState
from windlass.model.status import Event
from windlass.model.wire import CreateTrial, LogPage, StopTrial, TrialPage
from windlass.server.api.access import ApiRequest, services_of
from windlass.server.logs import Page, parse_cursor
from windlass.server.paging import PAGE_LIMIT
from windlass.server.records import describe, enrich_page
from windlass.server.services import Services
from windlass.server.stopping import stop
from windlass.server.streams import follow
from windlass.server.submission import submit

_EVENTS = "text/event-stream"
_OCTETS = "application/octet-stream"
_LONG_POLL = 10.0

TrialId = int  # one that no trial could have is not found, like any other
ExperimentId = Annotated[int | None, Parameter(ge=1, le=2**63 - 1)]
Limit = Annotated[int, Parameter(ge=1, le=PAGE_LIMIT)]
Text = Annotated[str, Parameter(max_length=1000)]
MaybeText = Annotated[str | None, Parameter(max_length=1000)]


@post("/", status_code=201, request_max_body_size=64 * 1024 * 1024)
async def create_trial(
    request: ApiRequest, data: CreateTrial, logs: bool = True, cursor: MaybeText = None
) -> Response[TrialRecord] | Stream:
    """Make a trial; answered with the trial, or, if events are accepted, with its stream."""
    services = services_of(request)
    trial_id = await submit(services, data)
    if _EVENTS in request.headers.get("accept", ""):
        return _stream(services, trial_id, logs=logs, cursor=cursor)
    return Response(await describe(services, trial_id), status_code=201)


@get("/")
async def list_trials(
    request: ApiRequest,
    uid: MaybeText = None,
    experiment: MaybeText = None,
    experiment_id: ExperimentId = None,
    project: MaybeText = None,
    trial_state: Annotated[str | None, Parameter(query="state", max_length=200)] = None,
    name: MaybeText = None,
    sort: Text = "id",
    cursor: MaybeText = None,
    limit: Limit = 100,
) -> TrialPage:
    """Trials that match, sorted, a page at a time."""
    services = services_of(request)
    page = await services.trials.page(
        uid=uid,
        experiment=experiment,
        experiment_id=experiment_id,
        project=project,
        states=_states(trial_state),
        name=name,
        sort=sort,
        cursor=cursor,
        limit=limit,
    )
    return enrich_page(services, page)


@get("/{trial_id:int}")
async def get_trial(request: ApiRequest, trial_id: TrialId) -> TrialRecord:
    """One trial."""
    return await describe(services_of(request), trial_id)


@get("/{trial_id:int}/stream")
async def stream_trial(
    request: ApiRequest, trial_id: TrialId, logs: bool = True, cursor: MaybeText = None
) -> Stream:
    """What happens to a trial, as it happens, until its end."""
    services = services_of(request)
    await services.trials.record(trial_id)
    return _stream(services, trial_id, logs=logs, cursor=cursor)


@get("/{trial_id:int}/logs")
async def read_logs(
    request: ApiRequest,
    trial_id: TrialId,
    cursor: MaybeText = None,
    tail: Annotated[int | None, Parameter(ge=0, le=1_000_000)] = None,
    search: MaybeText = None,
    stream: MaybeText = None,
    follow: bool = False,
) -> LogPage:
    """What a trial wrote. With `follow`, an answer waits until there is something to tell."""
    services = services_of(request)
    if stream not in (None, "stdout", "stderr"):
        raise InvalidArgument(f"There is no stream {stream!r}.", hint="It is stdout or stderr.")
    if tail is not None and cursor is not None:
        raise InvalidArgument("A tail has no cursor.", hint="Give one or the other.")
    news = services.hub.subscribe(trial_id)
    try:
        while True:
            news.clear()
            record = await services.trials.record(trial_id)
            page = await asyncio.to_thread(
                _log_page, services, trial_id, cursor, tail, search, stream
            )
            ended = record.state.is_final
            if page.parts or page.has_more or ended or not follow or services.hub.is_closing:
                goes_on = page.has_more or (follow and not ended)
                return LogPage(items=tuple(page.parts), next=page.cursor if goes_on else None)
            cursor, tail = page.cursor, None
            try:
                await asyncio.wait_for(news.wait(), _LONG_POLL)
            except asyncio.TimeoutError:
                return LogPage(items=(), next=cursor)
    finally:
        services.hub.unsubscribe(news, trial_id)


def _log_page(
    services: Services,
    trial_id: int,
    cursor: str | None,
    tail: int | None,
    search: str | None,
    stream: str | None,
) -> Page:
    if search:
        page = services.logs.search(trial_id, search, cursor, stream)
        return page if tail is None else page._replace(parts=page.parts[-tail:] if tail else [])
    if tail is not None:
        return services.logs.tail(trial_id, tail, stream)
    page = services.logs.read(trial_id, cursor, stream)
    while page.has_more and not page.parts:  # all of it was of the other stream
        page = services.logs.read(trial_id, page.cursor, stream)
    return page


@get("/{trial_id:int}/events")
async def list_events(request: ApiRequest, trial_id: TrialId) -> list[Event]:
    """What happened to a trial, oldest first."""
    services = services_of(request)
    await services.trials.record(trial_id)
    return await services.trials.events(trial_id)


@get("/{trial_id:int}/result", media_type=_OCTETS)
async def get_result(request: ApiRequest, trial_id: TrialId) -> Response[bytes]:
    """The pickled value of a trial, as its process left it."""
    services = services_of(request)
    record = await services.trials.record(trial_id)
    if not record.state.is_final:
        raise Conflict(
            f"Trial {trial_id} has no value yet: it is {record.state.value}.",
            hint=f"Wait for it: windlass logs {trial_id} -f",
        )
    if record.result is None:
        is_function = isinstance(record.spec.roles[0].executable, FunctionCall)
        why = "it did not return" if is_function else "it is a command, not a function"
        raise NotFound(
            f"Trial {trial_id} has no value: {why}.", hint=f"See: windlass show {trial_id}"
        )
    data = await asyncio.to_thread(services.blobs.get, record.result.digest)
    return Response(data, media_type=_OCTETS)


@get("/{trial_id:int}/error", media_type=_OCTETS)
async def get_error(request: ApiRequest, trial_id: TrialId) -> Response[bytes]:
    """The pickled exception of a trial, as its process left it."""
    services = services_of(request)
    record = await services.trials.record(trial_id)
    if record.error is None or record.error.pickle is None:
        raise NotFound(
            f"Trial {trial_id} left no exception.", hint=f"See: windlass show {trial_id}"
        )
    data = await asyncio.to_thread(services.blobs.get, record.error.pickle)
    return Response(data, media_type=_OCTETS)


@post("/{trial_id:int}/stop", status_code=200)
async def stop_trial(request: ApiRequest, trial_id: TrialId, data: StopTrial) -> TrialRecord:
    """Ask a trial to stop; one that has ended stays as it is."""
    services = services_of(request)
    await stop(services, trial_id, data)
    return await describe(services, trial_id)


def _stream(services: Services, trial_id: int, *, logs: bool, cursor: str | None) -> Stream:
    parse_cursor(cursor)  # a wrong one is refused before the stream begins
    return Stream(
        follow(services, trial_id, logs=logs, cursor=cursor),
        media_type=_EVENTS,
        status_code=200,
        headers={"Cache-Control": "no-store"},
    )


def _states(text: str | None) -> list[TrialState]:
    if not text:
        return []
    known = {state.value for state in TrialState}
    names = [name.strip().upper() for name in text.split(",")]
    wrong = [name for name in names if name not in known]
    if wrong:
        raise InvalidArgument(
            f"There is no state {wrong[0]!r}.", hint=f"States are: {', '.join(sorted(known))}."
        )
    return [TrialState(name) for name in names]


router = Router(
    "/trials",
    route_handlers=[
        create_trial, list_trials, get_trial, stream_trial, read_logs, list_events, get_result,
        get_error, stop_trial,
    ],
    tags=["trials"],
)  # fmt: skip
