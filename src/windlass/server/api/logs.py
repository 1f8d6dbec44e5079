"""Routes for logs: read, follow and search one trial's log, or search many logs at once."""

from __future__ import annotations

import re
import time
from typing import Annotated

from msgspec import Meta

from windlass.model.errors import InvalidArgument
from windlass.model.logs import LogHit, LogHits, LogPage
from windlass.model.records import LISTED_KINDS, TrialRecord
from windlass.model.requests import API
from windlass.server.api.trials import LogCursor, TrialId, parse_states
from windlass.server.db.base import Row
from windlass.server.db.paging import Conditions
from windlass.server.db.scopes import Scope
from windlass.server.db.where_parser import MAX_LENGTH, parse
from windlass.server.db.where_sql import WhereCompiler
from windlass.server.operations.log_pages import (
    LogQuery,
    in_search_thread,
    log_page,
    parse_log_query,
)
from windlass.server.operations.trial_stream import stream_answer
from windlass.server.services import Services
from windlass.server.stores.logs.base import HITS, LogSelection, Slice
from windlass.server.stores.logs.cursors import LONGEST_CURSOR, parse_cursor
from windlass.server.stores.logs.pattern import Pattern
from windlass.server.web.label_query import LabelText, read_labels
from windlass.server.web.messages import EVENTS, Answer
from windlass.server.web.query_types import MaybeText, Text
from windlass.server.web.routing import Route

_TRIALS = 200  # the number of trial ids that one query fetches
_IDS = re.compile(r"\d{1,18}(,\d{1,18})*", re.ASCII)
_CURSOR = re.compile(r"(\d{1,18})(?:/(.*))?", re.ASCII | re.DOTALL)


Tail = Annotated[int, Meta(ge=0, le=1_000_000)] | None
Index = Annotated[int, Meta(ge=0, le=10_000)] | None
Attempt = Annotated[int, Meta(ge=1, le=1_000_000_000)] | None


async def read_logs(
    services: Services,
    trial_id: TrialId,
    cursor: LogCursor = None,
    tail: Tail = None,
    search: MaybeText = None,
    regex: bool = False,
    stream: MaybeText = None,
    role: MaybeText = None,
    index: Index = None,
    attempt: Attempt = None,
    since: float | None = None,
    until: float | None = None,
    limit: Annotated[int, Meta(ge=1, le=HITS)] = HITS,
) -> LogPage:
    """Read a page of a trial's log.

    Searching a long log stops at a time limit, so the page might be empty. Continue the search with
    the page's cursor. `since` and `until` are seconds since the epoch.
    """
    whose = LogSelection(role, index, attempt, since, until)
    query = await parse_log_query(search, regex=regex, stream=stream, whose=whose, limit=limit)
    _check(await services.trials.record(trial_id), whose, cursor, tail)
    page = await log_page(services, trial_id, cursor, query, tail=tail)
    return LogPage(items=tuple(page.parts), next=page.cursor if page.has_more else None)


async def stream_trial(
    services: Services,
    trial_id: TrialId,
    logs: bool = True,
    cursor: LogCursor = None,
    tail: Tail = None,
    search: MaybeText = None,
    regex: bool = False,
    stream: MaybeText = None,
    role: MaybeText = None,
    index: Index = None,
    attempt: Attempt = None,
    since: float | None = None,
    until: float | None = None,
    waiter: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None,
) -> Answer:
    """Stream a trial's states, and its log lines that match the filters, until the trial ends.

    The stream also ends once the time `until` has passed. A log event without lines only reports
    the next cursor. `waiter` is the id of the trial whose program sent this request, if that
    program waits for the streamed trial to end.
    """
    whose = LogSelection(role, index, attempt, since, until)
    query = await parse_log_query(search, regex=regex, stream=stream, whose=whose)
    record = await services.trials.record(trial_id)
    _check(record, whose, cursor, tail)
    if not record.state.is_final:
        services.refuse_in_copy()  # no server changes a copied home's trials
    first = None
    if tail is not None:
        is_followed = not record.state.is_final
        first = await log_page(services, trial_id, None, query, tail=tail, is_followed=is_followed)
    return stream_answer(
        services, trial_id, logs=logs, cursor=cursor, query=query, first=first, waiter=waiter
    )


def _check(record: TrialRecord, whose: LogSelection, cursor: str | None, tail: int | None) -> None:
    if tail is not None and cursor is not None:
        raise InvalidArgument(
            "tail and cursor cannot be used together.", hint="Remove tail or cursor."
        )
    _check_exists(record, whose)


def _check_exists(record: TrialRecord, whose: LogSelection) -> None:
    """Raise an error if a log request names a role or a replica that the trial does not have.

    Without this check, the stream would wait forever for lines from this replica.
    """
    sizes = {role.name: role.replicas for role in record.spec.roles}
    for attempt in record.attempts:  # the role may have had more replicas earlier
        sizes[attempt.role] = max(sizes.get(attempt.role, 0), attempt.index + 1)
    if whose.role is not None and whose.role not in sizes:
        raise InvalidArgument(
            f"Trial {record.id} ({record.name}) has no role {whose.role!r}.",
            hint=f"It has: {', '.join(sizes)}.",
        )
    size = max(sizes.values()) if whose.role is None else sizes[whose.role]
    if whose.index is not None and whose.index >= size:
        which = f"{whose.role}-{whose.index}" if whose.role else f"replica {whose.index}"
        raise InvalidArgument(
            f"Trial {record.id} ({record.name}) has no {which}.",
            hint=f"The first is 0, the last {size - 1}.",
        )


