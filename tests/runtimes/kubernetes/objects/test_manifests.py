"""The objects of a job in a cluster."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import windlass as wl
from windlass.kube.capacity.nodes import GKE_POOL, TPU, Placement, placement
from windlass.model.hardware.resources import Accelerator, Resources
from windlass.model.job import FunctionCall, Job, JobSpec, ProcessCall, Python, Role
from windlass.model.kubernetes.job_options import KubernetesOptions, Toleration
from windlass.model.status import ReplicaId
from windlass.runtimes.kubernetes.objects import manifests
from windlass.runtimes.kubernetes.objects import names as pod_names
from windlass.runtimes.kubernetes.objects.manifests import JobRecord, build_pod

UID = "0123456789abcdef" * 2
FIRST = ReplicaId("main", 0, 1)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def job_of(options: KubernetesOptions | None = None, **of_role: Any) -> Job:
    """A job of one role, in a cluster."""
    role = Role(
        executable=of_role.pop("executable", ProcessCall(argv=("python", "train.py"))),
        kubernetes=options or KubernetesOptions(),
        **of_role,
    )
    spec = JobSpec(roles=(role,), backend="kubernetes", python=Python(version="3.12"))
    return Job(uid=UID, trial_id=7, spec=spec)


def claim(job: Job) -> JobRecord:
    return manifests.job_record(job, "lab", "home-1")


def built(options: KubernetesOptions | None = None, **of_role: Any) -> dict[str, Any]:
    """The pod of the first attempt of a job."""
    job = job_of(options, **of_role)
    return build_pod(claim(job), job, FIRST, "owner-1")


def container(pod: dict[str, Any]) -> dict[str, Any]:
    container_object: dict[str, Any] = pod["spec"]["containers"][0]
    return container_object


def test_a_pod_runs_the_agent_and_is_owned_by_the_secret_of_its_job() -> None:
    pod = built()
    assert pod["metadata"]["name"] == "wl-7-01234567-main-0-1"
    assert pod["metadata"]["namespace"] == "lab"
    [owner] = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Secret", "wl-7-01234567", "owner-1")
    labels = pod["metadata"]["labels"]
    assert labels["windlass.dev/uid"] == UID and labels["windlass.dev/trial"] == "7"
    assert pod_names.replica_of(labels) == FIRST
    assert container(pod)["command"] == ["python3", "/windlass/worker.zip", "agent"]
    env = {variable["name"]: variable["value"] for variable in container(pod)["env"]}
    assert (env["WINDLASS_AGENT_ROLE"], env["WINDLASS_AGENT_ATTEMPT"]) == ("main", "1")
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["automountServiceAccountToken"] is False


def test_the_secret_contains_the_files_an_agent_starts_with() -> None:
    secret = manifests.build_secret(claim(job_of()), b"zip", {"token": "t"})
    assert base64.b64decode(secret["data"]["worker.zip"]) == b"zip"
    assert json.loads(base64.b64decode(secret["data"]["agent.json"])) == {"token": "t"}
    [shown] = manifests.elided([secret])
    assert shown["data"] == {"worker.zip": "...", "agent.json": "..."}


def test_a_job_without_an_image_gets_one_with_its_python_and_few_privileges() -> None:
    pod = built()
    assert container(pod)["image"] == "python:3.12-slim"
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container(pod)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_an_image_of_the_user_keeps_its_user() -> None:
    pod = built(KubernetesOptions(container_image="lab/train:7"))
    assert container(pod)["image"] == "lab/train:7"
    assert pod["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert container(pod)["securityContext"] == {"allowPrivilegeEscalation": False}


def test_cpus_are_requested_and_memory_is_also_a_limit() -> None:
    resources = Resources(cpus=0.5, memory=2**30, accelerator=Accelerator(kind="a100", count=2))
    job = job_of(resources=resources, name="main")
    where = Placement(
        resources={"nvidia.com/gpu": "2"},
        node_selector={"gpu": "a100"},
        node_terms=({"matchExpressions": []},),
        tolerations=({"key": "nvidia.com/gpu", "operator": "Exists"},),
    )
    pod = build_pod(claim(job), job, FIRST, "owner-1", placement=where)
    assert container(pod)["resources"] == {
        "requests": {"cpu": "500m", "memory": str(2**30), "nvidia.com/gpu": "2"},
        "limits": {"memory": str(2**30), "nvidia.com/gpu": "2"},
    }
    assert pod["spec"]["nodeSelector"] == {"gpu": "a100"}
    [terms] = pod["spec"]["affinity"]["nodeAffinity"].values()
    assert terms == {"nodeSelectorTerms": [{"matchExpressions": []}]}
    assert pod["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_the_machines_of_a_tpu_know_each_other_and_share_a_pool() -> None:
    resources = Resources(accelerator=Accelerator(kind="v5e", count=16))
    job = job_of(resources=resources, name="worker", replicas=4)
    where = placement(resources.accelerator, 4, None)
    pods = [
        build_pod(claim(job), job, ReplicaId("worker", index, attempt), "owner-1", placement=where)
        for index, attempt in ((0, 1), (3, 1), (3, 2))
    ]
    hosts = ",".join(f"wl-7-01234567-worker-{index}.lab" for index in range(4))
    environments = [
        {variable["name"]: variable["value"] for variable in container(pod)["env"]} for pod in pods
    ]
    assert [environment["TPU_WORKER_ID"] for environment in environments] == ["0", "3", "3"]
    assert {environment["TPU_WORKER_HOSTNAMES"] for environment in environments} == {hosts}, (
        "over all attempts"
    )
    assert container(pods[0])["resources"]["limits"] == {TPU: "4"}
    service = manifests.build_service(claim(job), "worker", 3, "owner-1")
    assert f"{service['metadata']['name']}.lab" == hosts.split(",")[3]

    label = {"windlass.dev/slice": "wl-7-01234567-worker-0"}
    for pod in pods:
        assert label.items() <= pod["metadata"]["labels"].items()
        [together] = pod["spec"]["affinity"]["podAffinity"][REQUIRED]
        assert together == {"labelSelector": {"matchLabels": label}, "topologyKey": GKE_POOL}
        [apart] = pod["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
        exists, another = apart["labelSelector"]["matchExpressions"]
        assert (exists["operator"], another["operator"]) == ("Exists", "NotIn")
        assert another["values"] == [*label.values()] and apart["topologyKey"] == GKE_POOL


def test_a_tpu_of_one_machine_needs_no_topology() -> None:
    resources = Resources(accelerator=Accelerator(kind="v5e", count=8))
    job = job_of(resources=resources)
    where = placement(resources.accelerator, 1, None)
    pod = build_pod(claim(job), job, FIRST, "owner-1", placement=where)
    assert "affinity" not in pod["spec"] and "windlass.dev/slice" not in pod["metadata"]["labels"]
    assert not any(variable["name"].startswith("TPU_") for variable in container(pod)["env"])


def test_options_of_an_executor_are_part_of_the_pod() -> None:
    pod = built(
        KubernetesOptions(
            node_selector={"zone": "a"}, tolerations=(Toleration(key="x", toleration_seconds=5),),
            service_account="train", priority_class="high", image_pull_secrets=("registry",),
        )
    )  # fmt: skip
    spec = pod["spec"]
    assert spec["nodeSelector"] == {"zone": "a"}
    assert spec["tolerations"] == [{"key": "x", "tolerationSeconds": 5}]
    assert spec["serviceAccountName"] == "train" and spec["automountServiceAccountToken"] is True
    assert spec["priorityClassName"] == "high"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.parametrize(
    ("source", "volume", "mount"),
    [
        ("claim:d", {"persistentVolumeClaim": {"claimName": "d"}}, {}),
        ("claim:d/a/b:ro", {"persistentVolumeClaim": {"claimName": "d"}},
         {"subPath": "a/b", "readOnly": True}),
        ("config:c", {"configMap": {"name": "c"}}, {}),
        ("secret:s:ro", {"secret": {"secretName": "s"}}, {"readOnly": True}),
        ("host:/mnt/x/", {"hostPath": {"path": "/mnt/x"}}, {}),
        ("scratch:1GB", {"emptyDir": {"sizeLimit": "1000000000"}}, {}),
        ("memory:", {"emptyDir": {"medium": "Memory"}}, {}),
    ],
)  # fmt: skip
def test_each_kind_of_volume_is_mounted_at_its_path(
    source: str, volume: dict[str, Any], mount: dict[str, Any]
) -> None:
    pod = built(KubernetesOptions(volumes={"/data/": source}))
    assert pod["spec"]["volumes"][2:] == [{"name": "volume-0", **volume}]
    assert container(pod)["volumeMounts"][2:] == [
        {"name": "volume-0", "mountPath": "/data", **mount}
    ]


def test_two_folders_of_one_claim_are_one_volume() -> None:
    pod = built(KubernetesOptions(volumes={"/a": "claim:d/a", "/b": "claim:d/b", "/c": "claim:e"}))
    assert [volume["name"] for volume in pod["spec"]["volumes"][2:]] == ["volume-0", "volume-1"]
    mounts = container(pod)["volumeMounts"][2:]
    assert [(mount["name"], mount["mountPath"]) for mount in mounts] == [
        ("volume-0", "/a"), ("volume-0", "/b"), ("volume-1", "/c"),
    ]  # fmt: skip


def test_a_volume_for_packages_is_passed_to_the_agent() -> None:
    pod = built(KubernetesOptions(volumes={"/windlass-cache": "claim:cache"}))
    env = {variable["name"]: variable["value"] for variable in container(pod)["env"]}
    assert env["WINDLASS_AGENT_CACHE"] == "/windlass-cache"


def test_a_patch_overrides_everything_except_managed_fields() -> None:
    patch = {
        "metadata": {
            "labels": {"windlass.dev/uid": "x", "team": "a"},
            "annotations": {"note": "1"},
            "name": "mine",
            "ownerReferences": [],
        },
        "spec": {
            "hostNetwork": True,
            "restartPolicy": "Always",
            "containers": [
                {"name": "main", "env": [{"name": "A", "value": "1"}], "tty": True},
                {"name": "side", "image": "busybox"},
            ],
            "securityContext": {"runAsUser": 5, "fsGroup": None},
        },
    }
    pod, plain = built(KubernetesOptions(pod_patch=patch)), built()
    assert pod["metadata"] == {
        **plain["metadata"],
        "labels": {**plain["metadata"]["labels"], "team": "a"},
        "annotations": {"note": "1"},
    }
    spec = pod["spec"]
    assert spec["hostNetwork"] is True and spec["restartPolicy"] == "Never"
    main, side = spec["containers"]
    assert main["tty"] is True and main["command"] == container(plain)["command"]
    assert main["env"] == [*container(plain)["env"], {"name": "A", "value": "1"}]
    assert "ports" not in side
    assert side == {"name": "side", "image": "busybox"}
    assert spec["securityContext"]["runAsUser"] == 5
    assert "fsGroup" not in spec["securityContext"]


def test_a_patch_of_the_spec_needs_no_spec_key() -> None:
    pod = built(KubernetesOptions(pod_patch={"hostNetwork": True, "volumes": [{"name": "v"}]}))
    assert pod["spec"]["hostNetwork"] is True
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == [
        "windlass",
        "windlass-home",
        "v",
    ]


def test_an_invalid_patch_is_refused_by_the_builder() -> None:
    """A preview builds the pod without a previous check."""
    options = KubernetesOptions(pod_patch={"metadata": {"labels": ["a"]}})
    with pytest.raises(wl.InvalidArgument, match=r"metadata\.labels: \['a'\] is not a mapping"):
        built(options)


@pytest.mark.parametrize(
    ("patch", "grace"),
    [
        ({}, "60"),
        ({"terminationGracePeriodSeconds": 600}, "600"),
        ({"spec": {"terminationGracePeriodSeconds": 10}}, "10"),
        ({"terminationGracePeriodSeconds": None}, "30"),  # the limit of the cluster
        ({"containers": [{"name": "main", "env": [{"name": "WINDLASS_AGENT_GRACE"}]}]}, "60"),
    ],
)
def test_an_agent_gets_the_grace_period_of_its_pod(patch: dict[str, Any], grace: str) -> None:
    env = container(built(KubernetesOptions(pod_patch=patch)))["env"]
    grace_values = [
        variable["value"] for variable in env if variable["name"] == "WINDLASS_AGENT_GRACE"
    ]
    assert grace_values == [grace]


def test_a_pod_on_the_host_network_announces_the_port_of_its_agent() -> None:
    own = {"containerPort": manifests.AGENT_PORT, "protocol": "TCP"}
    assert "ports" not in container(built())
    pod = built(KubernetesOptions(pod_patch={"hostNetwork": True}))
    assert container(pod)["ports"] == [own]
    http = {"containerPort": 80, "name": "http"}
    more = {"hostNetwork": True, "containers": [{"name": "main", "ports": [http]}]}
    assert container(built(KubernetesOptions(pod_patch=more)))["ports"] == [http, own]


def test_a_pod_without_containers_is_left_to_the_cluster_to_refuse() -> None:
    pod = built(KubernetesOptions(pod_patch={"hostNetwork": True, "containers": None}))
    assert pod["spec"]["hostNetwork"] is True


def test_a_queue_is_a_label_and_replicas_are_admitted_together() -> None:
    options = KubernetesOptions(queue="team-a")
    alone = built(options)
    assert alone["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    assert "annotations" not in alone["metadata"]
    several = built(options, replicas=3)
    assert several["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == "wl-7-01234567"
    assert several["metadata"]["annotations"] == {"kueue.x-k8s.io/pod-group-total-count": "3"}


def test_a_service_selects_the_attempts_of_its_replica() -> None:
    job = job_of(replicas=2, name="worker")
    service = manifests.build_service(claim(job), "worker", 1, "owner-1")
    assert service["metadata"]["name"] == "wl-7-01234567-worker-1"
    assert service["spec"]["clusterIP"] == "None"
    pod = build_pod(claim(job), job, ReplicaId("worker", 1, 3), "owner-1")
    selector = service["spec"]["selector"].items()
    assert selector <= pod["metadata"]["labels"].items()
    other = build_pod(claim(job), job, ReplicaId("worker", 0, 1), "owner-1")
    assert not selector <= other["metadata"]["labels"].items()


def test_names_stay_within_the_limits_of_dns() -> None:
    long = ReplicaId("a-very-long-name-of-a-role-with-40-lette", 9999, 12345)
    other = "a-very-long-name-of-a-role-with-40-lettr"
    base = pod_names.base_of(1234567890, UID)
    assert len(pod_names.pod_name(base, long)) <= 63
    assert pod_names.service_name(base, long.role, 1) != pod_names.service_name(base, other, 1)


def test_an_image_with_another_python_is_refused_for_a_function() -> None:
    function = FunctionCall(payload="0" * 64)
    for image, is_wrong in (
        ("python:3.11-slim", True),
        ("registry.lab/python:3.11", True),
        ("python:3.12.1", False),
        ("lab/train:7", False),
        ("my-python:3.11", False),
    ):
        options = KubernetesOptions(container_image=image)
        assert bool(manifests.image_problems(job_of(options, executable=function).spec)) is is_wrong
        assert not manifests.image_problems(job_of(options).spec)  # a script is not a pickle
