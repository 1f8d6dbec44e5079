"""Options of `wl.Kubernetes(...)` in a real pod, from outside and from inside."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.cluster.locations import NODE
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trial_functions import ask_for_more, double
from on_kubernetes.runtime.trials import is_empty, log_lines, pods_of, python, there

pytestmark = pytest.mark.usefixtures("home_with_cluster")

LOOK = """if True:
    import base64, json, pathlib, time
    import windlass as wl

    token = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount/token").read_text()
    body = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    print("account", claims["sub"].split(":")[-1])
    for path in ("/settings/lr", "/keys/api", "/part/seen"):
        print(path, pathlib.Path(path).read_text())
    pathlib.Path("/data/left").write_text("left behind")
    try:
        pathlib.Path("/part/more").touch()
    except OSError as error:
        print("cannot be written to:", error.strerror)
    for path in ("/scratch", "/fast"):
        pathlib.Path(path, "x").touch()
        [kind] = [line.split()[2] for line in open("/proc/mounts") if line.split()[1] == path]
        print(path, "in memory" if kind == "tmpfs" else "on a disk")
    print("done", flush=True)
    while not wl.should_stop():
        time.sleep(0.1)
"""


@pytest.fixture
def priority_class(own_cluster: Cluster, namespace: Namespace) -> Iterator[str]:
    """A priority class, which is cluster-wide."""
    scheduling = client.SchedulingV1Api(own_cluster.admin())
    scheduling.create_priority_class({"metadata": {"name": namespace.name}, "value": 7})
    yield namespace.name
    scheduling.delete_priority_class(namespace.name)


@pytest.fixture
def disk(core: client.CoreV1Api, namespace: Namespace, tmp_path: Path) -> Iterator[Path]:
    """A claim `datasets` of the namespace, and its folder on this machine."""
    folder = tmp_path / "disk"
    (folder / "imagenet").mkdir(parents=True)
    (folder / "imagenet" / "seen").write_text("of the claim")
    for path in (folder, folder / "imagenet"):
        path.chmod(0o777)
    size, access = {"storage": "1Gi"}, ["ReadWriteOnce"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    volume = {
        "metadata": {"name": namespace.name},
        "spec": {
            "accessModes": access,
            "capacity": size,
            "claimRef": {"namespace": namespace.name, "name": "datasets"},
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
    wanted = {"accessModes": access, "resources": {"requests": size}, "storageClassName": ""}
    core.create_persistent_volume(volume)
    core.create_namespaced_persistent_volume_claim(
        namespace.name, {"metadata": {"name": "datasets"}, "spec": wanted}
    )
    yield folder
    core.delete_persistent_volume(namespace.name)


def test_accounts_priorities_and_volumes_are_as_requested(
    core: client.CoreV1Api, namespace: Namespace, priority_class: str, disk: Path
) -> None:
    name = namespace.name
    core.create_namespaced_service_account(name, {"metadata": {"name": "trainer"}})
    core.create_namespaced_config_map(
        name, {"metadata": {"name": "settings"}, "data": {"lr": "0.1"}}
    )
    core.create_namespaced_secret(
        name, {"metadata": {"name": "keys"}, "stringData": {"api": "open sesame"}}
    )
    logins = {".dockerconfigjson": json.dumps({"auths": {}})}
    core.create_namespaced_secret(
        name,
        {
            "metadata": {"name": "registry"},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": logins,
        },
    )
    taint = {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}
    executor = there(
        namespace,
        service_account="trainer",
        priority_class=priority_class,
        image_pull_secrets=["registry"],
        tolerations=[taint],
        node_selector={"kubernetes.io/hostname": NODE},
        volumes={
            "/data": "claim:datasets",
            "/part": "claim:datasets/imagenet:ro",
            "/settings": "config:settings",
            "/keys": "secret:keys:ro",
            "/scratch": "scratch:10MB",
            "/fast": "memory:10MB",
        },
    )
    trial = python(LOOK, namespace, executor=executor).submit()
    eventually(lambda: "done" in log_lines(trial), "it has looked")
    [pod] = pods_of(namespace).values()
    assert pod.spec.service_account_name == "trainer"
    assert (pod.spec.priority_class_name, pod.spec.priority) == (priority_class, 7)
    assert [secret.name for secret in pod.spec.image_pull_secrets] == ["registry"]
    assert (pod.spec.node_selector, pod.spec.node_name) == ({"kubernetes.io/hostname": NODE}, NODE)
    [tolerated] = [
        toleration for toleration in pod.spec.tolerations if toleration.key == "dedicated"
    ]
    assert (tolerated.operator, tolerated.value, tolerated.effect) == ("Equal", "ml", "NoSchedule")
    trial.ask_to_stop()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", log_lines(trial)
    assert log_lines(trial) == [
        "account trainer",
        "/settings/lr 0.1",
        "/keys/api open sesame",
        "/part/seen of the claim",
        "cannot be written to: Read-only file system",
        "/scratch on a disk",
        "/fast in memory",
        "done",
    ]
    assert (disk / "left").read_text() == "left behind"
    eventually(lambda: is_empty(namespace), "nothing of ours is left in the cluster")


def test_a_patch_can_mount_two_parts_of_one_volume_and_a_typo_is_reported(
    namespace: Namespace,
) -> None:
    parts = [{"name": "data", "mountPath": f"/{part}", "subPath": part} for part in ("a", "b")]
    slip = {"volumeMounts": [parts[0], {**parts[1], "readonly": True}], "name": "main"}
    tolerated = [{"key": "x", "operator": "Exists"}, {"key": "x", "efect": "NoSchedule"}]
    volumes = [{"name": "data", "emptyDir": {}}]
    patch = {"volumes": volumes, "containers": [slip], "tolerations": tolerated}
    executor = there(namespace, pod_patch=patch)
    with pytest.raises(wl.InvalidArgument) as caught:
        python("", namespace, executor=executor).submit()
    for path, meant in (
        ("spec.containers[main].volumeMounts[/b].readonly", "readOnly"),
        ("spec.tolerations[1].efect", "effect"),
    ):
        assert f"a pod has no field {path}. Did you mean {meant}?" in str(caught.value)

    patch = {"volumes": volumes, "containers": [{"name": "main", "volumeMounts": parts}]}
    see = "import os; print(*(os.path.ismount(each) for each in ('/a', '/b')))"
    trial = python(see, namespace, executor=there(namespace, pod_patch=patch)).submit()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert log_lines(trial) == ["True True"]


def test_an_unknown_field_of_a_pod_is_reported_before_it_is_dropped(namespace: Namespace) -> None:
    slip = {"name": "main", "resorces": {"limits": {"cpu": "1"}}}
    for message, patch in {
        "no field spec.hostnetwork. Did you mean hostNetwork?": {"hostnetwork": True},
        "no field spec.containers[main].resorces. Did you mean resources?": {"containers": [slip]},
        "metadata.annotation. Did you mean annotations": {"metadata": {"annotation": {"a": "b"}}},
    }.items():
        with pytest.raises(wl.InvalidArgument) as caught:
            python("", namespace, executor=there(namespace, pod_patch=patch)).submit()
        assert message in str(caught.value)
    assert is_empty(namespace) and not list(wl.list_trials())


@pytest.mark.thorough
def test_known_fields_of_pods_are_accepted(namespace: Namespace) -> None:
    patch = {
        "metadata": {"annotations": {"lab/team": "a"}, "labels": {"team": "a"}},
        "spec": {
            "hostNetwork": False,
            "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "containers": [{"name": "main", "tty": False, "env": [{"name": "A", "value": "1"}]}],
            "volumes": [{"name": "more", "emptyDir": {}}],
        },
    }
    program = "import os; assert os.environ['A'] == '1'"
    trial = python(program, namespace, executor=there(namespace, pod_patch=patch)).submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message


def test_a_program_in_a_pod_that_submits_trials_gets_an_error(
    own_cluster: Cluster, namespace: Namespace
) -> None:
    there_too = there(namespace, container_image=own_cluster.image)
    trial: wl.Trial[Any] = wl.run(executor=there_too)(ask_for_more).submit()
    called, *result = trial.result(timeout=PATIENCE)
    assert called == "8", "a call is a call in any trial"
    nobody = "which has no access to the server."
    lines = [nobody, nobody, "where wl.list_trials cannot be used."]
    for answer, why in zip(result, lines, strict=True):
        assert answer.startswith(f"Unsupported: This trial runs in a pod, {why}")
        assert "WINDLASS_SERVER" in answer
    assert [trial.id for trial in wl.list_trials()] == [trial.id]


def other_python() -> Path:
    """A Python of this machine with another minor version. Without one, the test is skipped."""
    for program in sorted(Path(sys.base_prefix).parent.glob("*/bin/python3.*")):
        minor = program.name.removeprefix("python3.")
        if minor.isdecimal() and int(minor) >= 9 and int(minor) != sys.version_info.minor:
            return program
    pytest.skip(f"there is no other Python beside {sys.base_prefix}")


def test_a_pod_with_another_python_reports_the_needed_version(
    own_cluster: Cluster, namespace: Namespace
) -> None:
    """The name of the image does not show it, so the pod checks."""
    program = other_python()
    command = [str(program), "/windlass/worker.zip", "agent"]
    executor = there(
        namespace,
        container_image=own_cluster.image,
        volumes={str(program.parents[1]): f"host:{program.parents[1]}:ro"},
        pod_patch={"containers": [{"name": "main", "command": command}]},
    )
    trial: wl.Trial[Any] = wl.run(executor=executor)(double).submit(1)
    trial.wait(timeout=PATIENCE)
    here = "{}.{}".format(*sys.version_info)
    assert trial.state == "FAILED"
    assert (
        f"the image has Python {program.name.removeprefix('python')}, but the function was "
        f"pickled by Python {here}; use a container_image= with Python {here}" in trial.message
    )
    [replica] = trial.replicas
    assert replica.pod is not None and replica.pod.python.startswith(program.name[6:])
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
