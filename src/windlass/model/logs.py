"""Lines of logs, as the API tells them."""

from __future__ import annotations

import msgspec


class LogPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of what a replica wrote: a whole line, or, without `end`, the beginning of one."""

    time: float
    stream: str  # "stdout" | "stderr"
    text: str
    end: bool = True
    role: str = "main"
    index: int = 0
    attempt: int = 1


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a log, and the cursor that goes on after it."""

    items: tuple[LogPart, ...]
    next: str | None = None  # none: nothing more will come


class LogHit(msgspec.Struct, frozen=True, kw_only=True):
    """A line that matches, and the trial that wrote it."""

    trial_id: int
    trial: str  # its name
    line: LogPart


class LogHits(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of many trials that match, how many they are, and the cursor to go on from.

    An empty page with a cursor is not the end: it says how far the search came.
    """

    items: tuple[LogHit, ...]
    count: int
    next: str | None = None
    hint: str = ""  # why nothing was found, if a name is probably wrong
