"""Findings: what a check looked at, how it is, and how to mend it."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.model.job import JobSpec
from windlass.model.kubernetes.job_options import Namespace

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
    username: str = ""  # as the cluster says it, if it was asked
    is_known: bool = True  # whether anything at all says which cluster is meant


class ShowManifests(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask what would be created in a cluster for a job, which is not."""

    spec: JobSpec
    namespace: Namespace = ""  # the one that is meant there, unless it is said


class ClusterManifests(msgspec.Struct, frozen=True, kw_only=True):
    """What would be created in a cluster for a job."""

    objects: list[dict[str, Any]]
    cluster: ClusterCheck  # which one; nothing was checked
