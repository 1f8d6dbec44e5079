"""Pods that are taken away: evicted, or with their node. What they were goes on in others."""

from __future__ import annotations

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from kube.pods import Namespace
from kube.programs import leave_in_order
from kube.trials import is_empty, pods_of, said, there

pytestmark = pytest.mark.usefixtures("home_with_cluster")


def evict(namespace: Namespace, name: str) -> None:
    """Have a pod go as a machine's drain has it."""
    body = {
        "apiVersion": "policy/v1beta1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace.name},
    }
    namespace.core.create_namespaced_pod_eviction(name, namespace.name, body)


@pytest.mark.parametrize("code", [0, 1, 143])
def test_one_that_is_evicted_goes_on_from_what_it_saved_however_it_left(
    namespace: Namespace, code: int
) -> None:
    job = wl.Job(
        wl.PythonFunction(leave_in_order),
        args=[code],
        restart_policy="ExitCode",
        executor=there(namespace),
    )
    trial = job.submit()
    eventually(lambda: "waiting" in said(trial), "it is in the middle")
    [name] = pods_of(namespace)
    evict(namespace, name)
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert trial.result() == 3
    assert said(trial) == ["from 0", "waiting", "taken away", "from 3"]
    first, second = trial.attempts
    assert (first.exit_code, first.reason) == (None, "Evicted"), first
    assert (second.exit_code, trial.restarts) == (0, 1)
    assert [each.step for each in trial.list_checkpoints(sort_by="step")] == [0, 1, 2, 3]
    assert [point.step for point in trial.metrics("loss")] == [0, 1, 2, 3]
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
