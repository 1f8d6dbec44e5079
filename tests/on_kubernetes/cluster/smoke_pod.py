"""A smoke test of the cluster: a pod that looks up a name and calls the API server."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from on_kubernetes.cluster.commands import ClusterError
from on_kubernetes.cluster.credentials import AUTHORITY, token_of
from on_kubernetes.cluster.locations import API_SERVER, LOGS, WORKER_IMAGE
from on_kubernetes.cluster.wait import NeverHappenedError, wait_until

_POD = "/api/v1/namespaces/default/pods/proof"
_PROGRAM = """
import socket, urllib.request, ssl
own = "/var/run/secrets/kubernetes.io/serviceaccount/"
tls = ssl.create_default_context(cafile=own + "ca.crt")
urllib.request.urlopen("https://kubernetes.default/version", context=tls, timeout=5)
"""


def prove(timeout: float = 90.0) -> None:
    """Run a pod to its end, and remove it."""
    wait_until(_has_default_account, "there is a default service account", timeout=timeout)
    if _call("GET", _POD):
        _remove()
    container = {"name": "main", "image": WORKER_IMAGE, "command": ["python3", "-c", _PROGRAM]}
    pod = {
        "metadata": {"name": "proof"},
        # Repeat as needed: the services may not be ready yet.
        "spec": {"restartPolicy": "OnFailure", "containers": [container]},
    }
    _call("POST", _POD.rpartition("/")[0], pod)
    try:
        wait_until(lambda: _phase() == "Succeeded", "the first pod ran", timeout=timeout)
    except NeverHappenedError as error:
        status = json.dumps((_call("GET", _POD) or {}).get("status"), indent=1)
        raise ClusterError(f"{error} See {LOGS}.\nIts status:\n{status}") from None
    _remove()


def _remove() -> None:
    _call("DELETE", f"{_POD}?gracePeriodSeconds=0")
    wait_until(lambda: _call("GET", _POD) is None, "the first pod is gone")


def _phase() -> str:
    return str((_call("GET", _POD) or {}).get("status", {}).get("phase"))


def _has_default_account() -> bool:
    account = _call("GET", "/api/v1/namespaces/default/serviceaccounts/default")
    return bool(account and account.get("secrets"))


def _call(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Return the response of the API server, or None for a missing object."""
    request = urllib.request.Request(
        API_SERVER + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {token_of('admin')}",
            "Content-Type": "application/json",
        },
    )
    tls = ssl.create_default_context(cafile=str(AUTHORITY))
    try:
        with urllib.request.urlopen(request, context=tls, timeout=30) as answer:
            record: dict[str, Any] = json.load(answer)
            return record
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise ClusterError(f"{method} {path}: {error.read().decode()}") from None
