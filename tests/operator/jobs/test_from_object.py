"""The job that an object describes."""

from __future__ import annotations

from typing import Any

import pytest

from operator_objects import manifest, replicas
from windlass.model.errors import InvalidArgument
from windlass.model.job import CleanPolicy, RestartPolicy, RestartScope, SuccessPolicy
from windlass.operator.jobs.from_object import is_ours, translate


def problems(thing: dict[str, Any]) -> str:
    with pytest.raises(InvalidArgument) as caught:
        translate(thing)
    return str(caught.value)


def test_roles_are_read_in_any_case_and_leaders_come_first() -> None:
    spec = translate(manifest("TFJob", WORKER=2, ps=1, Chief=1, evaluator=1)).job.spec
    assert [(role.name, role.replicas) for role in spec.roles] == [
        ("chief", 1), ("worker", 2), ("ps", 1), ("evaluator", 1),
    ]  # fmt: skip
    assert [role.name for role in spec.roles if role.service] == ["ps", "evaluator"]


def test_missing_fields_have_the_defaults_of_the_api() -> None:
    tf = translate(manifest("TFJob", Worker=replicas("TFJob", None))).job.spec
    assert (tf.roles[0].replicas, tf.roles[0].restart_policy) == (1, RestartPolicy.NEVER)
    assert (tf.clean_policy, tf.backoff_limit) == (CleanPolicy.NONE, 6)
    assert (tf.active_deadline, tf.ttl_after_finished, tf.suspend) == (None, None, False)
    torch = translate(manifest("PyTorchJob", Master=1, Worker=1)).job.spec
    assert torch.roles[0].restart_policy is RestartPolicy.ON_FAILURE


def test_the_run_policy_applies_to_the_job() -> None:
    policy = {
        "backoffLimit": 0, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0,
        "cleanPodPolicy": "All", "suspend": True,
        "schedulingPolicy": {"priorityClass": "high", "minAvailable": 2},
    }  # fmt: skip
    job_spec = translate(manifest("TFJob", Worker=1, runPolicy=policy))
    spec = job_spec.job.spec
    assert (spec.backoff_limit, spec.active_deadline, spec.ttl_after_finished) == (0, 60.0, 0.0)
    assert (spec.clean_policy, spec.suspend) == (CleanPolicy.ALL, True)
    assert job_spec.priority_class == "high"


def test_the_master_of_a_pytorchjob_decides_or_else_all_workers() -> None:
    with_master = translate(manifest("PyTorchJob", Master=1, Worker=2)).job.spec
    assert with_master.success_policy is SuccessPolicy.LEADER
    workers = translate(manifest("PyTorchJob", Worker=2)).job.spec
    assert workers.success_policy is SuccessPolicy.DEFAULT


def test_pytorch_peers_restart_together_unless_they_are_elastic() -> None:
    plain = translate(manifest("PyTorchJob", Master=1, Worker=2))
    assert plain.job.spec.restart_scope is RestartScope.JOB
    elastic = translate(manifest("PyTorchJob", Worker=2, elasticPolicy={"maxReplicas": 4}))
    assert elastic.job.spec.restart_scope is RestartScope.REPLICA
    assert elastic.elastic is not None
    assert (elastic.elastic.least, elastic.elastic.most) == (4, 4)


