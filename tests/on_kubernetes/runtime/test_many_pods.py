"""A trial of many pods."""

from __future__ import annotations

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import is_empty, log_lines, pods_of, there

MANY = 100


@pytest.mark.thorough
@pytest.mark.usefixtures("home_with_cluster")
def test_a_hundred_pods_of_one_job_run_and_end(own_cluster: Cluster, namespace: Namespace) -> None:
    executor = there(namespace, cpus=0.005)
    trial = wl.Job(wl.Command(["echo", "here"]), replicas=MANY, executor=executor).submit()
    eventually(lambda: len(pods_of(namespace)) >= MANY // 2, "they are made")
    trial.wait(timeout=10 * PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert log_lines(trial) == ["here"] * MANY
    assert [(replica.index, replica.attempt, replica.exit_code) for replica in trial.replicas] == [
        (index, 1, 0) for index in range(MANY)
    ]
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
