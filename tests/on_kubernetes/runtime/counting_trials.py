"""Trials whose replicas count until a test lets them go, and what must be there in the end."""

from __future__ import annotations

import windlass as wl
from harness import eventually
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trial_functions import persist
from on_kubernetes.runtime.trials import said, there

REPLICAS = 3


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


def check_complete(
    trial: wl.Trial[int], gate: Gate, began: list[str], *, cut_short: str = "none"
) -> None:
    """All that every attempt said and reported is there, once; and no attempt was begun twice.

    Of those that were cut short, by the end of their names, only what they had told is there,
    without a gap.
    """
    assert [each.partition(".")[0] for each in gate.named("began-")] == began
    for which in began:
        rank, attempt = map(int, which.split("-"))
        steps = int(gate.read(f"steps-{which}"))
        lines = said(trial, index=rank, attempt=attempt)
        points = [point.value for point in trial.metrics(f"count_{which}")]
        if which.endswith(cut_short):
            assert 0 < len(lines) <= steps + 1 and 0 < len(points) <= steps + 1
            steps = min(len(lines), len(points))
            lines, points = lines[:steps], points[:steps]
        assert lines == [f"step {n}" for n in range(steps)], which
        assert points == list(range(steps)), which


def says_unreachable(trial: wl.Trial[int]) -> bool:
    """Whether the status of the trial, and of each replica, says that the cluster is away."""
    trial.refresh()
    told = [trial.message, *(each.message for each in trial.replicas if each.phase == "Running")]
    return all("cannot be reached" in each for each in told)
