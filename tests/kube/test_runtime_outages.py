"""The cluster's API away, or its memory short: trials in pods go on, and end right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from kube.access import Cluster
from kube.cluster.parts import part_named
from kube.gates import Gate
from kube.pods import Namespace
from kube.programs import persist
from kube.trials import is_empty, said, there

pytestmark = pytest.mark.usefixtures("home_with_cluster")

REPLICAS = 3
A_MINUTE = 600  # steps of `persist`


@pytest.fixture
def gate(own_cluster: Cluster, tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


def persisting(namespace: Namespace, gate: Gate) -> wl.Trial[int]:
    """A trial whose replicas count until they are let go, when all of them do."""
    job = wl.Job(
        wl.PythonFunction(persist),
        replicas=REPLICAS,
        restart_policy="ExitCode",
        executor=there(namespace, volumes=gate.volumes),
    )
    trial = job.submit()
    for rank in range(REPLICAS):
        eventually(
            lambda rank=rank: "step 3" in said(trial, index=rank),
            f"it is known of replica {rank} that it counts",
        )
    return trial


def check_complete(trial: wl.Trial[int], gate: Gate, began: list[str]) -> None:
    """All that every attempt said and reported is there, once; and no attempt was begun twice."""
    assert [each.partition(".")[0] for each in gate.named("began-")] == began
    for which in began:
        rank, attempt = map(int, which.split("-"))
        steps = int(gate.read(f"steps-{which}"))
        assert said(trial, index=rank, attempt=attempt) == [f"step {n}" for n in range(steps)]
        points = [point.value for point in trial.metrics(f"count_{which}")]
        assert points == list(range(steps)), which


def test_an_api_server_that_is_away_for_a_minute(
    alone: Cluster, namespace: Namespace, gate: Gate
) -> None:
    trial = persisting(namespace, gate)
    server = part_named("apiserver")
    server.stop()
    try:
        eventually(lambda: says_unreachable(trial), "why nothing new is known is told")
        away_at = int(gate.read("steps-0-1"))
        # One ends meanwhile, one dies, one goes on.
        gate.tell("go-1")
        gate.tell("die-2-1")
        eventually(lambda: gate.is_told("done-1-1") and gate.is_told("died-2-1"), "they end")
        eventually(
            lambda: int(gate.read("steps-0-1")) > away_at + A_MINUTE,
            "a minute's work is done",
            patience=4 * PATIENCE,
        )
        assert trial.refresh().state == "RUNNING"
        assert says_unreachable(trial)
        assert len(said(trial, index=0)) <= away_at + 50, "nothing can have come through"
    finally:
        server.start()
        server.wait()
    eventually(
        lambda: gate.is_told("steps-2-2") and "cannot be reached" not in trial.refresh().message,
        "the one that died starts again, and all is seen",
    )
    gate.tell("go-0")
    gate.tell("go-2")
    trial.wait(timeout=2 * PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert trial.result() == int(gate.read("steps-0-1"))
    assert trial.restarts == 1
    ends = [(each.index, each.attempt, each.exit_code) for each in trial.attempts]
    assert ends == [(0, 1, 0), (1, 1, 0), (2, 1, 137), (2, 2, 0)]
    check_complete(trial, gate, ["0-1", "1-1", "2-1", "2-2"])
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def says_unreachable(trial: wl.Trial[Any]) -> bool:
    """Whether the status of the trial, and of each replica, says that the cluster is away."""
    trial.refresh()
    told = [trial.message, *(each.message for each in trial.replicas if each.phase == "Running")]
    return all("cannot be reached" in each for each in told)
