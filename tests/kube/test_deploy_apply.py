"""The manifests of `deploy/` are taken by `kubectl apply --server-side` of old clusters, too."""

from __future__ import annotations

import pytest

from kube.access import Cluster
from kube.accounts import admin_connection
from kube.deploying import apply_dry, manifests
from kube.pods import Namespace


@pytest.mark.parametrize("name", ["server.yaml", "operator.yaml"])
def test_server_side_apply_takes_the_manifests(
    cluster: Cluster, namespace: Namespace, name: str
) -> None:
    connection = admin_connection(cluster.kubeconfig, namespace.name)
    for thing in manifests(name, "windlass:1"):
        taken = apply_dry(connection, thing, namespace.name)
        assert taken["kind"] == thing["kind"]
