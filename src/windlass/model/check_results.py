"""The results of checks such as `windlass kubernetes check`.

Each result, a finding, has a level and a remedy.
"""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.model.job import JobSpec
from windlass.model.kubernetes.job_options import Namespace

OK, WARNING, ERROR = "ok", "warning", "error"


class Finding(msgspec.Struct, frozen=True):
    """The result of one check, including how to fix any problem.

    >>> Finding("machines", OK, "12 of 12 ready").level
    'ok'
    """

    check: str
    level: str  # "ok" | "warning" | "error"
    text: str
    remedy: str = ""


class ClusterCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The Kubernetes cluster that this process would use, with findings about it."""

    findings: tuple[Finding, ...]
    server: str = ""  # the address of the cluster's API; empty if no cluster could be selected
    source: str = ""  # the file or variable that supplied the address
    namespace: str = ""
    account: str = ""  # the account, if known without a request
    username: str = ""  # the name that the cluster reported, if it was queried
    is_configured: bool = True  # False if no configuration selects a cluster


class ShowManifests(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request a preview of the cluster objects that a job would create."""

    spec: JobSpec
    namespace: Namespace = ""  # if empty, the connection's namespace


class ClusterManifests(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that a job would create in a cluster."""

    objects: list[dict[str, Any]]
    cluster: ClusterCheck  # the target cluster, without any checks
