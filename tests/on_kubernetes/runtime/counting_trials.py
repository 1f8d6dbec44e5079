"""Trials whose replicas count until a test releases them, and the check of their results."""

from __future__ import annotations

import windlass as wl
from harness import eventually
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trial_functions import persist
from on_kubernetes.runtime.trials import log_lines, there

REPLICAS = 3


def persisting(namespace: Namespace, gate: Gate) -> wl.Trial[int]:
    """A trial whose replicas count until they are released, started when all of them count."""
    job = wl.Job(
        wl.PythonFunction(persist),
        replicas=REPLICAS,
        restart_policy="ExitCode",
        executor=there(namespace, volumes=gate.volumes),
    )
    trial = job.submit()
    for rank in range(REPLICAS):
        eventually(
            lambda rank=rank: "step 3" in log_lines(trial, index=rank),
            f"it is known of replica {rank} that it counts",
        )
    return trial


def check_complete(
    trial: wl.Trial[int], gate: Gate, began: list[str], *, cut_short: str = "none"
) -> None:
    """Check that all output and reports of every attempt exist once, and no attempt ran twice.

    Attempts that were cut short, given by suffix, have only the lines they had sent, without a gap.
    """
    assert [name.partition(".")[0] for name in gate.named("began-")] == began
    for which in began:
        rank, attempt = map(int, which.split("-"))
        steps = int(gate.read(f"steps-{which}"))
        lines = log_lines(trial, index=rank, attempt=attempt)
        points = [point.value for point in trial.metrics(f"count_{which}")]
        if which.endswith(cut_short):
            assert 0 < len(lines) <= steps + 1 and 0 < len(points) <= steps + 1
            steps = min(len(lines), len(points))
            lines, points = lines[:steps], points[:steps]
        assert lines == [f"step {n}" for n in range(steps)], which
        assert points == list(range(steps)), which


def says_unreachable(trial: wl.Trial[int]) -> bool:
    """Return whether the trial and each replica report that the cluster is unreachable."""
    trial.refresh()
    messages = [
        trial.message,
        *(replica.message for replica in trial.replicas if replica.phase == "Running"),
    ]
    return all("cannot be reached" in message for message in messages)
