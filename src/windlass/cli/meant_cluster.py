"""Which cluster is meant: that of the server, if one runs, since it is the server that runs jobs.

What this shell would choose is looked at where there is none, which would then be started by it,
and where a context is named, which is one of this shell's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from windlass.client.discovery import Endpoint, describe_server, named_endpoint, running_endpoint
from windlass.home import Home
from windlass.model.errors import KubernetesError, WindlassError
from windlass.model.findings import (
    ERROR,
    WARNING,
    ClusterCheck,
    ClusterManifests,
    Finding,
    ShowManifests,
)

_ANSWER = 60.0  # seconds: more than the server takes to look
_LONG = 50.0  # seconds that a cluster has to answer in
_LOOPBACK = "http://127.0.0.1"


class Asked(NamedTuple):
    """What is known of the cluster, and by whom: none if by this process."""

    seen: ClusterCheck
    by: Endpoint | None

    @property
    def wrong(self) -> Finding | None:
        """The first thing that must be mended."""
        return next((each for each in self.seen.findings if each.level == ERROR), None)


def checked(home: Home, context: str | None, namespace: str | None, within: float = _LONG) -> Asked:
    """The cluster, looked at for so many seconds at most."""
    endpoint = _whom_to_ask(home, context)
    if endpoint is not None:
        query = {"namespace": namespace or "", "within": within}
        seen = _ask(endpoint, "GET", "/kubernetes/check", ClusterCheck, query=query)
        return Asked(seen, endpoint)
    from windlass.kube.examining import examine

    named = named_endpoint()
    url = named.url if named else str((describe_server(home) or {}).get("url") or _LOOPBACK)
    return Asked(examine(home, context or "", namespace or "", url=url, within=within), None)


def who_and_where(
    home: Home, context: str | None, namespace: str | None, account: str | None
) -> tuple[str, str, Asked]:
    """The namespace that is meant, and who we are there, as the cluster says, unless it is said."""
    asked = checked(home, context, namespace)
    where, who = namespace or asked.seen.namespace, account or asked.seen.username
    if who and where:
        return where, who, asked
    wrong = asked.wrong or Finding("account", ERROR, "The cluster does not say who we are")
    raise KubernetesError(wrong.text, hint=wrong.mend or "Say it: --account NAME")


def manifests(home: Home, context: str | None, asked: ShowManifests) -> tuple[list[Any], Asked]:
    """What would be created there for a job."""
    endpoint = _whom_to_ask(home, context)
    if endpoint is not None:
        path = "/kubernetes/manifests"
        made = _ask(endpoint, "POST", path, ClusterManifests, body=asked)
        return made.objects, Asked(made.cluster, endpoint)
    from windlass.kube.connecting import connect
    from windlass.runtimes.kubernetes.manifests import manifests_here, preset_image

    reach = partial(connect, context, asked.namespace or None, home=home)
    if context:
        reach().close()  # one that is named has to be there
    made = manifests_here(asked, reach, preset_image())
    return made.objects, Asked(made.cluster, None)


def told_apart(home: Home, namespace: str | None, asked: Asked) -> Iterator[Finding]:
    """Whether this shell's own settings mean another cluster than the server's do, or none."""
    from windlass.kube.connecting import NO_CLUSTER, connect

    if asked.by is not None and not asked.by.is_embedded:
        return  # somebody else's server has settings of its own
    try:
        own = connect(None, namespace, home=home)
    except KubernetesError as error:
        # Where nothing says which cluster is meant, nothing can be mistaken for the server's.
        if error.reason != NO_CLUSTER and not _is_told(error, asked):
            yield _unusable_here(error, asked)
        return
    except WindlassError:
        return  # there is no client of Kubernetes here, nor is there one for the server
    own.close()
    seen = asked.seen
    is_same = (own.server, own.namespace, own.account) == (
        seen.server,
        seen.namespace,
        seen.account,
    )
    if asked.by is None or is_same:
        return
    yield Finding(
        "this shell",
        WARNING,
        f"it means another: {own.server}, namespace {own.namespace}, as {own.account or 'nobody'} "
        f"({own.source}). Jobs go where the server looks: {_where(seen)}",
        "To have them go where this shell looks: windlass server stop\n"
        "The next command starts it again, with the KUBECONFIG of its shell. Trials in pods go on "
        "meanwhile, and are looked after again once a server looks at their cluster.",
    )


def _is_told(error: WindlassError, asked: Asked) -> bool:
    """Whether the same is wrong for the server, and so was told already."""
    return any(each.text == error.message for each in asked.seen.findings)


def _unusable_here(error: WindlassError, asked: Asked) -> Finding:
    """That this shell says which cluster is meant, in a way that is of no use."""
    text, mend = f"it knows no cluster that can be used: {error.message}", [error.hint or ""]
    named = os.environ.get("KUBECONFIG")
    if named and named in error.message:
        mend.append("KUBECONFIG says so; without it ~/.kube/config counts: unset KUBECONFIG")
    if asked.by is not None:
        text += f" Jobs go where the server looks all the same: {_where(asked.seen)}"
        mend.append("A server that is started from this shell as it is would have no cluster.")
    return Finding("this shell", WARNING, text, "\n".join(filter(None, mend)))


def _where(seen: ClusterCheck) -> str:
    return f"{seen.server}, namespace {seen.namespace}" if seen.server else "no cluster"


def _whom_to_ask(home: Home, context: str | None) -> Endpoint | None:
    return None if context else named_endpoint() or running_endpoint(home)


def _ask(endpoint: Endpoint, method: str, path: str, kind: type[Any], **what: Any) -> Any:
    from windlass.client.transport import Transport

    return Transport(endpoint.url, endpoint.token, timeout=_ANSWER).ask(method, path, kind, **what)
