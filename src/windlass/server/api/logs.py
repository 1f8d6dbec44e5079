"""The logs of many trials, searched."""

from __future__ import annotations

import re
import time
from typing import Annotated

from msgspec import Meta

from windlass.model.errors import InvalidArgument
from windlass.model.logs import LogHit, LogHits
from windlass.model.records import LISTED_KINDS
from windlass.model.wire import API
from windlass.server.api.trials import states_of
from windlass.server.asking import Asked, asked_of, in_search_thread
from windlass.server.cursors import LONGEST_CURSOR, parse_cursor
from windlass.server.database import Row
from windlass.server.labels import LabelText, read_labels
from windlass.server.logs import Chosen
from windlass.server.merging import HITS, Slice
from windlass.server.paging import Conditions
from windlass.server.patterns import Pattern
from windlass.server.queries import MaybeText, Text
from windlass.server.routing import Route
from windlass.server.scopes import Scope
from windlass.server.services import Services
from windlass.server.where import LONGEST, parse
from windlass.server.wherein import Compiling

_TRIALS = 200  # whose ids are fetched at a time
_IDS = re.compile(r"\d{1,18}(,\d{1,18})*", re.ASCII)
_CURSOR = re.compile(r"(\d{1,18})(?:/(.*))?", re.ASCII | re.DOTALL)


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
    where: Annotated[str, Meta(max_length=LONGEST)] | None = None,
    role: MaybeText = None,
    index: Annotated[int, Meta(ge=0, le=10_000)] | None = None,
    attempt: Annotated[int, Meta(ge=1, le=1_000_000_000)] | None = None,
    stream: MaybeText = None,
    since: float | None = None,
    until: float | None = None,
    count: bool = False,
    cursor: Annotated[str, Meta(max_length=LONGEST_CURSOR)] | None = None,
    limit: Annotated[int, Meta(ge=1, le=HITS)] = HITS,
) -> LogHits:
    """Lines of trials that match, by trial, each trial's in their order; or only their count.

    `trials` are ids, joined by commas. Commands and shells are searched if they are named there,
    or `where` asks for them.
    """
    asked = await asked_of(search, regex=regex, stream=stream, limit=limit)
    if asked.pattern is None:
        raise InvalidArgument("There is nothing to search for: the text is empty.")
    wanted = Conditions()
    wanted.one_of("trials.id", _ids(trials))
    clause = None if where is None else _require(wanted, where)
    if trials is None and not (clause and clause.mentions_kind):
        wanted.one_of("trials.kind", [each.value for each in LISTED_KINDS])
    scope = Scope(
        experiment=experiment, experiment_id=experiment_id, project=project, project_id=project_id
    )
    await services.trials.limit(wanted, scope, is_first=cursor is None)
    wanted.one_of("trials.state", [each.value for each in states_of(state)])
    wanted.equal("trials.name", name)
    wanted.all_in("trials.labels", read_labels(labels))
    whose = Chosen(role, index, attempt, since, until)
    hunt = _Hunt(services, asked, asked.pattern, whose, counts=count)
    first, place = _parse(cursor)
    while True:
        rows = await services.trials.ids(wanted, first, _TRIALS)
        following = await in_search_thread(lambda: hunt.run(rows, place))  # noqa: B023 -- awaited
        if following is None and len(rows) == _TRIALS:
            first, place = rows[-1]["id"] + 1, None
            if not hunt.is_over:
                continue
            following = str(first)
        hint = ""
        if clause is not None and cursor is None and not hunt.count and following is None:
            hint = await services.trials.doubt(clause.names, clause.quoted)
        return LogHits(items=tuple(hunt.found), count=hunt.count, next=following, hint=hint)


def _require(wanted: Conditions, where: str) -> Compiling:
    now = time.time()
    clause = Compiling(wanted, where, now)
    wanted.require(clause.condition(parse(where, now)))
    return clause


class _Hunt:
    """One page of a search over many trials."""

    def __init__(
        self, services: Services, asked: Asked, pattern: Pattern, whose: Chosen, *, counts: bool
    ) -> None:
        self._logs = services.logs
        self._asked = asked
        self._pattern = pattern
        self._whose = whose
        self._counts = counts
        self._time = Slice()
        self.found: list[LogHit] = []
        self.count = 0

    @property
    def is_over(self) -> bool:
        return self._time.is_over or len(self.found) >= self._asked.limit

    def run(self, rows: list[Row], place: str | None) -> str | None:
        """Look at some trials, the first of them from a place on; where to go on, if not done."""
        for row in rows:
            place, has_more = self._look(row, place)
            if has_more:
                return f"{row['id']}/{place}"
            place = None
            if self.is_over and row is not rows[-1]:
                return str(row["id"] + 1)
        return None

    def _look(self, row: Row, place: str | None) -> tuple[str, bool]:
        if self._counts:
            count, after, has_more = self._logs.count(
                row["id"], self._pattern, place, self._asked.stream, self._whose, time=self._time
            )
            self.count += count
            return after, has_more
        page = self._logs.search(
            row["id"], self._pattern, place, self._asked.stream, self._whose,
            limit=self._asked.limit - len(self.found), time=self._time,
        )  # fmt: skip
        self.count += len(page.parts)
        self.found += [
            LogHit(trial_id=row["id"], trial=row["name"], line=part) for part in page.parts
        ]
        return page.cursor, page.has_more


def _ids(text: str | None) -> list[int]:
    if text is None:
        return []
    if not _IDS.fullmatch(text):
        raise InvalidArgument(f"{text[:100]!r} is no list of trial ids.", hint="Write it as 3,5,7.")
    return [int(each) for each in text.split(",")]


def _parse(cursor: str | None) -> tuple[int, str | None]:
    """The trial to go on with, and the place in its log."""
    if cursor is None:
        return 0, None
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidArgument(
            "The cursor is not one this search gave out.", hint="Start again without a cursor."
        )
    parse_cursor(match[2])
    return int(match[1]), match[2]


routes = [Route("GET", f"{API}/logs", search_logs)]
