"""Hundreds of concurrent jobs end correctly with little load."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs, operating
from on_kubernetes.operator.planned_jobs import Births
from on_kubernetes.operator.simulated_pods import NOBODY, PaperNode
from windlass.kube.api.resource_kinds import Object
from windlass.kube.api.watch import Watcher
from windlass.operator.job_kinds import TFJOB

JOBS = 500
# The exit codes of a job's attempts, and its correct end.
FATES = [
    ([0], "Succeeded"),
    ([0], "Succeeded"),
    ([3], "Failed"),
    ([137, 0], "Succeeded"),
    ([143, 137], "Failed"),  # its limit is one restart
]


def exit_code(pod: Object) -> int:
    labels = pod["metadata"]["labels"]
    number = int(labels["training.kubeflow.org/job-name"].rpartition("-")[2])
    return FATES[number % len(FATES)][0][int(labels["windlass.dev/attempt"]) - 1]


@pytest.mark.thorough
@pytest.mark.case(13)
def test_five_hundred_concurrent_jobs_end_correctly(
    cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    def create(number: int) -> None:
        role = jobs.role(1, "pass", restartPolicy="ExitCode", pod={"schedulerName": NOBODY})
        policy = {"backoffLimit": 1, "cleanPodPolicy": "None"}
        jobs.create("TFJob", f"job-{number}", spec={"runPolicy": policy}, Worker=role)

    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, range(JOBS)))
    words = ("--namespace", jobs.namespace, "--alone")
    overlaps = tmp_path / "overlaps"
    seen = Watcher(jobs.connection, TFJOB.kind, namespace=jobs.namespace)
    seen.start()
    with (
        Births(jobs) as births,
        PaperNode(jobs, TFJOB.container, exit_code),
        # All of them exist when it starts.
        operating(cluster, *words, rig=f"count:{overlaps}") as process,
    ):
        eventually(lambda: len(_ends(seen)) == JOBS, "all end", patience=900)
        ended = time.monotonic()
        counted = {
            transition: process.metric(f"windlass_operator_jobs_{transition}_total")
            for transition in ("created", "succeeded", "failed", "restarted", "deleted")
        }
        eventually(
            lambda: "windlass_operator_queue_depth 0.0\n" in process.ask("/metrics")[1],
            "the queue drains",
        )
        assert process.ask("/healthz") == (200, "ok\n")
    seen.stop()
    print(f"all ended after {ended - began:.0f} s")
    assert _ends(seen) == {f"job-{n}": FATES[n % len(FATES)][1] for n in range(JOBS)}
    attempts = Counter(
        {
            (f"job-{number}-worker-0", str(attempt)): 1
            for number in range(JOBS)
            for attempt in range(1, len(FATES[number % len(FATES)][0]) + 1)
        }
    )
    assert births.seen == attempts
    assert not overlaps.exists(), "no job was looked at by two at a time"
    assert counted == {
        "created": 500, "succeeded": 300, "failed": 200, "restarted": 200, "deleted": 0,
    }  # fmt: skip


def _ends(seen: Watcher) -> dict[str, str]:
    """The ends of finished jobs."""
    return {
        item["metadata"]["name"]: held["type"]
        for item in seen.items()
        for held in (item.get("status") or {}).get("conditions") or ()
        if held["type"] in ("Succeeded", "Failed") and held["status"] == "True"
    }
