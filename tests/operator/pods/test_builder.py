"""The pods and services of a job: names, labels, owners and environments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operator_objects import manifest, replicas
from windlass.model.status import ReplicaId
from windlass.operator.jobs.from_object import translate
from windlass.operator.names import replica_of
from windlass.operator.pods.builder import make_pod, make_service


def variables(thing: dict[str, Any], role: str, index: int = 0, attempt: int = 1) -> dict[str, str]:
    pod = make_pod(translate(thing), ReplicaId(role, index, attempt))
    return {variable["name"]: variable["value"] for variable in pod["spec"]["containers"][0]["env"]}


def test_a_pod_has_the_name_labels_and_owner_that_clients_expect() -> None:
    pod = make_pod(translate(manifest("TFJob", Chief=1, Worker=2)), ReplicaId("worker", 1, 3))
    assert pod["metadata"]["name"] == "train-worker-1"
    assert pod["metadata"]["labels"] == {
        "training.kubeflow.org/job-name": "train",
        "training.kubeflow.org/operator-name": "tfjob-controller",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "1",
        "windlass.dev/attempt": "3",
    }
    assert pod["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "train", "uid": "uid-1",
            "controller": True, "blockOwnerDeletion": True,
        }
    ]  # fmt: skip
    assert replica_of(pod["metadata"]["labels"]) == ReplicaId("worker", 1, 3)


@pytest.mark.parametrize(
    ("thing", "leader"),
    [
        (manifest("TFJob", Chief=1, Worker=2), "chief"),
        (manifest("TFJob", Worker=2, PS=1), "worker"),
        (manifest("PyTorchJob", Master=1, Worker=2), "master"),
        (manifest("PyTorchJob", Worker=2), "worker"),
    ],
)
def test_one_pod_represents_the_job(thing: dict[str, Any], leader: str) -> None:
    job_spec = translate(thing)
    speakers = [
        (role.name, index)
        for role in job_spec.job.spec.roles
        for index in range(role.replicas)
        if "training.kubeflow.org/job-role"
        in make_pod(job_spec, ReplicaId(role.name, index, 1))["metadata"]["labels"]
    ]
    assert speakers == [(leader, 0)]


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob"])
def test_output_is_unbuffered_unless_the_template_overrides_it(
    kind: str,
) -> None:
    assert variables(manifest(kind, Worker=1), "worker")["PYTHONUNBUFFERED"] == "1"
    own = [{"name": "PYTHONUNBUFFERED", "value": ""}]
    buffered = manifest(kind, Worker=replicas(kind, container={"env": own}))
    assert variables(buffered, "worker")["PYTHONUNBUFFERED"] == ""


def test_a_template_is_kept_except_for_managed_fields() -> None:
    template = {
        "metadata": {"labels": {"team": "vision"}, "annotations": {"note": "kept"}},
        "spec": {
            "restartPolicy": "Always",
            "nodeSelector": {"disk": "fast"},
            "containers": [
                {"name": "proxy", "image": "proxy:1"},
                {
                    "name": "pytorch", "image": "torch:2",
                    "env": [{"name": "RANK", "value": "7"}, {"name": "LR", "value": "0.1"}],
                },
            ],
        },
    }  # fmt: skip
    job_spec = translate(manifest("PyTorchJob", Master={"template": template}))
    pod = make_pod(job_spec, ReplicaId("master", 0, 1))
    assert pod["metadata"]["labels"]["team"] == "vision"
    assert pod["metadata"]["annotations"] == {"note": "kept"}
    assert (pod["spec"]["restartPolicy"], pod["spec"]["nodeSelector"]) == (
        "Never",
        {"disk": "fast"},
    )
    proxy, own = pod["spec"]["containers"]
    assert "env" not in proxy
    env = [(variable["name"], variable["value"]) for variable in own["env"]]
    assert [value for name, value in env if name == "RANK"] == ["0"]
    assert env[-1] == ("LR", "0.1")
    assert own["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456}]
    assert own["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert template["spec"]["restartPolicy"] == "Always", "the template itself is left alone"


def test_a_service_is_headless_and_selects_every_attempt() -> None:
    job_spec = translate(manifest("TFJob", Worker=2))
    service = make_service(job_spec, ReplicaId("worker", 0, 1))
    again = make_service(job_spec, ReplicaId("worker", 0, 5))
    assert service == again
    assert service["spec"]["clusterIP"] == "None"
    pod = make_pod(job_spec, ReplicaId("worker", 0, 5))
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["ports"] == [{"name": "tfjob-port", "port": 2222, "targetPort": 2222}]
    assert service["metadata"]["name"] == pod["metadata"]["name"]


@pytest.mark.case(12)
def test_tf_config_is_absent_for_one_replica() -> None:
    assert "TF_CONFIG" not in variables(manifest("TFJob", Worker=1), "worker")


@pytest.mark.case(12)
def test_tf_config_excludes_the_evaluator_and_is_the_same_after_a_restart() -> None:
    thing = manifest("TFJob", Chief=1, Worker=2, PS=2, Evaluator=1)
    config = json.loads(variables(thing, "worker", 1)["TF_CONFIG"])
    assert config == {
        "cluster": {
            "chief": ["train-chief-0.lab.svc:2222"],
            "worker": ["train-worker-0.lab.svc:2222", "train-worker-1.lab.svc:2222"],
            "ps": ["train-ps-0.lab.svc:2222", "train-ps-1.lab.svc:2222"],
        },
        "task": {"type": "worker", "index": 1},
    }
    assert json.loads(variables(thing, "worker", 1, attempt=2)["TF_CONFIG"]) == config
    evaluator = json.loads(variables(thing, "evaluator")["TF_CONFIG"])
    assert evaluator == {**config, "task": {"type": "evaluator", "index": 0}}


def test_a_dynamic_worker_sees_itself_and_the_parameter_servers() -> None:
    thing = manifest("TFJob", Worker=2, PS=1, enableDynamicWorker=True)
    assert json.loads(variables(thing, "worker", 1)["TF_CONFIG"]) == {
        "sparseCluster": {
            "worker": {"1": "train-worker-1.lab.svc:2222"},
            "ps": ["train-ps-0.lab.svc:2222"],
        },
        "task": {"type": "worker", "index": 1},
    }


def test_the_world_size_of_a_pytorchjob_is_replicas_times_processes() -> None:
    thing = manifest("PyTorchJob", Master=1, Worker=2, nprocPerNode="4")
    environment = variables(thing, "worker", 1)
    assert (environment["WORLD_SIZE"], environment["RANK"], environment["PET_NNODES"]) == (
        "12",
        "2",
        "3",
    )
    assert (environment["PET_NPROC_PER_NODE"], environment["PET_NODE_RANK"]) == ("4", "2")
    assert environment["MASTER_ADDR"] == "train-master-0.lab.svc"
    assert environment["MASTER_PORT"] == environment["PET_MASTER_PORT"] == "23456"
    assert variables(thing, "master")["RANK"] == "0"
    auto = variables(manifest("PyTorchJob", Worker=2), "worker")
    assert (auto["WORLD_SIZE"], auto["PET_NPROC_PER_NODE"]) == ("2", "auto")


def test_elastic_workers_get_their_rendezvous_address() -> None:
    policy = {
        "minReplicas": 1, "maxReplicas": 3, "maxRestarts": 5, "rdzvBackend": "c10d",
        "rdzvConf": [{"key": "timeout", "value": "60"}, {"key": "last", "value": "1"}],
    }  # fmt: skip
    environment = variables(manifest("PyTorchJob", Worker=2, elasticPolicy=policy), "worker", 1)
    assert environment["PET_NNODES"] == "1:3"
    assert environment["PET_RDZV_ENDPOINT"] == "train-worker-0:23456"
    assert (environment["PET_RDZV_BACKEND"], environment["PET_RDZV_ID"]) == ("c10d", "train")
    assert (environment["PET_RDZV_CONF"], environment["PET_MAX_RESTARTS"]) == (
        "timeout=60,last=1",
        "5",
    )
    assert "PET_MASTER_ADDR" not in environment
    assert "PET_NODE_RANK" not in environment


def test_every_replica_has_its_identity() -> None:
    environment = variables(manifest("TFJob", Worker=2), "worker", 1, attempt=3)
    names = ("WINDLASS_ROLE", "WINDLASS_INDEX", "WINDLASS_ATTEMPT")
    assert [environment[name] for name in names] == ["worker", "1", "3"]
    assert json.loads(environment["WINDLASS_HOSTS"])["worker"][0] == "train-worker-0.lab.svc:2222"
    assert "WINDLASS_TRIAL_ID" not in environment, "it is not a trial of a server"


def test_a_priority_class_applies_to_pods_without_one() -> None:
    policy = {"schedulingPolicy": {"priorityClass": "high"}}
    own = replicas("TFJob", pod={"priorityClassName": "low"})
    job_spec = translate(manifest("TFJob", Worker=own, PS=1, runPolicy=policy))
    classes = [
        make_pod(job_spec, ReplicaId(role, 0, 1))["spec"]["priorityClassName"]
        for role in ("worker", "ps")
    ]
    assert classes == ["low", "high"]
