"""What `windlass kubernetes check` looks at, in the order in which things must be right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from windlass.cli.findings import Finding
from windlass.home import Home
from windlass.model.errors import WindlassError

if TYPE_CHECKING:
    from windlass.kube.connecting import Connection
    from windlass.kube.deeds import Deed

_PORT_FORWARD = "pods/portforward"


def examine(home: Home, context: str | None, namespace: str | None) -> Iterator[Finding]:
    """Look at the cluster; what depends on what is wrong is not looked at."""
    from windlass.kube.access import check_known, server_version
    from windlass.kube.connecting import connect

    try:
        connection = connect(context, namespace, home=home)
    except WindlassError as error:
        yield _error("cluster", error)
        return
    try:
        yield Finding("cluster", "ok", f"{connection.server} ({connection.source})")
        try:
            version = server_version(connection)
            yield _reachable(connection, version)
            check_known(connection)
        except WindlassError as error:
            yield _error("reachable" if not getattr(error, "status", 0) else "account", error)
            return
        yield from _inside(connection, home)
    finally:
        connection.close()


def _reachable(connection: Connection, version: str) -> Finding:
    text = f"it answers, Kubernetes {version}"
    if connection.is_trusted:
        return Finding("reachable", "ok", text)
    return Finding(
        "reachable",
        "warning",
        f"{text}; its certificate is not checked, so that anybody could be it",
        "Name that of its authority: ca_cert_path= in place of skip_tls=True.",
    )


def _inside(connection: Connection, home: Home) -> Iterator[Finding]:
    from windlass.kube.access import account_name, check_namespace, missing_rights

    account = account_name(connection)
    yield Finding("account", "ok", account or "unknown")
    try:
        check_namespace(connection, connection.namespace)
        yield Finding("namespace", "ok", connection.namespace)
    except WindlassError as error:
        yield _error("namespace", error)
        return
    missing = missing_rights(connection, connection.namespace)
    yield from _rights(missing, account)
    yield from _nodes(connection)
    yield _reaching(home, missing)


def _rights(missing: list[Deed], account: str) -> Iterator[Finding]:
    from windlass.kube.access import lacking
    from windlass.kube.rights import RUNNING

    for right in RUNNING:
        lacks = [deed for deed in missing if deed.resource == right.resource]
        verbs = [verb for verb in right.verbs if verb not in {deed.verb for deed in lacks}]
        if not lacks:
            yield Finding("right", "ok", f"{right.resource}: {', '.join(verbs)}")
            continue
        error = lacking(lacks, account)
        yield Finding(
            "right", "error", f"{error.message} Needed for: {right.why}.", error.hint or ""
        )


def _nodes(connection: Connection) -> Iterator[Finding]:
    from windlass.kube.nodes import told
    from windlass.kube.seeing import list_nodes

    nodes = list_nodes(connection)
    if nodes is None:
        yield Finding(
            "accelerators",
            "warning",
            "unknown: this account may not list nodes, so that what the cluster does not have is "
            "found out only when a pod does not start",
            "Somebody who may can grant it: kubectl create clusterrole windlass-nodes "
            "--verb=list --resource=nodes, and a clusterrolebinding of it",
        )
        return
    ready = [node for node in nodes if node.is_ready and not node.is_cordoned]
    text = f"{len(ready)} of {len(nodes)} ready"
    if ready:
        yield Finding("machines", "ok", text)
    else:
        yield Finding("machines", "warning", text, "Pods wait until one is: kubectl get nodes")
    yield Finding("accelerators", "ok", told(nodes).removeprefix("it has "))


def _reaching(home: Home, missing: list[Deed]) -> Finding:
    """Whether pods could reach the server, or it must reach them."""
    from windlass.client.discovery import describe_server, named_endpoint

    named = named_endpoint()
    described = describe_server(home) or {}
    url = named.url if named else str(described.get("url") or "http://127.0.0.1")
    host = urlsplit(url).hostname or ""
    if not _is_loopback(host):
        return Finding("server", "ok", f"pods reach it at {url}, if their network lets them")
    if any(deed.resource == _PORT_FORWARD for deed in missing):
        return Finding(
            "server",
            "error",
            f"pods cannot reach it at {host}, and it may not reach them ({_PORT_FORWARD})",
            "Have that right granted, or let the server listen where pods reach it.",
        )
    return Finding(
        "server", "ok", f"pods cannot reach it at {host}; it reaches them through the cluster's API"
    )


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _error(check: str, error: WindlassError) -> Finding:
    return Finding(check, "error", error.message, error.hint or "")
