"""If the operator dies at any step between a decision and its execution, nothing happens twice."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterable

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs, OperatorProcess, operating
from on_kubernetes.operator.planned_jobs import Births

SEED = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.randrange(10**6))
FAIL_ONCE = (
    "import os, sys; name = os.environ['WINDLASS_INDEX'] + os.environ['WINDLASS_ATTEMPT']; "
    "sys.exit(143 if name == '11' else 0)"
)
# Before and after: three pods, two services and a deletion, and the stored state and status of the
# start, the restart and the end. A change in between may be written with the next one.
FEWEST_STEPS = 2 * (3 + 2 + 1 + 2 * 3)
HALFWAY = 8  # when an object was created that the operator has not recorded


def _some_steps() -> Iterable[int]:
    """All steps in the long form, a few random ones otherwise."""
    if os.environ.get("WINDLASS_CHAOS") == "long":
        return itertools.count(1)
    return sorted(random.Random(SEED).sample(range(1, FEWEST_STEPS + 1), 4))


@pytest.mark.parametrize(
    "steps",
    [[HALFWAY], pytest.param(_some_steps(), marks=pytest.mark.thorough)],
    ids=["halfway", "some"],
)
@pytest.mark.case(10)
def test_an_operator_killed_at_any_step_from_decision_to_pod_creates_nothing_twice(
    cluster: Cluster, jobs: Jobs, steps: Iterable[int]
) -> None:
    words = ("--namespace", jobs.namespace, "--alone")
    for step in steps:
        name = f"train-{step}"
        with Births(jobs) as births:
            was_killed = _run_until_killed(cluster, jobs, name, step)
            with operating(cluster, *words):
                end = jobs.ended("TFJob", name)
            assert end["type"] == "Succeeded", f"seed {SEED}, step {step}: {end}"
            assert dict(births.seen) == {
                (f"{name}-worker-0", "1"): 1,
                (f"{name}-worker-1", "1"): 1,
                (f"{name}-worker-1", "2"): 1,
            }, f"seed {SEED}, step {step}"
        status = (jobs.get("TFJob", name) or {})["status"]
        held = [
            condition["type"] for condition in status["conditions"] if condition["status"] == "True"
        ]
        assert held == ["Created", "Succeeded"], f"seed {SEED}, step {step}"
        jobs.delete("TFJob", name)
        jobs.wait_nothing_left()
        if not was_killed:
            break  # fewer steps than this number: all of them were tried
    assert was_killed or step > FEWEST_STEPS, f"seed {SEED}, step {step}"


def _run_until_killed(cluster: Cluster, jobs: Jobs, name: str, step: int) -> bool:
    """Run an operator on a job, and return whether it died before the end."""
    process = OperatorProcess(cluster, "--namespace", jobs.namespace, "--alone", rig=f"die:{step}")
    try:
        role = jobs.role(2, FAIL_ONCE, restartPolicy="ExitCode")
        policy = {"backoffLimit": 1, "cleanPodPolicy": "None"}
        spec = {"successPolicy": "AllWorkers", "runPolicy": policy}
        jobs.create("TFJob", name, spec=spec, Worker=role)
        eventually(lambda: process.is_over or _is_settled(jobs, name), "it dies, or is done")
        return process.is_over
    finally:
        process.kill()


def _is_settled(jobs: Jobs, name: str) -> bool:
    """Return whether everything was done and reported."""
    return jobs.is_settled("TFJob", name) and "Succeeded" in jobs.conditions("TFJob", name)
