"""The manifests of a server in a cluster agree with the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from windlass.kube.permissions.required import RUNNING, role_rules

DEPLOY = Path(__file__).parents[3] / "deploy" / "server.yaml"


def _objects() -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all(DEPLOY.read_text())}


def test_a_server_in_a_cluster_has_exactly_the_needed_permissions() -> None:
    found = _objects()
    assert found["Role"]["rules"] == role_rules(RUNNING)
    assert "ClusterRole" not in found


def test_the_objects_of_a_server_in_a_cluster_fit_together() -> None:
    found = _objects()
    pod = found["Deployment"]["spec"]["template"]
    assert found["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    [volume] = pod["spec"]["volumes"]
    claim = found["PersistentVolumeClaim"]["metadata"]["name"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim
