"""Pages of logs for requests: the next lines, the last lines, or the lines that match a search.

Threads read and search the logs, so that the event loop stays free.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.logs import LogPart
from windlass.server.services import Services
from windlass.server.stores.logs.base import HITS, WHOLE_LOG, LogSelection, Page, Slice
from windlass.server.stores.logs.pattern import Pattern

T = TypeVar("T")

_LONGEST_TAIL = 20.0  # seconds that a search for the last matching lines may take


class LogQuery(msgspec.Struct, frozen=True):
    """The filters in a request for log lines, and the largest number of lines to return."""

    pattern: Pattern | None = None
    stream: str | None = None
    whose: LogSelection = WHOLE_LOG
    limit: int = HITS


async def parse_log_query(
    search: str | None,
    *,
    regex: bool = False,
    stream: str | None = None,
    whose: LogSelection = WHOLE_LOG,
    limit: int = HITS,
) -> LogQuery:
    """Return a validated `LogQuery`. A thread compiles the regular expression, if any."""
    if stream not in (None, "stdout", "stderr"):
        raise InvalidArgument(f"There is no stream {stream!r}.", hint="Choose stdout or stderr.")
    pattern = None
    if search:
        pattern = await in_search_thread(functools.partial(Pattern, search, is_regex=regex))
    return LogQuery(pattern, stream, whose, limit)


async def log_page(
    services: Services,
    trial_id: int,
    cursor: str | None,
    query: LogQuery,
    *,
    tail: int | None = None,
    is_followed: bool = False,
) -> Page:
    """Read a page of a trial's log.

    A search can return an empty page although more matching lines follow. With `is_followed`, an
    incomplete line at the end of the log is not searched before it is complete.
    """
    pattern = query.pattern
    if pattern is None:
        return await asyncio.to_thread(_read, services, trial_id, cursor, tail, query)

    def search(cursor: str | None) -> Page:
        return services.logs.search(
            trial_id,
            pattern,
            cursor,
            query.stream,
            query.whose,
            limit=query.limit,
            is_followed=is_followed,
        )

    if tail is None:
        return await in_search_thread(lambda: search(cursor))
    return await _last_matches(search, trial_id, tail)


async def in_search_thread(run: Callable[[], T]) -> T:
    """Run a part of a log search in a thread.

    Only a few searches run at once, so that other requests find free threads.
    """
    return await asyncio.get_running_loop().run_in_executor(_searchers(), run)


@functools.cache
def _searchers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2, thread_name_prefix="windlass-search")


def _read(
    services: Services, trial_id: int, cursor: str | None, tail: int | None, query: LogQuery
) -> Page:
    if tail is not None:
        return services.logs.tail(trial_id, tail, query.stream, query.whose)
    page = services.logs.read(trial_id, cursor, query.stream, query.whose)
    while page.has_more and not page.parts:  # all lines on the page belong to a different stream
        page = services.logs.read(trial_id, page.cursor, query.stream, query.whose)
    return page


async def _last_matches(search: Callable[[str | None], Page], trial_id: int, count: int) -> Page:
    last: deque[LogPart] = deque(maxlen=count)
    time, cursor = Slice(_LONGEST_TAIL), None
    while True:
        page = await in_search_thread(functools.partial(search, cursor))
        last.extend(page.parts)
        if not page.has_more:
            return page._replace(parts=list(last))
        if time.is_over:
            raise InvalidArgument(
                f"Trial {trial_id} has too much output to find the last matching lines within "
                f"{_LONGEST_TAIL:g} seconds.",
                hint='Limit the time, as in since="1h", or remove tail.',
            )
        cursor = page.cursor
