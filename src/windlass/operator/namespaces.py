"""Namespaces that the operator is to look after, and that are not there."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.kube.connecting import Connection
from windlass.kube.kinds import Kind
from windlass.model.errors import KubernetesError

_NAMESPACES = Kind("", "v1", "namespaces", "Namespace")
_NOT_FOUND = 404


def missing_namespaces(connection: Connection, namespaces: Sequence[str]) -> list[str]:
    """Those of them that do not exist, as far as the account may know."""
    return [each for each in namespaces if _is_missing(connection, each)]


def _is_missing(connection: Connection, name: str) -> bool:
    try:
        connection.request("GET", _NAMESPACES.path(name=name))
    except KubernetesError as error:
        return error.status == _NOT_FOUND  # an account of one namespace may not ask
    return False
