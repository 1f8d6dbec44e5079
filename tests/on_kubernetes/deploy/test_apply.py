"""`kubectl apply --server-side` accepts the manifests of `deploy/`, also on old clusters."""

from __future__ import annotations

import pytest

from on_kubernetes.accounts import admin_connection
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.deploy.manifests import apply_dry, manifests
from on_kubernetes.pods import Namespace


@pytest.mark.parametrize("name", ["server.yaml", "operator.yaml"])
def test_server_side_apply_accepts_the_manifests(
    cluster: Cluster, namespace: Namespace, name: str
) -> None:
    connection = admin_connection(cluster.kubeconfig, namespace.name)
    for thing in manifests(name, "windlass:1"):
        taken = apply_dry(connection, thing, namespace.name)
        assert taken["kind"] == thing["kind"]
