"""The installed objects: definitions, and the permissions of the operator's account."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import published_crds
from windlass.kube.permissions.required import role_rules
from windlass.operator.install_crds import definition_texts, definitions
from windlass.operator.job_kinds import JOB_KINDS
from windlass.operator.permissions import HELPFUL, OF_JOBS, OF_LEASE

ROOT = Path(__file__).parents[2]


def schema(definition: dict[str, Any], *path: str) -> dict[str, Any]:
    structural_schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for step in path:
        structural_schema = structural_schema["properties"][step]
    return dict(structural_schema["properties"])


def test_every_kind_has_a_definition() -> None:
    definitions_by_kind = {
        definition["spec"]["names"]["kind"]: definition for definition in definitions()
    }
    assert set(definitions_by_kind) == {kind.name for kind in JOB_KINDS}
    for kind in JOB_KINDS:
        definition = definitions_by_kind[kind.name]
        assert definition["metadata"]["name"] == f"{kind.kind.plural}.kubeflow.org"
        assert definition["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "windlass"}
        assert definition["spec"]["versions"][0]["subresources"]["status"] == {}
        assert kind.replica_specs in schema(definition, "spec")


def test_the_definitions_can_be_applied_with_kubectl_in_one_file() -> None:
    texts = definition_texts()
    assert list(yaml.safe_load_all("---\n".join(texts))) == definitions()


@published_crds.needed
@pytest.mark.parametrize("kind", JOB_KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("path", [("spec",), ("spec", "runPolicy"), ("status",)])
def test_every_published_field_is_known(kind: Any, path: tuple[str, ...]) -> None:
    theirs = published_crds.definition(kind.kind.plural)
    ours = next(
        definition
        for definition in definitions()
        if definition["spec"]["names"]["kind"] == kind.name
    )
    assert set(schema(theirs, *path)) <= set(schema(ours, *path))
    before, after = theirs["spec"]["versions"][0], ours["spec"]["versions"][0]
    assert before["subresources"] == after["subresources"]
    assert theirs["spec"]["names"] == ours["spec"]["names"]


def test_the_deployment_grants_exactly_the_needed_permissions() -> None:
    manifests = list(yaml.safe_load_all((ROOT / "deploy" / "operator.yaml").read_text()))
    granted = {manifest["kind"]: manifest["rules"] for manifest in manifests if "rules" in manifest}
    of_jobs = role_rules((*OF_JOBS, *HELPFUL))
    assert granted == {"ClusterRole": of_jobs, "Role": role_rules(OF_LEASE)}
