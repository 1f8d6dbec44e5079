"""Checks everything that jobs need in a cluster, one item after the other."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from urllib.parse import urlsplit

from msgspec.structs import replace

from windlass.home import Home
from windlass.kube.api.client_package import load_kubernetes
from windlass.kube.api.connection import NO_CLUSTER, Connection, connect
from windlass.kube.capacity.list_nodes import list_nodes
from windlass.kube.capacity.nodes import describe_accelerators
from windlass.kube.permission import Permission
from windlass.kube.permissions.check import (
    account_name,
    check_account,
    check_namespace,
    grant_hint,
    missing_permissions,
    missing_permissions_error,
    server_version,
)
from windlass.kube.permissions.required import HELPFUL, RUNNING, cluster_grant
from windlass.model.check_results import ERROR, OK, WARNING, ClusterCheck, Finding
from windlass.model.errors import WindlassError

_log = logging.getLogger(__name__)
_FOR_LOGIN = 0.8  # the fraction of the time limit that a login may take
_PORT_FORWARD = "pods/portforward"


def examine(
    home: Home, context: str = "", namespace: str = "", *, url: str, within: float = 50.0
) -> ClusterCheck:
    """Check the cluster that this process's jobs would use, within a time limit in seconds.

    `url` is the current or future address of the Windlass server. The check creates nothing. If a
    check fails, the checks that depend on it are skipped.
    """
    return _Check(home, context, namespace, url).run(within)


class _Check:
    """One run of all checks.

    A separate thread runs the checks, because the cluster may not respond.
    """

    def __init__(self, home: Home, context: str, namespace: str, url: str) -> None:
        self._connect = partial(connect, context or None, namespace or None, home=home)
        self._url = url
        self._connection: Connection | None = None
        self._username = ""
        self._is_configured = True
        self._queue: queue.SimpleQueue[Finding | None] = queue.SimpleQueue()

    def run(self, seconds: float) -> ClusterCheck:
        """Run all checks of the cluster.

        Return the findings that are available within `seconds`.
        """
        try:
            load_kubernetes()  # this import may be slow and does not depend on the cluster
        except WindlassError as error:
            return ClusterCheck(findings=(_error("cluster", error),))
        run = partial(self._run, login_within=seconds * _FOR_LOGIN)
        threading.Thread(target=run, name="windlass-examine", daemon=True).start()
        findings = tuple(self._collect(seconds))
        seen = (
            ClusterCheck(findings=())
            if self._connection is None
            else cluster_identity(self._connection)
        )
        return replace(
            seen, findings=findings, username=self._username, is_configured=self._is_configured
        )

    def _run(self, *, login_within: float) -> None:
        try:
            # The login gets less time than the whole check, so that a hanging login program is
            # reported.
            self._connection = self._connect(login_within=login_within)
            for finding in self._findings(self._connection):
                self._queue.put(finding)
        except WindlassError as error:
            self._is_configured = getattr(error, "reason", "") != NO_CLUSTER
            self._queue.put(_error("cluster", error))
        except Exception as error:  # noqa: BLE001 -- anything may answer, such as a login page
            _log.exception("the check of a cluster failed")
            message = f"its response is not valid: {type(error).__name__}: {error}"
            hint = "Check the address: a proxy may answer in its place. Try: kubectl version"
            self._queue.put(Finding("reachable", ERROR, message, hint))
        finally:
            self._queue.put(None)
            if self._connection is not None:
                self._connection.close()

    def _collect(self, seconds: float) -> Iterator[Finding]:
        end = time.monotonic() + seconds
        while True:
            try:
                finding = self._queue.get(timeout=max(end - time.monotonic(), 0.0))
            except queue.Empty:
                where = self._connection.server if self._connection else "the login program"
                yield Finding(
                    "reachable", ERROR, f"{where} took longer than {seconds:g} s",
                    "Check that the cluster runs and that this machine can reach it (VPN, "
                    "proxy, firewall).",
                )  # fmt: skip
                return
            if finding is None:
                return
            yield finding

    def _findings(self, connection: Connection) -> Iterator[Finding]:
        yield Finding("cluster", OK, f"{connection.server} ({connection.source})")
        check = "reachable"
        try:
            yield _reachable(connection, server_version(connection))
            check = "account"
            check_account(connection)
            account = self._username = account_name(connection)
            yield Finding("account", OK, account or "unknown")
            check = "namespace"
            check_namespace(connection, connection.namespace)
            yield Finding("namespace", OK, connection.namespace)
            check = "right"
            missing = missing_permissions(connection, connection.namespace)
            yield from _permission_findings(missing, account)
            check = "machines"
            yield from _nodes(connection)
            yield _reachability(self._url, missing)
        except WindlassError as error:
            is_refused = check == "reachable" and _is_answer(error)
            yield _error("account" if is_refused else check, error)


def cluster_identity(connection: Connection) -> ClusterCheck:
    """Return a connection's address, namespace and account. No request is sent."""
    return ClusterCheck(
        findings=(),
        server=connection.server,
        source=connection.source,
        namespace=connection.namespace,
        account=connection.account,
    )


def _reachable(connection: Connection, version: str) -> Finding:
    text = f"it answers, Kubernetes {version}"
    if connection.is_trusted:
        return Finding("reachable", OK, text)
    return Finding(
        "reachable",
        WARNING,
        f"{text}; its certificate is not checked, so another machine could impersonate it",
        "Use the certificate of its authority: ca_cert_path= in place of skip_tls=True.",
    )


def _permission_findings(missing: Sequence[Permission], account: str) -> Iterator[Finding]:
    """Yield a finding per permission that Windlass needs.

    If any permissions are missing, also yield the command that grants all of them.
    """
    for rule in RUNNING:
        lacks = [permission for permission in missing if permission.resource == rule.resource]
        if not lacks:
            yield Finding("right", OK, f"{rule.resource}: {', '.join(rule.verbs)}")
            continue
        yield Finding(
            "right",
            ERROR,
            f"{missing_permissions_error(lacks, account).message} Needed for: {rule.why}.",
        )
    if missing:
        what = "one right is" if len(missing) == 1 else f"{len(missing)} rights are"
        yield Finding("rights", ERROR, f"{what} missing", grant_hint(missing, account))


def _nodes(connection: Connection) -> Iterator[Finding]:
    nodes = list_nodes(connection)
    if nodes is None:
        who = connection.account or "NAME"
        yield Finding(
            "accelerators",
            WARNING,
            "unknown: this account may not list nodes, so missing resources are noticed "
            "only when a pod does not start",
            f"An administrator can grant it: {cluster_grant('windlass-nodes', HELPFUL[0], who)}",
        )
        return
    ready = [node for node in nodes if node.is_ready and not node.is_cordoned]
    text = f"{len(ready)} of {len(nodes)} ready"
    if ready:
        yield Finding("machines", OK, text)
    else:
        yield Finding(
            "machines", WARNING, text, "Pods wait until a node is ready: kubectl get nodes"
        )
    yield Finding("accelerators", OK, describe_accelerators(nodes).removeprefix("it has "))


def _reachability(url: str, missing: Sequence[Permission]) -> Finding:
    """Return a finding about the connections between pods and the server.

    Either pods can reach the server, or the server needs the permission to reach the pods.
    """
    host = urlsplit(url).hostname or ""
    if not _is_loopback(host):
        return Finding("server", OK, f"pods can reach it at {url}, if their network allows it")
    if any(permission.resource == _PORT_FORWARD for permission in missing):
        return Finding(
            "server",
            ERROR,
            f"pods cannot reach it at {host}, and it has no permission to reach them "
            f"({_PORT_FORWARD})",
            "Grant that permission, or let the server listen at an address that pods can reach.",
        )
    return Finding(
        "server", OK, f"pods cannot reach it at {host}; it reaches them through the cluster's API"
    )


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _is_answer(error: WindlassError) -> bool:
    return bool(getattr(error, "status", 0))


def _error(check: str, error: WindlassError) -> Finding:
    return Finding(check, ERROR, error.message, error.hint or "")
