"""Killed operators, outages and cut watches: every job ends correctly, once."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs, OperatorProcess, operating
from on_kubernetes.operator.planned_jobs import (
    Births,
    are_over,
    check_fates,
    create_fated,
    unfinished,
)
from on_kubernetes.pods import Namespace
from on_kubernetes.throttling_proxy import Turnstile
from windlass.kube.api.resource_kinds import PODS
from windlass.kube.api.watch import Watcher

SEED = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.randrange(10**6))
JOBS = 30


@pytest.mark.thorough
def test_30_jobs_end_correctly_with_a_randomly_killed_operator(
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
                time.sleep(chance.uniform(1.0, 8.0))  # the moments of kills are random
                process.kill()
                kills += 1
                process = OperatorProcess(cluster, *words)
            check_fates(jobs, births, names, SEED)
            assert kills > 3
    finally:
        process.stop()


def test_cut_watches_continue_at_their_position(jobs: Jobs, namespace: Namespace) -> None:
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
        # An expired watch is started again.
        watcher._version = "1"
        watcher.cut()
        namespace.pod("last", "true")
        eventually(lambda: watcher.at(namespace.name, "last") is not None, "it is seen")
        assert len(watcher.items()) == 11
    finally:
        began = time.monotonic()
        watcher.stop()
        assert time.monotonic() - began < 3.0


@pytest.mark.thorough
def test_expired_watches_start_again(
    cluster: Cluster, jobs: Jobs, turnstile: Turnstile, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The API server no longer has the events from the time of the outage."""
    monkeypatch.setenv("WINDLASS_LOG_LEVEL", "DEBUG")
    die = "import os, sys, time; time.sleep(2); " + (
        "sys.exit(137 if os.environ['WINDLASS_ATTEMPT'] == '1' else 0)"
    )
    wait = "import time; time.sleep(1000)"
    with turnstile.way() as way, Births(jobs) as births:
        config = str(turnstile.kubeconfig(tmp_path, way))
        words = ("--namespace", jobs.namespace, "--alone")
        with operating(cluster, *words, kubeconfig=config) as process:
            jobs.create("TFJob", "ends", Worker=jobs.role(2, "import time; time.sleep(2)"))
            jobs.create("PyTorchJob", "dies", Master=jobs.role(1, die, restartPolicy="ExitCode"))
            jobs.create("TFJob", "goes", Worker=jobs.role(1, wait))
            jobs.create("TFJob", "loses", Worker=jobs.role(1, wait))
            jobs.wait_running("goes-worker-0", "loses-worker-0")
            eventually(lambda: "dies-master-0" in jobs.pods(), "it is created")
            way.shut()
            assert way.cuts >= 4
            jobs.create("TFJob", "comes", Worker=jobs.role(1, "pass"))
            jobs.delete("TFJob", "goes")
            path = f"/api/v1/namespaces/{jobs.namespace}/pods/loses-worker-0"
            jobs.connection.request("DELETE", path, {})
            over = {"ends-worker-0", "ends-worker-1", "dies-master-0"}
            eventually(lambda: over <= _ended(jobs), "pods end unseen")
            eventually(
                lambda: not {"goes-worker-0", "loses-worker-0"} & set(jobs.pods()), "pods go unseen"
            )
            newest = jobs.connection.request("GET", PODS.path(jobs.namespace))["metadata"]
            turnstile.forget(newest["resourceVersion"])
            way.recover()
            for kind, name in (("TFJob", "ends"), ("TFJob", "comes"), ("PyTorchJob", "dies")):
                assert jobs.ended(kind, name)["type"] == "Succeeded", name
            assert jobs.attempt("dies-master-0") == 2
            eventually(lambda: jobs.attempt("loses-worker-0") == 2, "it comes back")
            for kind in ("tfjobs", "pods"):
                watch_lines = [line for line in process.lines if f"watch of {kind}: " in line]
                assert any("too old resource version" in line for line in watch_lines), (
                    process.output
                )
            jobs.delete("TFJob", "loses")
            eventually(lambda: not _live(jobs), "nothing runs any more")
            assert set(births.seen.values()) == {1}, births.seen


def _ended(jobs: Jobs) -> set[str]:
    return {
        name
        for name, pod in jobs.pods().items()
        if pod["status"].get("phase") in ("Succeeded", "Failed")
    }


def _live(jobs: Jobs) -> set[str]:
    return set(jobs.pods()) - _ended(jobs)