async def search_logs(
    services: Services,
    search: Text,
    regex: bool = False,
    trials: Annotated[str, Meta(max_length=20_000)] | None = None,
    experiment: MaybeText = None,
    experiment_id: int | None = None,
    project: MaybeText = None,
    project_id: int | None = None,
    state: Annotated[str, Meta(max_length=200)] | None = None,
    name: MaybeText = None,
    labels: LabelText = None,
    where: Annotated[str, Meta(max_length=MAX_LENGTH)] | None = None,
    role: MaybeText = None,
    index: Index = None,
    attempt: Attempt = None,
    stream: MaybeText = None,
    since: float | None = None,
    until: float | None = None,
    count: bool = False,
    cursor: Annotated[str, Meta(max_length=LONGEST_CURSOR)] | None = None,
    limit: Annotated[int, Meta(ge=1, le=HITS)] = HITS,
) -> LogHits:
    """Search the logs of many trials. Return the matching lines or only their number.

    Lines are sorted by trial and, within a trial, by time. `trials` is a comma-separated list of
    ids. Commands and shells are searched only if `trials` names them or `where` selects by kind.
    """
    whose = LogSelection(role, index, attempt, since, until)
    query = await parse_log_query(search, regex=regex, stream=stream, whose=whose, limit=limit)
    if query.pattern is None:
        raise InvalidArgument("The search text is empty.")
    wanted = Conditions()
    wanted.one_of("trials.id", _ids(trials))
    clause = None if where is None else _require(wanted, where)
    if trials is None and not (clause and clause.mentions_kind):
        wanted.one_of("trials.kind", [value.value for value in LISTED_KINDS])
    scope = Scope(
        experiment=experiment, experiment_id=experiment_id, project=project, project_id=project_id
    )
    await services.trials.limit(wanted, scope, is_first=cursor is None)
    wanted.one_of("trials.state", [value.value for value in parse_states(state)])
    wanted.equal("trials.name", name)
    wanted.all_in("trials.labels", read_labels(labels))
    page = _SearchPage(services, query, query.pattern, counts=count)
    first, log_cursor = _parse(cursor)
    while True:
        rows = await services.trials.ids(wanted, first, _TRIALS)
        following = await in_search_thread(lambda: page.run(rows, log_cursor))  # noqa: B023 -- awaited
        if following is None and len(rows) == _TRIALS:
            first, log_cursor = rows[-1]["id"] + 1, None
            if not page.is_over:
                continue
            following = str(first)
        hint = ""
        if clause is not None and cursor is None and not page.count and following is None:
            hint = await services.trials.doubt(clause.names, clause.quoted)
        return LogHits(items=tuple(page.hits), count=page.count, next=following, hint=hint)


def _require(wanted: Conditions, where: str) -> WhereCompiler:
    now = time.time()
    clause = WhereCompiler(wanted, where, now)
    wanted.require(clause.condition(parse(where, now)))
    return clause


class _SearchPage:
    """One page of results of a search in the logs of many trials."""

    def __init__(
        self, services: Services, query: LogQuery, pattern: Pattern, *, counts: bool
    ) -> None:
        self._logs = services.logs
        self._query = query
        self._pattern = pattern
        self._counts = counts
        self._time = Slice()
        self.hits: list[LogHit] = []
        self.count = 0

    @property
    def is_over(self) -> bool:
        return self._time.is_over or len(self.hits) >= self._query.limit

    def run(self, rows: list[Row], cursor: str | None) -> str | None:
        """Search the logs of the trials in `rows`. Return the cursor for the next page of results.

        In the first trial's log, the search starts at `cursor`. If all logs were searched, the
        result is None.
        """
        for row in rows:
            cursor, has_more = self._search(row, cursor)
            if has_more:
                return f"{row['id']}/{cursor}"
            cursor = None
            if self.is_over and row is not rows[-1]:
                return str(row["id"] + 1)
        return None

    def _search(self, row: Row, cursor: str | None) -> tuple[str, bool]:
        if self._counts:
            count, after, has_more = self._logs.count(
                row["id"],
                self._pattern,
                cursor,
                self._query.stream,
                self._query.whose,
                time=self._time,
            )
            self.count += count
            return after, has_more
        page = self._logs.search(
            row["id"], self._pattern, cursor, self._query.stream, self._query.whose,
            limit=self._query.limit - len(self.hits), time=self._time,
        )  # fmt: skip
        self.count += len(page.parts)
        self.hits += [
            LogHit(trial_id=row["id"], trial=row["name"], line=part) for part in page.parts
        ]
        return page.cursor, page.has_more


def _ids(text: str | None) -> list[int]:
    if text is None:
        return []
    if not _IDS.fullmatch(text):
        raise InvalidArgument(
            f"{text[:100]!r} is not a list of trial ids.", hint="Write it as 3,5,7."
        )
    return [int(part) for part in text.split(",")]


def _parse(cursor: str | None) -> tuple[int, str | None]:
    """Split a search cursor into the next trial's id and a cursor in that trial's log."""
    if cursor is None:
        return 0, None
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidArgument(
            "The cursor is not from this search.", hint="Start again without a cursor."
        )
    parse_cursor(match[2])
    return int(match[1]), match[2]


routes = [
    Route("GET", f"{API}/logs", search_logs),
    Route("GET", f"{API}/trials/{{trial_id:int}}/logs", read_logs, is_log=True),
    Route("GET", f"{API}/trials/{{trial_id:int}}/stream", stream_trial, media_type=EVENTS),
]