def test_a_named_port_replaces_the_default() -> None:
    ports = [{"name": "http", "containerPort": 80}, {"name": "tfjob-port", "containerPort": 5000}]
    job_spec = translate(
        manifest("TFJob", Worker=replicas("TFJob", 1, container={"ports": ports}), PS=1)
    )
    assert job_spec.addresses == {
        "worker-0": "train-worker-0.lab.svc:5000",
        "ps-0": "train-ps-0.lab.svc:2222",
    }


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (manifest("TFJob"), "spec.tfReplicaSpecs: it is empty"),
        (
            manifest("TFJob", Worker={"template": {"spec": {"containers": []}}}),
            "spec.tfReplicaSpecs.Worker.template.spec.containers: it is empty; "
            "add a container named 'tensorflow'",
        ),
        (manifest("TFJob", Worker={}), "template.spec.containers: it is empty"),
        (
            manifest("TFJob", Worker=replicas("PyTorchJob")),
            "no container is named 'tensorflow'; rename one of: 'pytorch'",
        ),
        (
            manifest("TFJob", Worker=replicas("TFJob", container={"image": ""})),
            "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image: it is missing",
        ),
        (manifest("TFJob", Chief=2), "spec.tfReplicaSpecs: tensorflow has one chief; there are 2"),
        (manifest("TFJob", Chief=1, Master=1), "a job may have a chief or a master, not both"),
        (manifest("PyTorchJob", Master=2), "torch has one master; there are 2"),
        (
            manifest("PyTorchJob", Launcher=1),
            "spec.pytorchReplicaSpecs: a PyTorchJob has no 'Launcher'; it has: Master, Worker",
        ),
        (manifest("TFJob", Worker=1, worker=1), "'Worker' and 'worker' are the same"),
        (manifest("TFJob", Worker=-1), "spec.tfReplicaSpecs.Worker.replicas: is -1"),
        (manifest("TFJob", Worker=0), "no role has a replica"),
        (manifest("TFJob", Worker=3000), "3000 replicas are too many; 1000 is the limit"),
        (
            manifest("TFJob", Worker=replicas("TFJob", restartPolicy="Sometimes")),
            "spec.tfReplicaSpecs.Worker.restartPolicy: 'Sometimes' is not one of",
        ),
        (
            manifest("TFJob", Worker=1, runPolicy={"cleanPodPolicy": "Some"}),
            "spec.runPolicy.cleanPodPolicy: 'Some' is not one of Running, All, None",
        ),
        (
            manifest("TFJob", Worker=1, runPolicy={"backoffLimit": -1}),
            "spec.runPolicy.backoffLimit: is -1; it must be 0 or more",
        ),
        (
            manifest("TFJob", Worker=1, runPolicy={"activeDeadlineSeconds": 0}),
            "spec.runPolicy.activeDeadlineSeconds: is 0; it must be 1 or more",
        ),
        (
            manifest("TFJob", Worker=1, successPolicy="Any"),
            "spec.successPolicy: 'Any' is not one of",
        ),
        (manifest("TFJob", "x" * 60, Worker=1), "is too long: its service"),
        (manifest("TFJob", "a.b", Worker=1), "metadata.name: 'a.b' must start with a letter"),
        (
            manifest("PyTorchJob", Worker=1, elasticPolicy={"minReplicas": 3, "maxReplicas": 2}),
            "spec.elasticPolicy.minReplicas: is 3, above maxReplicas, 2",
        ),
        (manifest("TFJob", Worker=1, runPolicy="all"), "spec.runPolicy: must be an object"),
        (
            manifest("TFJob", Worker=1, runPolicy={"schedulingPolicy": "x"}),
            "spec.runPolicy.schedulingPolicy: must be an object, not 'x'",
        ),
        (
            manifest("PyTorchJob", Worker=1, elasticPolicy={"rdzvConf": ["x"]}),
            "spec.elasticPolicy.rdzvConf[0]: must be an object, not 'x'",
        ),
        (
            manifest("PyTorchJob", Worker=1, nprocPerNode="9" * 5000),
            "are too many processes for a node",
        ),
    ],
)
def test_an_invalid_field_is_reported_with_its_path(thing: dict[str, Any], message: str) -> None:
    assert message in problems(thing)


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ({"env": "abc"}, "env: must be a list, not 'abc'"),
        ({"env": [None]}, "env[0]: must be an object, not None"),
        ({"env": [{"name": []}]}, "env[0].name: must be a string, not []"),
        ({"env": [{"name": "N", "value": 5}]}, "env[0].value: must be a string, not 5"),
        ({"ports": [None]}, "ports[0]: must be an object, not None"),
        (
            {"ports": [{"name": "tfjob-port", "containerPort": "xyz"}]},
            "ports[0].containerPort: must be a whole number, not 'xyz'",
        ),
        (
            {"ports": [{"containerPort": 1}, {"name": "tfjob-port", "containerPort": 70000}]},
            "ports[1].containerPort: is 70000; it must be from 1 to 65535",
        ),
        ({"command": 5}, "command: must be a list, not 5"),
        ({"args": ["--steps", 5]}, "args[1]: must be a string, not 5"),
        ({"image": True}, "image: must be a string, not True"),
    ],
)
def test_an_invalid_container_is_reported_with_its_path(
    container: dict[str, Any], message: str
) -> None:
    thing = manifest("TFJob", Worker=replicas("TFJob", container=container))
    assert problems(thing) == f"spec.tfReplicaSpecs.Worker.template.spec.containers[0].{message}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("x", ": must be an object, not 'x'"),
        ({"metadata": "x"}, ".metadata: must be an object, not 'x'"),
        ({"metadata": {"labels": "x"}}, ".metadata.labels: must be an object, not 'x'"),
        ({"metadata": {"labels": {"n": 5}}}, ".metadata.labels.n: must be a string, not 5"),
        ({"spec": []}, ".spec: must be an object, not []"),
        ({"spec": {"containers": "x"}}, ".spec.containers: must be a list, not 'x'"),
        ({"spec": {"containers": ["x"]}}, ".spec.containers[0]: must be an object, not 'x'"),
        ({"spec": {"initContainers": "x"}}, ".spec.initContainers: must be a list, not 'x'"),
    ],
)
def test_an_invalid_template_is_reported_with_its_path(template: Any, message: str) -> None:
    thing = manifest("TFJob", Worker={"template": template})
    assert problems(thing) == f"spec.tfReplicaSpecs.Worker.template{message}"


def test_null_fields_of_a_template_count_as_missing() -> None:
    container = {"env": None, "ports": None, "command": None, "args": None}
    thing = manifest("TFJob", Worker=replicas("TFJob", container=container))
    thing["spec"]["tfReplicaSpecs"]["Worker"]["template"]["metadata"] = None
    assert translate(thing).ports == {"worker": 2222}


def test_all_problems_are_reported_at_once() -> None:
    policy = {"backoffLimit": -1, "cleanPodPolicy": "Some"}
    text = problems(manifest("TFJob", Chief=2, Worker={}, runPolicy=policy))
    assert text.startswith("4 problems:")


@pytest.mark.parametrize(
    ("manager", "ours"),
    [
        (None, True),
        ("", True),
        ("kubeflow.org/training-operator", True),
        ("kueue.x-k8s.io/multikueue", False),
    ],
)
def test_a_job_managed_by_another_controller_is_skipped(manager: str | None, ours: bool) -> None:
    assert is_ours(manifest("TFJob", Worker=1, runPolicy={"managedBy": manager})) is ours
