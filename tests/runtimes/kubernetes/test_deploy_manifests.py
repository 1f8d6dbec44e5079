"""The manifests of a server in a cluster agree with the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from windlass.kube.permissions.required import RUNNING, role_rules

DEPLOY = Path(__file__).parents[3] / "deploy" / "server.yaml"


def _objects() -> dict[str, Any]:
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(DEPLOY.read_text())}


def test_a_server_in_a_cluster_has_exactly_the_needed_permissions() -> None:
    manifests = _objects()
    assert manifests["Role"]["rules"] == role_rules(RUNNING)
    assert "ClusterRole" not in manifests


def test_the_objects_of_a_server_in_a_cluster_fit_together() -> None:
    manifests = _objects()
    pod = manifests["Deployment"]["spec"]["template"]
    assert manifests["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["serviceAccountName"] == manifests["ServiceAccount"]["metadata"]["name"]
    [volume] = pod["spec"]["volumes"]
    claim = manifests["PersistentVolumeClaim"]["metadata"]["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim
