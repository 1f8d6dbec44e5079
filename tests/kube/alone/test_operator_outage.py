"""An operator whose API server is away for a while."""

from __future__ import annotations

import time

import pytest

from harness import eventually
from kube.access import Cluster
from kube.cluster.parts import part_named
from kube.operating import Jobs, OperatorProcess
from windlass.model.errors import KubernetesError


@pytest.mark.slow
def test_an_api_server_that_is_away_for_30_seconds(alone: Cluster, jobs: Jobs) -> None:
    words = ("--namespace", jobs.namespace, "--lease-namespace", jobs.namespace)
    process = OperatorProcess(alone, *words)
    try:
        process.wait_leading()
        die = "import os, sys, time; time.sleep(5); " + (
            "sys.exit(137 if os.environ['WINDLASS_ATTEMPT'] == '1' else 0)"
        )
        jobs.create("TFJob", "short", Worker=jobs.role(2, "import time; time.sleep(5)"))
        jobs.create("TFJob", "retried", Worker=jobs.role(1, die, restartPolicy="ExitCode"))
        jobs.wait("TFJob", "short", "Running")
        jobs.wait("TFJob", "retried", "Running")
        server = part_named("apiserver")
        server.stop()
        time.sleep(30)  # what is tried is an absence of that length
        server.start()
        eventually(lambda: _answers(jobs), "it is back")
        for name, attempt in (("short", 1), ("retried", 2)):
            assert jobs.ended("TFJob", name)["type"] == "Succeeded"
            assert jobs.attempt(f"{name}-worker-0") == attempt
        jobs.create("TFJob", "after", Worker=jobs.role(1, "pass"))
        assert jobs.ended("TFJob", "after")["type"] == "Succeeded"
    finally:
        process.stop()


def _answers(jobs: Jobs) -> bool:
    try:
        return bool(jobs.get("TFJob", "short"))
    except KubernetesError:  # it is away, or not yet sure who may do what
        return False
