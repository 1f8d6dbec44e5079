"""What the API has against a pod for good, told of the job."""

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


def told(*faults: Fault, kind: str = "Pod", **container: Any) -> str:
    made_from = translate(manifest("TFJob", Worker=replicas("TFJob", container=container)))
    error = KubernetesError("The cluster refused it.", status=422, reason="Invalid")
    return str(invalid_pod_error(InvalidObject(error, kind, faults), made_from, WORKER))


def test_a_fault_of_a_pod_is_one_of_its_template() -> None:
    fault = Fault("spec.containers[1].name", 'Duplicate value: "a"')
    assert told(fault) == f'{TEMPLATE}.spec.containers[1].name: Duplicate value: "a"'
    assert told(Fault("", "v1.PodSpec: expects [")) == f"{TEMPLATE}: v1.PodSpec: expects ["


def test_all_faults_are_told_at_once() -> None:
    text = told(Fault("metadata.labels", "Invalid value"), Fault("spec.priority", "Forbidden"))
    assert text.startswith("2 problems:")
    assert f"{TEMPLATE}.metadata.labels: Invalid value" in text
    assert f"{TEMPLATE}.spec.priority: Forbidden" in text


def test_a_variable_is_told_where_its_user_wrote_it() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "1 2", "value": "2"}]
    made_from = translate(manifest("TFJob", Worker=replicas("TFJob", container={"env": env})))
    [container] = make_pod(made_from, WORKER)["spec"]["containers"]
    place = container["env"].index(env[1])
    assert place > 1  # ours come first
    fault = Fault(f"spec.containers[0].env[{place}].name", "Invalid value")
    assert told(fault, env=env) == f"{TEMPLATE}.spec.containers[0].env[1].name: Invalid value"


def test_a_fault_of_a_service_is_told_as_one() -> None:
    said = told(Fault("spec.ports[0].port", "Invalid value: 0"), kind="Service")
    assert said == "spec.tfReplicaSpecs.Worker: its service: spec.ports[0].port: Invalid value: 0"


def test_what_others_add_to_pods_on_their_way_in_is_told_where_it_is() -> None:
    beyond = Fault("spec.containers[0].env[40].name", "Invalid value")
    sidecar = Fault("spec.containers[3].env[0].name", "Invalid value")
    text = told(beyond, sidecar)
    assert f"{TEMPLATE}.spec.containers[0].env[40].name: Invalid value" in text
    assert f"{TEMPLATE}.spec.containers[3].env[0].name: Invalid value" in text
