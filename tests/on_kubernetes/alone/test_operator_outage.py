"""An operator during an outage of its API server."""

from __future__ import annotations

import os
import random
import time

import pytest

from harness import PATIENCE, eventually
from on_kubernetes.cluster.parts import part_named
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs, operating
from on_kubernetes.operator.planned_jobs import (
    FATES,
    Births,
    Name,
    are_over,
    check_fates,
    create_fated,
    unfinished,
)
from windlass.model.errors import KubernetesError

SEED = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.randrange(10**6))
JOBS = 2 * len(FATES)


@pytest.mark.thorough
def test_jobs_survive_an_outage_of_the_api_server_of_30_seconds(alone: Cluster, jobs: Jobs) -> None:
    """Some jobs are already over, some run, some have no pods yet."""
    words = ("--namespace", jobs.namespace, "--lease-namespace", jobs.namespace)
    with operating(alone, *words) as process, Births(jobs) as births:
        process.wait_leading()
        names = create_fated(jobs, JOBS, random.Random(SEED))
        eventually(lambda: len(unfinished(jobs, names)) < JOBS, "the first is over")
        assert not are_over(jobs, names), f"seed {SEED}: all is over before it begins"
        server = part_named("apiserver")
        server.stop()
        try:
            time.sleep(30)  # the duration of the outage
            assert process.ask("/healthz") == (200, "ok\n")
            assert process.ask("/readyz")[0] == 503
        finally:
            server.start()
            server.wait()
        eventually(
            lambda: _is_over(jobs, names), f"seed {SEED}: all are over", patience=5 * PATIENCE
        )
        check_fates(jobs, births, names, SEED)
        jobs.create("TFJob", "after", Worker=jobs.role(1, "pass"))
        assert jobs.ended("TFJob", "after")["type"] == "Succeeded"
        jobs.delete("TFJob", "after")
        jobs.wait_nothing_left()


def _is_over(jobs: Jobs, names: list[Name]) -> bool:
    try:
        return are_over(jobs, names)
    except KubernetesError:  # unreachable, or still loading its permissions
        return False
