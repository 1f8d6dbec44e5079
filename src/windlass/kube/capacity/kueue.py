"""Checks that the cluster has Kueue and that a Kueue queue exists."""

from __future__ import annotations

import difflib
from typing import Any

from windlass.kube.api.connection import Connection
from windlass.model.errors import KubernetesError

GROUP = "kueue.x-k8s.io"
_QUICK = 20.0  # seconds that a response may take


def check_queue(connection: Connection, namespace: str, queue: str) -> None:
    """Raise an error if a queue does not exist.

    If the account has no permission to read the queue, assume that the queue exists.
    """
    group = _seen(connection, f"/apis/{GROUP}")
    if group is None:
        raise KubernetesError(
            f"queue={queue!r} needs Kueue, which this cluster does not have.",
            hint="Remove queue= to use the scheduler of the cluster, or install Kueue: https://kueue.sigs.k8s.io",
            status=404,
            reason="NoKueue",
        )
    version = (group.get("preferredVersion") or {}).get("groupVersion")
    if not version:
        return
    queues = f"/apis/{version}/namespaces/{namespace}/localqueues"
    if _seen(connection, f"{queues}/{queue}") is not None:
        return
    items = (_seen(connection, queues) or {}).get("items") or ()
    names = sorted(str(item["metadata"]["name"]) for item in items)
    raise KubernetesError(
        f"There is no queue {queue} in namespace {namespace}.",
        hint=_suggestion(queue, names),
        status=404,
        reason="NoQueue",
    )


def _seen(connection: Connection, path: str) -> dict[str, Any] | None:
    """Return an object from the API.

    Return None if the object does not exist, and {} if the account has no permission to read it.
    """
    try:
        response = connection.request("GET", path, timeout=_QUICK)
    except KubernetesError as error:
        if error.status == 404:
            return None
        if error.status == 403:
            return {}
        raise
    return response if isinstance(response, dict) else {}


def _suggestion(queue: str, names: list[str]) -> str:
    """Return a hint for a missing queue, which names any existing queues.

    >>> _suggestion("team-x", ["other", "team-a"])
    'The queues are: other, team-a. Did you mean team-a?'
    >>> _suggestion("team-x", [])
    'An administrator of the cluster can create one: kind LocalQueue.'
    """
    if not names:
        return "An administrator of the cluster can create one: kind LocalQueue."
    near = difflib.get_close_matches(queue, names, n=1)
    return f"The queues are: {', '.join(names)}." + (f" Did you mean {near[0]}?" if near else "")
