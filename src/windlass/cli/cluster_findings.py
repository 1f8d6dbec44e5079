"""What `windlass kubernetes check` and `windlass doctor` tell of the cluster that jobs run on.

It is the server that talks to the cluster, so it is the server that is asked, if one runs. What
this shell would choose is looked at where there is none, which would then be started by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from windlass.client.discovery import Endpoint, describe_server, named_endpoint, running_endpoint
from windlass.home import Home
from windlass.model.errors import WindlassError
from windlass.model.findings import ERROR, OK, WARNING, ClusterCheck, Finding

_ANSWER = 60.0  # seconds: more than the server takes to look
_AT_A_GLANCE = 2.0  # seconds that a cluster has to answer in


class _Asked(NamedTuple):
    """What is known of the cluster, and by whom: none if by this process."""

    seen: ClusterCheck
    by: Endpoint | None


def look_at_cluster(home: Home, context: str | None, namespace: str | None) -> Iterator[Finding]:
    """Everything that must be right for jobs to run there; a context is one of this shell."""
    try:
        asked = _ask(home, context or "", namespace or "", 50.0)
    except WindlassError as error:
        yield Finding("asked", ERROR, f"the server: {error.message}", error.hint or "")
        return
    if asked.by is None:
        yield from asked.seen.findings
        return
    yield Finding("asked", OK, f"the server at {asked.by.url}, which runs the jobs")
    yield from asked.seen.findings
    yield from _told_apart(home, namespace, asked)


def glance_at_cluster(home: Home) -> Iterator[Finding]:
    """In a line how it is; nothing where no cluster is known."""
    try:
        seen = _ask(home, "", "", _AT_A_GLANCE).seen
    except WindlassError as error:
        yield Finding("kubernetes", WARNING, error.message, error.hint or "")
        return
    if not seen.is_known:
        return
    wrong = next((each for each in seen.findings if each.level == ERROR), None)
    if not seen.server:  # no client, or no file that can be used: of those who want a cluster
        assert wrong is not None  # noqa: S101 -- that is why there is none
        yield Finding("kubernetes", WARNING, wrong.text, wrong.mend)
        return
    where = f"{seen.server} ({seen.source}), namespace {seen.namespace}"
    if wrong is None:
        yield Finding("kubernetes", OK, f"{where}: it answers, and jobs may run there")
    else:
        yield Finding("kubernetes", WARNING, f"{where}: {wrong.text}", _MORE)


_MORE = "Only jobs on that cluster mind. More: windlass kubernetes check"


def _ask(home: Home, context: str, namespace: str, within: float) -> _Asked:
    """What the server sees, if there is one; else, or with a context, what is seen from here."""
    from windlass.client.transport import Transport

    endpoint = None if context else named_endpoint() or running_endpoint(home)
    if endpoint is not None:
        transport = Transport(endpoint.url, endpoint.token, timeout=_ANSWER)
        query = {"namespace": namespace, "within": within}
        path = "/kubernetes/check"
        return _Asked(transport.ask("GET", path, ClusterCheck, query=query), endpoint)
    from windlass.kube.examining import examine

    named = named_endpoint()
    url = named.url if named else str((describe_server(home) or {}).get("url") or _LOOPBACK)
    return _Asked(examine(home, context, namespace, url=url, within=within), None)


_LOOPBACK = "http://127.0.0.1"


def _told_apart(home: Home, namespace: str | None, asked: _Asked) -> Iterator[Finding]:
    """Whether this shell's own settings mean another cluster than the server's do."""
    from windlass.kube.connecting import connect

    if asked.by is None or not asked.by.is_embedded:
        return  # somebody else's server has settings of its own
    try:
        own = connect(None, namespace, home=home)
    except WindlassError:
        return  # there is nothing here that could be mistaken for the server's
    own.close()
    seen = asked.seen
    if (own.server, own.namespace, own.account) == (seen.server, seen.namespace, seen.account):
        return
    there = f"{seen.server}, namespace {seen.namespace}" if seen.server else "no cluster"
    yield Finding(
        "this shell",
        WARNING,
        f"it means another: {own.server}, namespace {own.namespace}, as {own.account or 'nobody'} "
        f"({own.source}). Jobs go where the server looks: {there}",
        "To have them go where this shell looks: windlass server stop\n"
        "The next command starts it again, with the KUBECONFIG of its shell. Trials in pods go on "
        "meanwhile, and are looked after again once a server looks at their cluster.",
    )
