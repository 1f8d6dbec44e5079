"""Findings: what a check looked at, how it is, and how to mend it."""

from __future__ import annotations

import msgspec

OK, WARNING, ERROR = "ok", "warning", "error"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at: how it is, and how to mend it.

    >>> Finding("machines", OK, "12 of 12 ready").level
    'ok'
    """

    check: str
    level: str  # "ok" | "warning" | "error"
    text: str
    mend: str = ""


class ClusterCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as a process sees it, and what was found when it was looked at."""

    findings: tuple[Finding, ...]
    server: str = ""  # the address of its API; empty: none could be chosen
    source: str = ""  # where that was found
    namespace: str = ""
    account: str = ""  # as far as that is known without asking
    is_known: bool = True  # whether anything at all says which cluster is meant
