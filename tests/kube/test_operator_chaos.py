"""The operator killed, the API server away, watches cut: every job ends right, once."""

from __future__ import annotations

import os
import random
import threading
import time

import pytest

from harness import eventually
from kube.access import Cluster
from kube.fates import Births, are_over, check_fates, create_fated, unfinished
from kube.operating import Jobs, OperatorProcess
from kube.pods import Namespace
from windlass.kube.kinds import PODS
from windlass.kube.watching import Watcher

SEED = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.randrange(10**6))
JOBS = 30


@pytest.mark.slow
def test_an_operator_killed_at_random_during_30_jobs(
    cluster: Cluster, namespace: Namespace, jobs: Jobs
) -> None:
    chance = random.Random(SEED)
    words = ("--namespace", namespace.name, "--alone")
    process = OperatorProcess(cluster, *words)
    kills = 0
    try:
        with Births(jobs) as births:
            names = create_fated(jobs, JOBS, chance)
            end = time.monotonic() + 1200
            while not are_over(jobs, names):
                assert time.monotonic() < end, f"seed {SEED}: {unfinished(jobs, names)}"
                time.sleep(chance.uniform(1.0, 8.0))  # when it is killed is chance
                process.kill()
                kills += 1
                process = OperatorProcess(cluster, *words)
            check_fates(jobs, births, names, SEED)
            assert kills > 3
    finally:
        process.stop()


def test_watches_that_are_cut_go_on_from_where_they_were(jobs: Jobs, namespace: Namespace) -> None:
    seen: list[str] = []
    changed = threading.Condition()

    def on_change(before: object, after: object) -> None:
        with changed:
            if before is None and isinstance(after, dict):
                seen.append(after["metadata"]["name"])
            changed.notify_all()

    watcher = Watcher(jobs.connection, PODS, namespace=namespace.name, on_change=on_change)
    watcher.start()
    try:
        assert watcher.synced.wait(30)
        for number in range(10):
            watcher.cut()
            namespace.pod(f"pod-{number}", "true")
        with changed:
            assert changed.wait_for(lambda: len(seen) >= 10, timeout=60)
        assert sorted(seen) == sorted(f"pod-{number}" for number in range(10))
        # One that is too old to go on from is begun anew.
        watcher._version = "1"
        watcher.cut()
        namespace.pod("last", "true")
        eventually(lambda: watcher.at(namespace.name, "last") is not None, "it is seen")
        assert len(watcher.items()) == 11
    finally:
        began = time.monotonic()
        watcher.stop()
        assert time.monotonic() - began < 3.0
