"""Checks log filters and requests logs from the server, one page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.arguments.times import Moment, parse_moment
from windlass.client.connection.event_stream import TrialEvents
from windlass.client.connection.pages import warn
from windlass.client.connection.transport import request_path
from windlass.client.resources.trial.logs.lines import LineJoiner, LogLine
from windlass.model.errors import InvalidArgument, shown
from windlass.model.logs import LogHits, LogPage, LogPart
from windlass.model.records import TrialRecord

if TYPE_CHECKING:
    from windlass.client.connection.transport import Transport

_HITS = 1000  # the maximum number of matching lines per page


def filters(
    *,
    search: str | None = None,
    regex: bool = False,
    stream: str | None = None,
    role: str | None = None,
    index: int | None = None,
    attempt: int | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> dict[str, Any]:
    """Check log filters and return them as query parameters."""
    if not isinstance(regex, bool):
        raise InvalidArgument(
            f"regex={shown(regex)}: write True or False.",
            hint=f"Pass the expression as search: search={shown(regex)}, regex=True",
        )
    if search is not None and not isinstance(search, str):
        raise InvalidArgument(f"search={shown(search)}: write a string.")
    if search == "" or (regex and search is None):
        raise InvalidArgument("The search text is empty.")
    return {
        "search": search,
        "regex": "true" if regex else None,
        "stream": stream,
        "role": role,
        "index": index,
        "attempt": attempt,
        "since": parse_moment("since", since),
        "until": parse_moment("until", until),
    }


def check_ends(head: int | None, tail: int | None) -> None:
    """Raise an error for an invalid number of lines, or if both `head` and `tail` are set."""
    for name, value in (("head", head), ("tail", tail)):
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if value is not None and not is_number:
            raise InvalidArgument(f"{name}={shown(value)}: write a number of lines, 0 or more.")
    if head is not None and tail is not None:
        raise InvalidArgument(
            "head and tail cannot be used together.",
            hint="Remove one of them.",
        )


def pages(
    transport: Transport,
    trial_id: int,
    query: dict[str, Any],
    *,
    head: int | None = None,
    tail: int | None = None,
    follow: bool = False,
    on_change: Callable[[TrialRecord], None] | None = None,
) -> Iterator[Sequence[LogPart]]:
    """Yield a trial's log in parts. A part is a line or a piece of an unfinished line.

    With `follow`, the iterator waits for new parts and calls `on_change` with the trial's record
    whenever the trial changes.
    """
    parameters = {**query, "tail": tail}
    if follow:
        parts = _followed(TrialEvents(transport, trial_id=trial_id, query=parameters), on_change)
    else:
        if head is not None and query["search"]:
            parameters["limit"] = min(max(head, 1), _HITS)
        parts = _read(transport, request_path("trials", trial_id, "logs"), parameters)
    return parts if head is None else first_lines(parts, head)


def _followed(
    following: TrialEvents, on_change: Callable[[TrialRecord], None] | None
) -> Iterator[Sequence[LogPart]]:
    for news in following:
        if isinstance(news, LogPage):
            yield news.items
        elif on_change is not None and isinstance(news, TrialRecord):
            on_change(news)


def _read(
    transport: Transport, path: str, parameters: dict[str, Any]
) -> Iterator[Sequence[LogPart]]:
    while True:
        page = transport.ask("GET", path, LogPage, query=parameters)
        yield page.items
        if page.next is None:
            return
        parameters = {**parameters, "tail": None, "cursor": page.next}


def first_lines(pages: Iterator[Sequence[LogPart]], count: int) -> Iterator[Sequence[LogPart]]:
    """Yield pages until they contain `count` lines, without requesting more pages."""
    left = count
    while left > 0 and (parts := next(pages, None)) is not None:
        ends = [number for number, part in enumerate(parts, 1) if part.end]
        yield parts[: ends[left - 1]] if len(ends) >= left else parts
        left -= len(ends)


def lines(pages: Iterator[Sequence[LogPart]], trial: TrialRecord) -> Iterator[list[LogLine]]:
    """Join the log parts on all pages into whole lines."""
    joiner = LineJoiner(trial.id, trial.name)
    for parts in pages:
        yield list(joiner.feed(parts))
    yield list(joiner.rest())


def hits(
    transport: Transport, query: dict[str, Any], limit: int | None = None
) -> Iterator[list[LogLine]]:
    """Yield the lines from many trials that match a search, one page at a time."""
    left, cursor = limit, None
    while left is None or left > 0:
        size = _HITS if left is None else min(left, _HITS)
        parameters = {**query, "cursor": cursor, "limit": size}
        page = transport.ask("GET", "/logs", LogHits, query=parameters)
        warn(page.hint)
        yield [LogLine.of(hit.line, hit.trial_id, hit.trial) for hit in page.items]
        left = None if left is None else left - len(page.items)
        cursor = page.next
        if cursor is None:
            return


def count(transport: Transport, query: dict[str, Any]) -> int:
    """Count the lines from many trials that match a search, without fetching them."""
    total, cursor = 0, None
    while True:
        parameters = {**query, "cursor": cursor, "count": "true"}
        page = transport.ask("GET", "/logs", LogHits, query=parameters)
        warn(page.hint)
        total += page.count
        cursor = page.next
        if cursor is None:
            return total
