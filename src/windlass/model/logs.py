"""Log lines as the API returns them."""

from __future__ import annotations

import msgspec


class LogPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a replica's output: a whole line or, if `end` is False, the start of a line."""

    time: float
    stream: str  # "stdout" | "stderr"
    text: str
    end: bool = True
    role: str = "main"
    index: int = 0
    attempt: int = 1


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a log, with the cursor to continue from."""

    items: tuple[LogPart, ...]
    next: str | None = None  # None if the log is complete


class LogHit(msgspec.Struct, frozen=True, kw_only=True):
    """A log line that matches a search, and the trial that wrote the line."""

    trial_id: int
    trial: str  # the trial's name
    line: LogPart


class LogHits(msgspec.Struct, frozen=True, kw_only=True):
    """Log lines of several trials that match a search, their number, and the next cursor.

    An empty page with a cursor is not the end of the search. Continue from the cursor to search the
    remaining trials.
    """

    items: tuple[LogHit, ...]
    count: int
    next: str | None = None
    hint: str = ""  # why nothing matches, if a name in the query is probably wrong
