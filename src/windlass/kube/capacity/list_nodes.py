"""Lists the nodes of a cluster."""

from __future__ import annotations

from windlass.kube.api.connection import Connection
from windlass.kube.capacity.nodes import Node, parse_node
from windlass.model.errors import KubernetesError

_PAGE = "500"
_QUICK = 20.0  # seconds that a response may take


def list_nodes(connection: Connection) -> list[Node] | None:
    """Return the cluster's nodes, or None if the account has no permission to list nodes."""
    nodes: list[Node] = []
    more = ""
    while True:
        query = {"limit": _PAGE, **({"continue": more} if more else {})}
        try:
            page = connection.request("GET", "/api/v1/nodes", query=query, timeout=_QUICK)
        except KubernetesError as error:
            if error.status == 403:
                return None
            raise
        nodes += [parse_node(item) for item in page.get("items") or ()]
        more = str((page.get("metadata") or {}).get("continue") or "")
        if not more:
            return nodes
