"""The operator killed, the API server away, watches cut: every job ends right, once."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter

from harness import eventually
from kube.access import Cluster
from kube.cluster.parts import part_named
from kube.operating import Jobs, OperatorProcess
from kube.pods import Namespace
from windlass.kube.kinds import PODS
from windlass.kube.watching import Watcher
from windlass.model.errors import KubernetesError

SEED = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.randrange(10**6))
JOBS = 30


class Births:
    """Every pod that was ever created, by name and attempt."""

    def __init__(self, jobs: Jobs) -> None:
        self.seen: Counter[tuple[str, str]] = Counter()
        self._watcher = Watcher(
            jobs.connection, PODS, namespace=jobs.namespace, on_change=self._changed
        )
        self._watcher.start()
        assert self._watcher.synced.wait(30)

    def stop(self) -> None:
        self._watcher.stop()

    def _changed(self, before: object, after: object) -> None:
        if before is None and isinstance(after, dict):
            metadata = after["metadata"]
            self.seen[metadata["name"], metadata["labels"]["windlass.dev/attempt"]] += 1


# How each of the jobs goes, and how it must end. Programs know their attempt, so that what happens
# is the same whoever watches.
_DIE = "import os, sys; sys.exit({} if os.environ['WINDLASS_ATTEMPT'] < '{}' else 0)"
FATES = [
    ("pass", "Succeeded", 1),
    ("import time; time.sleep(2)", "Succeeded", 1),
    (_DIE.format(137, 2), "Succeeded", 2),
    ("import sys; sys.exit(3)", "Failed", 1),
    (_DIE.format(143, 3), "Succeeded", 3),
]


def test_an_operator_killed_at_random_during_30_jobs(
    cluster: Cluster, namespace: Namespace, jobs: Jobs
) -> None:
    chance = random.Random(SEED)
    births = Births(jobs)
    words = ("--namespace", namespace.name, "--alone")
    process = OperatorProcess(cluster, *words)
    kills = 0
    try:
        for number in range(JOBS):
            program, _, _ = FATES[number % len(FATES)]
            kind = chance.choice(["TFJob", "PyTorchJob"])
            role = jobs.role(1, program, restartPolicy="ExitCode")
            policy = {"cleanPodPolicy": "None", "backoffLimit": 6}
            name = f"{kind.lower()}-{number}"
            jobs.create(kind, name, spec={"runPolicy": policy}, Master=role)
        names = _names(jobs)
        end = time.monotonic() + 600
        while not all(_is_over(jobs, *each) for each in names):
            assert time.monotonic() < end, f"seed {SEED}: {_unfinished(jobs, names)}"
            time.sleep(chance.uniform(1.0, 8.0))  # when it is killed is chance
            process.kill()
            kills += 1
            process = OperatorProcess(cluster, *words)
        for kind, name in names:
            program, wanted, attempts = FATES[int(name.rpartition("-")[2]) % len(FATES)]
            end_of = jobs.ended(kind, name)
            assert end_of["type"] == wanted, f"seed {SEED}: {name}: {end_of}"
            pod = f"{name}-master-0"
            assert jobs.attempt(pod) == attempts, f"seed {SEED}: {name}"
            for attempt in range(1, attempts + 1):
                assert births.seen[pod, str(attempt)] == 1, f"seed {SEED}: {births.seen}"
        assert len(births.seen) == sum(FATES[number % len(FATES)][2] for number in range(JOBS)), (
            f"seed {SEED}"
        )
        assert kills > 3
        for kind, name in names:
            jobs.delete(kind, name)
        jobs.wait_nothing_left()
    finally:
        births.stop()
        process.stop()


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


def _answers(jobs: Jobs) -> bool:
    try:
        return bool(jobs.get("TFJob", "short"))
    except KubernetesError:  # it is away, or not yet sure who may do what
        return False


def _names(jobs: Jobs) -> list[tuple[str, str]]:
    return [
        (kind, each["metadata"]["name"])
        for kind, plural in (("TFJob", "tfjobs"), ("PyTorchJob", "pytorchjobs"))
        for each in jobs.connection.request(
            "GET", f"/apis/kubeflow.org/v1/namespaces/{jobs.namespace}/{plural}"
        )["items"]
    ]


def _is_over(jobs: Jobs, kind: str, name: str) -> bool:
    return bool({"Succeeded", "Failed"} & set(jobs.conditions(kind, name)))


def _unfinished(jobs: Jobs, names: list[tuple[str, str]]) -> dict[str, object]:
    return {
        name: jobs.conditions(kind, name) for kind, name in names if not _is_over(jobs, kind, name)
    }
