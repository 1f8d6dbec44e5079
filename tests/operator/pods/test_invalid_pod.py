"""Permanent refusals of a pod by the API, reported for the job."""

from __future__ import annotations

from typing import Any

from operator_objects import manifest, replicas
from windlass.kube.errors.api_errors import Fault, InvalidObject
from windlass.model.errors import KubernetesError
from windlass.model.status import ReplicaId
from windlass.operator.jobs.from_object import translate
from windlass.operator.pods.builder import make_pod
from windlass.operator.pods.invalid_pod import invalid_pod_error

WORKER = ReplicaId("worker", 0, 1)
TEMPLATE = "spec.tfReplicaSpecs.Worker.template"


def errors(*faults: Fault, kind: str = "Pod", **container: Any) -> str:
    made_from = translate(manifest("TFJob", Worker=replicas("TFJob", container=container)))
    error = KubernetesError("The cluster refused it.", status=422, reason="Invalid")
    return str(invalid_pod_error(InvalidObject(error, kind, faults), made_from, WORKER))


def test_an_error_of_a_pod_names_the_template() -> None:
    fault = Fault("spec.containers[1].name", 'Duplicate value: "a"')
    assert errors(fault) == f'{TEMPLATE}.spec.containers[1].name: Duplicate value: "a"'
    assert errors(Fault("", "v1.PodSpec: expects [")) == f"{TEMPLATE}: v1.PodSpec: expects ["


def test_all_errors_are_reported_at_once() -> None:
    text = errors(Fault("metadata.labels", "Invalid value"), Fault("spec.priority", "Forbidden"))
    assert text.startswith("2 problems:")
    assert f"{TEMPLATE}.metadata.labels: Invalid value" in text
    assert f"{TEMPLATE}.spec.priority: Forbidden" in text


def test_an_error_of_a_variable_has_the_position_in_the_users_list() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "1 2", "value": "2"}]
    made_from = translate(manifest("TFJob", Worker=replicas("TFJob", container={"env": env})))
    [container] = make_pod(made_from, WORKER)["spec"]["containers"]
    place = container["env"].index(env[1])
    assert place > 1  # Windlass's variables come first
    fault = Fault(f"spec.containers[0].env[{place}].name", "Invalid value")
    assert errors(fault, env=env) == f"{TEMPLATE}.spec.containers[0].env[1].name: Invalid value"


def test_an_error_of_a_service_is_reported_as_such() -> None:
    messages = errors(Fault("spec.ports[0].port", "Invalid value: 0"), kind="Service")
    assert (
        messages == "spec.tfReplicaSpecs.Worker: its service: spec.ports[0].port: Invalid value: 0"
    )


def test_an_error_in_fields_added_by_webhooks_is_reported_with_its_path() -> None:
    beyond = Fault("spec.containers[0].env[40].name", "Invalid value")
    sidecar = Fault("spec.containers[3].env[0].name", "Invalid value")
    text = errors(beyond, sidecar)
    assert f"{TEMPLATE}.spec.containers[0].env[40].name: Invalid value" in text
    assert f"{TEMPLATE}.spec.containers[3].env[0].name: Invalid value" in text
