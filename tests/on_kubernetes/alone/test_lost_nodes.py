"""Replicas on lost or unresponsive nodes start again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from kubernetes import client

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.cluster.locations import NODE
from on_kubernetes.cluster.parts import Part, part_named
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import INSIDE, Gate
from on_kubernetes.operator.operator_process import Jobs, OperatorProcess
from on_kubernetes.pods import Namespace, is_node_ready
from on_kubernetes.runtime.counting_trials import REPLICAS, check_complete, persisting
from on_kubernetes.runtime.trials import is_empty, log_lines, pods_of
from server_with_faults import rigged

pytestmark = pytest.mark.usefixtures("home_with_cluster")


@pytest.fixture
def kubelet(alone: Cluster, core: client.CoreV1Api) -> Iterator[Part]:
    """The kubelet of the node. It is started again after the test."""
    kubelet_part = part_named("kubelet")
    yield kubelet_part
    kubelet_part.start()
    kubelet_part.wait()
    eventually(lambda: is_node_ready(core), "the node is back")


@pytest.mark.thorough
def test_replicas_on_a_lost_node_restart_when_there_is_a_node(
    kubelet: Part, core: client.CoreV1Api, namespace: Namespace, gate: Gate
) -> None:
    trial = persisting(namespace, gate)
    kubelet.stop()
    core.delete_node(NODE)
    check_that_all_start_again(trial, kubelet, namespace, gate)


@pytest.mark.parametrize(
    "rig",
    [
        pytest.param("stuck-after:2", id="2 s"),
        pytest.param("", id="a minute", marks=pytest.mark.thorough),
    ],
)
def test_replicas_on_an_unresponsive_node_are_lost_after_their_deletion_is_due(
    kubelet: Part, home_with_cluster: Path, namespace: Namespace, gate: Gate, rig: str
) -> None:
    with rigged(home_with_cluster, rig) if rig else nullcontext():
        trial = persisting(namespace, gate)
        kubelet.stop()
        eventually(lambda: "node does not answer" in trial.refresh().message, "this is reported")
        # A cluster does this after some minutes, unless all of its nodes are lost.
        for name in pods_of(namespace):
            namespace.core.delete_namespaced_pod(name, namespace.name, grace_period_seconds=1)
        check_that_all_start_again(trial, kubelet, namespace, gate)


# Reports its attempt, and stays until it is stopped.
_STAY = f"""
import os, time
print("attempt", os.environ["WINDLASS_ATTEMPT"])
while not os.path.exists("{INSIDE}/end"):
    time.sleep(0.1)
"""


@pytest.mark.thorough
def test_pods_of_an_operator_job_on_a_lost_node_restart_when_there_is_a_node(
    kubelet: Part, core: client.CoreV1Api, jobs: Jobs, operator: OperatorProcess, gate: Gate
) -> None:
    names = ["train-worker-0", "train-worker-1"]
    jobs.create("TFJob", "train", Worker=gate.equip(jobs.role(2, _STAY, restartPolicy="ExitCode")))
    eventually(lambda: all(jobs.has_printed(name, "attempt 1") for name in names), "both run")
    kubelet.stop()
    core.delete_node(NODE)
    eventually(
        lambda: [jobs.attempt(name) for name in names] == [2, 2],
        "others are in their place", patience=4 * PATIENCE,
    )  # fmt: skip
    kubelet.start()
    eventually(
        lambda: all(jobs.has_printed(name, "attempt 2") for name in names),
        "both run again", patience=2 * PATIENCE,
    )  # fmt: skip
    gate.create("end")
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
    assert [jobs.attempt(name) for name in names] == [2, 2]


def check_that_all_start_again(
    trial: wl.Trial[int], kubelet: Part, namespace: Namespace, gate: Gate
) -> None:
    eventually(lambda: has_lost_all(trial), "all are known lost", patience=4 * PATIENCE)
    # None of them can have started, because there is no node.
    assert [name.partition(".")[0] for name in gate.named("began-")] == ["0-1", "1-1", "2-1"]
    messages = set(log_lines(trial))
    kubelet.start()
    for rank in range(REPLICAS):
        eventually(lambda rank=rank: gate.exists(f"steps-{rank}-2"), f"{rank} starts again")
        gate.create(f"go-{rank}")
    trial.wait(timeout=2 * PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert trial.restarts == REPLICAS
    ends = [
        (attempt.index, attempt.attempt, attempt.exit_code, attempt.reason)
        for attempt in trial.attempts
    ]
    assert ends == [
        (0, 1, None, "Lost"),
        (0, 2, 0, ""),
        (1, 1, None, "Lost"),
        (1, 2, 0, ""),
        (2, 1, None, "Lost"),
        (2, 2, 0, ""),
    ]
    check_complete(trial, gate, ["0-1", "0-2", "1-1", "1-2", "2-1", "2-2"], cut_short="-1")
    assert messages <= set(log_lines(trial)), "earlier reports are still there"
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def has_lost_all(trial: wl.Trial[int]) -> bool:
    trial.refresh()
    return [replica.attempt for replica in trial.replicas] == [2] * REPLICAS
