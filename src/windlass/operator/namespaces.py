"""Finds configured namespaces that do not exist."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import Kind
from windlass.model.errors import KubernetesError

_NAMESPACES = Kind("", "v1", "namespaces", "Namespace")
_NOT_FOUND = 404


def missing_namespaces(connection: Connection, namespaces: Sequence[str]) -> list[str]:
    """Return the namespaces that do not exist, except those that the account may not read."""
    return [name for name in namespaces if _is_missing(connection, name)]


def _is_missing(connection: Connection, name: str) -> bool:
    try:
        connection.request("GET", _NAMESPACES.path(name=name))
    except KubernetesError as error:
        # an account that is limited to one namespace may be unable to read namespaces
        return error.status == _NOT_FOUND
    return False
