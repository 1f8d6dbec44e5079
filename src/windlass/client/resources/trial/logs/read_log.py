"""Reads the log of one trial, and searches the logs of many trials."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from windlass.client.connection.pages import check_limit
from windlass.client.resources.trial.list_query import trial_ids
from windlass.client.resources.trial.logs import pages as log_pages
from windlass.client.resources.trial.logs.lines import LogLines
from windlass.client.resources.trial.replica_names import is_generated
from windlass.model.errors import InvalidArgument, shown

if TYPE_CHECKING:
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.records import TrialRecord


def read_log(
    transport: Transport,
    record: TrialRecord,
    query: dict[str, Any],
    *,
    follow: bool,
    tail: int | None,
    head: int | None,
) -> LogLines:
    """Return the lines of a trial's log that match a query.

    If the trial only adds child trials, its log consists of the child trials' logs.
    """
    log_pages.check_ends(head, tail)
    if is_generated(record):
        from windlass.client.resources.trial.logs import generator_logs

        parts = generator_logs.log_parts(
            transport, record, query, head=head, tail=tail, follow=follow
        )
        return LogLines(log_pages.lines(parts, record))
    parts = log_pages.pages(transport, record.id, query, head=head, tail=tail, follow=follow)
    is_countable = query["search"] is not None and not follow and head is None and tail is None
    count = partial(log_pages.count, transport, {**query, "trials": record.id})
    return LogLines(log_pages.lines(parts, record), count if is_countable else None)


def search_logs(
    transport: Transport,
    query: dict[str, Any],
    trials: Iterable[Trial[Any] | int] | None,
    limit: int | None,
) -> LogLines:
    """Return the lines that match a search, in the listed trials or in all trials of the query."""
    check_limit(limit)
    if trials is not None:
        ids = trial_ids(trials)
        if not ids:
            return LogLines(iter(()))
        query = {**query, "trials": ",".join(map(str, ids))}
    count = partial(log_pages.count, transport, query) if limit is None else None
    return LogLines(log_pages.hits(transport, query, limit), count)


def check_search_text(text: Any) -> str:
    """Return the search text. Raise an error if it is not a string."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{shown(text)} cannot be searched for. Write a string.")
    return text
