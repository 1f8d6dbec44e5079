"""If the server dies or is overtaken between a request and its record, nothing runs twice."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, eventually, stop_server
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trial_functions import persist
from on_kubernetes.runtime.trials import claims_of, is_empty, pods_of, there
from server_with_faults import rigged

SEED = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.randrange(10**6))
# Before and after: a Secret, two services and two pods are created, and the Secret is deleted.
STEPS = 2 * (1 + 2 + 2 + 1)


def submit(namespace: Namespace, gate: Gate, replicas: int) -> wl.Trial[int]:
    job = wl.Job(
        wl.PythonFunction(persist),
        replicas=replicas,
        executor=there(namespace, volumes=gate.volumes),
    )
    return job.submit()


def check_that_it_ran_once(trial_id: int, namespace: Namespace, gate: Gate, replicas: int) -> None:
    trial: wl.Trial[int] = wl.get_trial(trial_id)  # starts another server
    trial.wait(timeout=2 * PATIENCE)
    assert trial.state == "SUCCEEDED", f"seed {SEED}: {trial.message}"
    began = [name.partition(".")[0] for name in gate.named("began-")]
    assert began == [f"{rank}-1" for rank in range(replicas)], f"seed {SEED}"
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_a_server_killed_between_creating_and_recording_a_pod_creates_no_other(
    home_with_cluster: Path, namespace: Namespace, gate: Gate
) -> None:
    with rigged(home_with_cluster, "die-after:POST:pods") as server:
        trial = submit(namespace, gate, 1)
        server.wait(PATIENCE)
    [made] = pods_of(namespace).values()
    wl.server_info()  # starts another
    eventually(lambda: bool(gate.named("began-")), "it begins")
    [there_now] = pods_of(namespace).values()
    assert there_now.metadata.uid == made.metadata.uid
    gate.create("go-0")
    check_that_it_ran_once(trial.id, namespace, gate, 1)


@pytest.mark.thorough
def test_an_unrecorded_pod_that_is_gone_is_lost_and_not_recreated(
    home_with_cluster: Path, namespace: Namespace, gate: Gate, tmp_path: Path
) -> None:
    with rigged(home_with_cluster, "die-after:POST:pods") as server:
        trial = submit(namespace, gate, 1)
        server.wait(PATIENCE)
    holding = tmp_path / "holding"
    holding.mkdir()
    # The next server serves the agent before it has listed the pod.
    with rigged(home_with_cluster, f"hold:POST:secrets:{holding}"):
        eventually(lambda: bool(gate.named("began-")), "it begins")
        assert not list(home_with_cluster.rglob("pod.json"))
        [name] = pods_of(namespace)
        namespace.core.delete_namespaced_pod(name, namespace.name, grace_period_seconds=0)
        eventually(lambda: namespace.is_gone(name), "it is gone")
    gate.create("go-0")
    ended: wl.Trial[int] = wl.get_trial(trial.id).wait(timeout=2 * PATIENCE)
    assert [(attempt.attempt, attempt.reason) for attempt in ended.attempts] == [(1, "Lost")]
    assert len(gate.named("began-")) == 1
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_a_job_stopped_during_its_creation_leaves_nothing(
    home_with_cluster: Path, namespace: Namespace, gate: Gate, tmp_path: Path
) -> None:
    holding = tmp_path / "holding"
    holding.mkdir()
    with rigged(home_with_cluster, f"hold:POST:secrets:{holding}"):
        trial = submit(namespace, gate, 1)
        eventually(lambda: (holding / "held").exists(), "the first of it is about to be made")
        trial.stop()
        trial.wait(timeout=PATIENCE)
        (holding / "go").touch()
        eventually(lambda: (holding / "done").exists(), "it is made")
        eventually(lambda: not claims_of(home_with_cluster), "nothing is claimed any more")
        eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
    assert gate.named("began-") == []


@pytest.mark.thorough
def test_a_server_killed_at_any_request_to_the_cluster_creates_nothing_twice(
    home_with_cluster: Path, namespace: Namespace, gate: Gate
) -> None:
    is_long = os.environ.get("WINDLASS_CHAOS") == "long"
    every = range(1, STEPS + 1)
    for step in every if is_long else sorted(random.Random(SEED).sample(every, 3)):
        with rigged(home_with_cluster, f"die-in-cluster:{step}") as server:
            gate.create("go-0")
            gate.create("go-1")
            trial = submit(namespace, gate, 2)
            server.wait(2 * PATIENCE)
        check_that_it_ran_once(trial.id, namespace, gate, 2)
        gate.clear()
        stop_server(home_with_cluster)
