"""`accelerator=` of trials in pods: they get it, wait for it, or are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.accounts import log_in_with_few_rights
from on_kubernetes.both_backends.backends import kubeconfig_for
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.fake_accelerators import accelerators
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trial_functions import double
from on_kubernetes.runtime.trials import (
    is_empty,
    log_lines,
    pods_of,
    python,
    replica_messages,
    there,
)
from windlass.client.client import default_client
from windlass.kube.capacity.nodes import GKE_POOL, GKE_TOPOLOGY, GKE_TPU, GPU, PRODUCT, TPU
from windlass.runtimes.kubernetes.objects import names as pod_names

pytestmark = pytest.mark.usefixtures("home_with_cluster")

MODEL = "NVIDIA-A100-SXM4-40GB"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
HOLD = """if True:
    import pathlib, time
    while not pathlib.Path("/gate/go").exists():
        time.sleep(0.1)
"""


@pytest.fixture
def node(alone: Cluster, core: client.CoreV1Api) -> Iterator[str]:
    """A tainted node with four A100."""
    with accelerators(core, {GPU: 4}, {PRODUCT: MODEL}) as name:
        core.patch_node(name, {"spec": {"taints": [TAINT]}})
        try:
            yield name
        finally:
            core.patch_node(name, {"spec": {"taints": None}})


def test_pods_get_the_requested_accelerators_and_others_wait(
    alone: Cluster, node: str, namespace: Namespace, gate: Gate, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig_for(alone, namespace.name, tmp_path)))
    two = there(namespace, accelerator="a100x2", volumes=gate.volumes)
    trial = python(HOLD, namespace, executor=two, replicas=2).submit()
    eventually(
        lambda: [replica.phase for replica in trial.refresh().replicas] == ["Running"] * 2,
        "both run",
    )
    for pod in pods_of(namespace).values():
        assert pod.spec.node_name == node
        assert pod.spec.containers[0].resources.limits[GPU] == "2"
        assert MODEL in str(pod.spec.node_selector) + str(pod.spec.affinity)
        assert GPU in [toleration.key for toleration in pod.spec.tolerations]

    waiting = wl.run(backend="kubernetes", accelerator="a100x4", cpus=0.05)(double).submit(21)
    eventually(lambda: "4 GPUs free" in replica_messages(waiting), "it says what it waits for")
    gate.create("go")
    assert waiting.result(timeout=PATIENCE) == 42
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_a_missing_accelerator_is_refused_before_anything_is_created(
    node: str, namespace: Namespace
) -> None:
    for accelerator, message in (
        ("h100", r"it has a100 \(4 on 1 machine\)"),
        ("a100x8", "the largest of this cluster has 4"),
        ("v5e-4", r"it has a100 \(4 on 1 machine\)"),
    ):
        with pytest.raises(wl.ResourceError, match=message):
            python("", namespace, executor=there(namespace, accelerator=accelerator)).submit()
    assert is_empty(namespace)
    assert not list(default_client().list_trials())


SLICE = {GKE_TPU: "tpu-v4-podslice", GKE_TOPOLOGY: "2x2x2", GKE_POOL: "slice-1"}
# Finds the machines of its TPU, as libtpu does, and runs until it is asked to stop.
FORM = """if True:
    import os, socket, time
    import windlass as wl

    hosts = os.environ["TPU_WORKER_HOSTNAMES"].split(",")
    found = {}
    while len(found) < len(hosts):
        for host in hosts:
            try:
                found[host] = socket.gethostbyname(host)
            except OSError:
                time.sleep(0.1)
    me = int(os.environ["TPU_WORKER_ID"])
    is_me = found[hosts[me]] == socket.gethostbyname(socket.gethostname())
    print("worker", me, "of", len(set(found.values())), is_me, flush=True)
    while not wl.should_stop():
        time.sleep(0.1)
"""


def test_the_machines_of_a_tpu_find_each_other_and_are_exclusive(
    alone: Cluster, core: client.CoreV1Api, namespace: Namespace, tmp_path: Path
) -> None:
    """One machine stands for both of a pool, for an account that may not read nodes."""
    log_in_with_few_rights(alone, namespace.name, tmp_path)
    executor = there(namespace, accelerator="v4-16")
    with accelerators(core, {TPU: 16}, SLICE) as node:
        job = python(FORM, namespace, executor=executor, replicas=2)
        first = job.submit()
        both = ["worker 0 of 2 True", "worker 1 of 2 True"]
        eventually(lambda: sorted(log_lines(first)) == both, "they have found each other")
        second = job.submit()
        message = "The only machine is of a TPU that another job has."
        eventually(
            lambda: message in replica_messages(second), "the reason of its wait is reported"
        )
        for pod in pods_of(namespace).values():
            is_first = pod.metadata.labels[pod_names.TRIAL] == str(first.id)
            assert pod.spec.node_name == (node if is_first else None)
            assert pod.spec.containers[0].resources.limits[TPU] == "4"
        first.ask_to_stop()
        eventually(lambda: sorted(log_lines(second)) == both, "then it is its turn")
        second.ask_to_stop()
        for trial in (first, second):
            assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_a_tpu_of_more_machines_than_any_pool_is_refused(
    alone: Cluster, core: client.CoreV1Api, namespace: Namespace
) -> None:
    executor = there(namespace, accelerator="v4-16")
    with (
        accelerators(core, {TPU: 4}, SLICE),
        pytest.raises(wl.ResourceError, match="no pool of this cluster has so many: 1 in slice-1"),
    ):
        python(FORM, namespace, executor=executor, replicas=2).submit()
    assert is_empty(namespace)
    assert not list(default_client().list_trials())
