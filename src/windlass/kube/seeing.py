"""Seeing what the cluster has, as far as the account may."""

from __future__ import annotations

from windlass.kube.connecting import Connection
from windlass.kube.nodes import Node, node_of
from windlass.model.errors import KubernetesError

_PAGE = "500"
_QUICK = 20.0  # seconds that an answer may take


def list_nodes(connection: Connection) -> list[Node] | None:
    """The nodes; none where the account may not look at them."""
    nodes: list[Node] = []
    more = ""
    while True:
        query = {"limit": _PAGE, **({"continue": more} if more else {})}
        try:
            said = connection.request("GET", "/api/v1/nodes", query=query, timeout=_QUICK)
        except KubernetesError as error:
            if error.status == 403:
                return None
            raise
        nodes += [node_of(found) for found in said.get("items") or ()]
        more = str((said.get("metadata") or {}).get("continue") or "")
        if not more:
            return nodes
