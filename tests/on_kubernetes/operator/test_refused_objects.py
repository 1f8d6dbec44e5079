"""Objects and changes that the API server refuses by the definitions of Windlass."""

from __future__ import annotations

import re
from typing import Any

import pytest

from on_kubernetes.operator.operator_process import Jobs
from windlass.model.errors import KubernetesError
from windlass.operator.install_crds import DEFINITIONS, install
from windlass.operator.job_kinds import BY_NAME

INVALID = 422


def refusal(jobs: Jobs, kind: str, spec: dict[str, Any], **role: Any) -> str:
    """Create a job, which the API server refuses, and return its message."""
    with pytest.raises(KubernetesError) as raised:
        jobs.create(kind, "train", spec=spec, Worker={**jobs.role(1, "pass"), **role})
    assert raised.value.status == INVALID
    return str(raised.value)


@pytest.mark.parametrize("kind", sorted(BY_NAME))
def test_the_api_server_refuses_unknown_values_and_changes_of_immutable_fields(
    jobs: Jobs, kind: str
) -> None:
    """No operator runs here. Kubernetes before 1.25 has no rules for changes."""
    replicas = BY_NAME[kind].replica_specs
    for policy, message in (
        ({"managedBy": "lab/other"}, 'managedBy: Unsupported value: "lab/other": supported values'),
        ({"cleanPodPolicy": "Some"}, "cleanPodPolicy: Unsupported value"),
        ({"backoffLimit": -1}, "should be greater than or equal to 0"),
        ({"activeDeadlineSeconds": 0}, "should be greater than or equal to 1"),
    ):
        assert message in refusal(jobs, kind, {"runPolicy": policy})
    assert f"spec.{replicas}.Worker.restartPolicy" in refusal(jobs, kind, {}, restartPolicy="Some")
    message = f'spec.{replicas}.Worker.replicas: Invalid value: "string"'
    assert message in refusal(jobs, kind, {}, replicas="two")
    assert jobs.get(kind, "train") is None

    theirs = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}
    jobs.create(kind, "train", spec=theirs, Worker=jobs.role(1, "pass"))
    change = {"spec": {"runPolicy": {"managedBy": "windlass.dev/operator"}}}
    if _has_rules(jobs, kind):
        with pytest.raises(KubernetesError, match=r"runPolicy\.managedBy is immutable"):
            jobs.patch(kind, "train", change)
        return
    jobs.patch(kind, "train", change)
    # The server drops the rules. The definitions that it stores are complete nevertheless.
    assert _version(jobs) < (1, 25)
    assert {change.what for change in install(jobs.connection)} == {"unchanged"}


def _has_rules(jobs: Jobs, kind: str) -> bool:
    """Return whether the server has kept the rules of a definition."""
    name = f"{BY_NAME[kind].kind.plural}.kubeflow.org"
    installed = jobs.connection.request("GET", DEFINITIONS.path(name=name))
    [version] = installed["spec"]["versions"]
    return "x-kubernetes-validations" in version["schema"]["openAPIV3Schema"]["properties"]["spec"]


def _version(jobs: Jobs) -> tuple[int, int]:
    version = jobs.connection.request("GET", "/version")
    return int(version["major"]), int(re.sub(r"\D.*", "", version["minor"]))
