"""Findings of checks, each with a level and a remedy."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.model.job import JobSpec
from windlass.model.kubernetes.job_options import Namespace

OK, WARNING, ERROR = "ok", "warning", "error"


class Finding(msgspec.Struct, frozen=True):
    """The result of one check, and how to fix a problem.

    >>> Finding("machines", OK, "12 of 12 ready").level
    'ok'
    """

    check: str
    level: str  # "ok" | "warning" | "error"
    text: str
    remedy: str = ""


class ClusterCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A Kubernetes cluster as this process reaches it, and the findings about it."""

    findings: tuple[Finding, ...]
    server: str = ""  # address of its API; empty if no cluster could be chosen
    source: str = ""  # the source of that address
    namespace: str = ""
    account: str = ""  # as far as it is known without a request
    username: str = ""  # the name that the cluster reports, if it was queried
    is_configured: bool = True  # False if no configuration selects a cluster


class ShowManifests(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request the objects that a job would create in a cluster, without creating them."""

    spec: JobSpec
    namespace: Namespace = ""  # empty: the connection's namespace


class ClusterManifests(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that a job would create in a cluster."""

    objects: list[dict[str, Any]]
    cluster: ClusterCheck  # the target cluster, not checked
