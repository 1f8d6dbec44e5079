"""The results of checks such as `windlass kubernetes check`.

Each finding has a level and a remedy.
"""

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
    """The Kubernetes cluster that this process would use, and the findings about the cluster."""

    findings: tuple[Finding, ...]
    server: str = ""  # address of the cluster's API; empty if no cluster could be chosen
    source: str = ""  # the file or variable that supplied the address
    namespace: str = ""
    account: str = ""  # the account, if it is known without a request
    username: str = ""  # the name that the cluster reports, if it was queried
    is_configured: bool = True  # False if no configuration selects a cluster


class ShowManifests(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request the objects that a job would create in a cluster, without creating them."""

    spec: JobSpec
    namespace: Namespace = ""  # if empty, the connection's namespace


class ClusterManifests(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that a job would create in a cluster."""

    objects: list[dict[str, Any]]
    cluster: ClusterCheck  # the target cluster, which was not checked
