"""`accelerator=` of trials in pods: they get what they ask for, wait for it, or are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client

import windlass as wl
from harness import PATIENCE, eventually
from kube.accelerators import accelerators
from kube.access import Cluster
from kube.gates import Gate
from kube.pods import Namespace
from kube.trials import is_empty, pods_of, python, there, what_is_said_of
from windlass.client.session import default_client
from windlass.kube.nodes import GPU, PRODUCT

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
    """A node with four A100, which is set aside for those who want them."""
    with accelerators(core, {GPU: 4}, {PRODUCT: MODEL}) as name:
        core.patch_node(name, {"spec": {"taints": [TAINT]}})
        try:
            yield name
        finally:
            core.patch_node(name, {"spec": {"taints": None}})


def test_pods_have_the_accelerators_that_were_asked_for_and_others_wait_for_them(
    node: str, namespace: Namespace, gate: Gate
) -> None:
    two = there(namespace, accelerator="a100x2", volumes=gate.volumes)
    trial = python(HOLD, namespace, executor=two, replicas=2).submit()
    eventually(
        lambda: [each.phase for each in trial.refresh().replicas] == ["Running"] * 2, "both run"
    )
    for pod in pods_of(namespace).values():
        assert pod.spec.node_name == node
        assert pod.spec.containers[0].resources.limits[GPU] == "2"
        assert MODEL in str(pod.spec.node_selector) + str(pod.spec.affinity)
        assert GPU in [each.key for each in pod.spec.tolerations]

    four = there(namespace, accelerator="a100x4")
    waiting = python("print('at last')", namespace, executor=four).submit()
    eventually(lambda: "4 GPUs free" in what_is_said_of(waiting), "it says what it waits for")
    gate.tell("go")
    for each in (trial, waiting):
        each.wait(timeout=PATIENCE)
        assert each.state == "SUCCEEDED", each.message
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("h100", r"it has a100 \(4 on 1 machine\)"),
        ("a100x8", "the largest of this cluster has 4"),
        ("v5e-4", r"it has a100 \(4 on 1 machine\)"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_made(
    node: str, namespace: Namespace, asked: str, told: str
) -> None:
    with pytest.raises(wl.ResourceError, match=told):
        python("", namespace, executor=there(namespace, accelerator=asked)).submit()
    assert is_empty(namespace)
    assert not list(default_client().list_trials())
