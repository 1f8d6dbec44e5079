"""The manifests of `deploy/` are taken by `kubectl apply --server-side` of old clusters, too."""

from __future__ import annotations

import pytest

from on_kubernetes.accounts import admin_connection
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.deploy.manifests import apply_dry, manifests
from on_kubernetes.pods import Namespace


@pytest.mark.parametrize("name", ["server.yaml", "operator.yaml"])
def test_server_side_apply_takes_the_manifests(
    cluster: Cluster, namespace: Namespace, name: str
) -> None:
    connection = admin_connection(cluster.kubeconfig, namespace.name)
    for thing in manifests(name, "windlass:1"):
        taken = apply_dry(connection, thing, namespace.name)
        assert taken["kind"] == thing["kind"]
