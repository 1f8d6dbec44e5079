"""Selects and checks the Kubernetes cluster that jobs run on.

Because the server runs the jobs, a running server determines the cluster. If no server is running,
or if the user names a context, this shell's settings determine it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from windlass.client.connection.discovery import (
    Endpoint,
    describe_server,
    named_endpoint,
    running_endpoint,
)
from windlass.home import Home
from windlass.model.check_results import (
    ERROR,
    WARNING,
    ClusterCheck,
    ClusterManifests,
    Finding,
    ShowManifests,
)
from windlass.model.errors import KubernetesError, WindlassError

_ANSWER = 60.0  # seconds; longer than the server's own check takes
_LONG = 50.0  # seconds to wait for a cluster's response
_LOOPBACK = "http://127.0.0.1"


class ClusterCheckResult(NamedTuple):
    """The result of a cluster check.

    `by` is the server that ran the check, or None if this process ran it.
    """

    seen: ClusterCheck
    by: Endpoint | None

    @property
    def wrong(self) -> Finding | None:
        """The first finding that is an error, or None if there is no error."""
        return next((finding for finding in self.seen.findings if finding.level == ERROR), None)


def check_cluster(
    home: Home, context: str | None, namespace: str | None, within: float = _LONG
) -> ClusterCheckResult:
    """Check the cluster that jobs run on, for at most `within` seconds."""
    endpoint = _server_endpoint(home, context)
    if endpoint is not None:
        query = {"namespace": namespace or "", "within": within}
        seen = _request(endpoint, "GET", "/kubernetes/check", ClusterCheck, query=query)
        return ClusterCheckResult(seen, endpoint)
    from windlass.kube.check_cluster import examine

    named = named_endpoint()
    url = named.url if named else str((describe_server(home) or {}).get("url") or _LOOPBACK)
    return ClusterCheckResult(
        examine(home, context or "", namespace or "", url=url, within=within), None
    )


def find_namespace_and_account(
    home: Home, context: str | None, namespace: str | None, account: str | None
) -> tuple[str, str, ClusterCheckResult]:
    """Return the namespace and account given as arguments, or else the cluster's."""
    check = check_cluster(home, context, namespace)
    where, who = namespace or check.seen.namespace, account or check.seen.username
    if who and where:
        return where, who, check
    wrong = check.wrong or Finding(
        "account", ERROR, "The cluster does not report the current account"
    )
    raise KubernetesError(wrong.text, hint=wrong.remedy or "Name it: --account NAME")


def preview_manifests(
    home: Home, context: str | None, request: ShowManifests
) -> tuple[list[Any], ClusterCheckResult]:
    """Build the manifests of a job's Kubernetes objects without creating the objects."""
    endpoint = _server_endpoint(home, context)
    if endpoint is not None:
        path = "/kubernetes/manifests"
        made = _request(endpoint, "POST", path, ClusterManifests, body=request)
        return made.objects, ClusterCheckResult(made.cluster, endpoint)
    from windlass.kube.api.connection import connect
    from windlass.runtimes.kubernetes.objects.preview_manifests import manifests_here, preset_image

    reach = partial(connect, context, request.namespace or None, home=home)
    if context:
        reach().close()  # raise an error if the context does not exist
    made = manifests_here(request, reach, preset_image())
    return made.objects, ClusterCheckResult(made.cluster, None)


def find_cluster_mismatch(
    home: Home, namespace: str | None, check: ClusterCheckResult
) -> Iterator[Finding]:
    """Yield a warning if this shell's settings do not select the server's cluster."""
    from windlass.kube.api.connection import NO_CLUSTER, connect

    if check.by is not None and not check.by.is_embedded:
        return  # a remote server's settings need not match this shell
    try:
        own = connect(None, namespace, home=home)
    except KubernetesError as error:
        # If this shell has no cluster settings, they cannot contradict the server's.
        if error.reason != NO_CLUSTER and not _is_reported(error, check):
            yield _unusable_here(error, check)
        return
    except WindlassError:
        return  # neither this process nor the server has a Kubernetes client
    own.close()
    seen = check.seen
    is_same = (own.server, own.namespace, own.account) == (
        seen.server,
        seen.namespace,
        seen.account,
    )
    if check.by is None or is_same:
        return
    yield Finding(
        "this shell",
        WARNING,
        f"it uses another cluster: {own.server}, namespace {own.namespace}, as "
        f"{own.account or 'nobody'} "
        f"({own.source}). Jobs run on the cluster of the server: {_format_cluster(seen)}",
        "To use the cluster of this shell: windlass server stop\n"
        "The next command starts the server again, with the KUBECONFIG of its shell. "
        "Trials in pods keep running. A server manages them again once it uses their cluster.",
    )


def _is_reported(error: WindlassError, check: ClusterCheckResult) -> bool:
    """Return whether the server's own check already reported the same error."""
    return any(finding.text == error.message for finding in check.seen.findings)


def _unusable_here(error: WindlassError, check: ClusterCheckResult) -> Finding:
    """Build the warning for unusable cluster settings in this shell."""
    text, fixes = f"it has no usable cluster: {error.message}", [error.hint or ""]
    named = os.environ.get("KUBECONFIG")
    if named and named in error.message:
        fixes.append("KUBECONFIG names this file. To use ~/.kube/config instead: unset KUBECONFIG")
    if check.by is not None:
        text += f" Jobs run on the cluster of the server: {_format_cluster(check.seen)}"
        fixes.append("A server that you start from this shell would have no cluster.")
    return Finding("this shell", WARNING, text, "\n".join(filter(None, fixes)))


def _format_cluster(seen: ClusterCheck) -> str:
    return f"{seen.server}, namespace {seen.namespace}" if seen.server else "no cluster"


def _server_endpoint(home: Home, context: str | None) -> Endpoint | None:
    return None if context else named_endpoint() or running_endpoint(home)


def _request(endpoint: Endpoint, method: str, path: str, kind: type[Any], **what: Any) -> Any:
    from windlass.client.connection.transport import Transport

    return Transport(endpoint=endpoint, timeout=_ANSWER).ask(method, path, kind, **what)
