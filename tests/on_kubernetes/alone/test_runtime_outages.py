"""Trials in pods survive outages of the cluster's API and compacted watches."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes import client

from harness import PATIENCE, eventually
from on_kubernetes.cluster.parts import part_named
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from on_kubernetes.runtime.counting_trials import (
    REPLICAS,
    check_complete,
    persisting,
    says_unreachable,
)
from on_kubernetes.runtime.trials import is_empty, log_lines, pods_of

pytestmark = pytest.mark.usefixtures("home_with_cluster")

A_MINUTE = 600  # steps of `persist`


@pytest.mark.thorough
def test_trials_survive_an_outage_of_the_api_server_of_a_minute(
    alone: Cluster, namespace: Namespace, gate: Gate
) -> None:
    trial = persisting(namespace, gate)
    server = part_named("apiserver")
    server.stop()
    try:
        eventually(lambda: says_unreachable(trial), "the reason for missing reports is reported")
        away_at = int(gate.read("steps-0-1"))
        # Meanwhile one ends, one dies, one continues.
        gate.create("go-1")
        gate.create("die-2-1")
        eventually(lambda: gate.exists("done-1-1") and gate.exists("died-2-1"), "they end")

        def has_worked_for_a_minute() -> bool:
            assert says_unreachable(trial), "it says so all the time, not now and then"
            return int(gate.read("steps-0-1")) > away_at + A_MINUTE

        eventually(has_worked_for_a_minute, "a minute's work is done", patience=4 * PATIENCE)
        assert trial.refresh().state == "RUNNING"
        assert len(log_lines(trial, index=0)) <= away_at + 1, "nothing can have come through"
    finally:
        server.start()
        server.wait()
    eventually(
        lambda: gate.exists("steps-2-2") and "cannot be reached" not in trial.refresh().message,
        "the one that died starts again, and all is seen",
    )
    gate.create("go-0")
    gate.create("go-2")
    trial.wait(timeout=2 * PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert trial.result() == int(gate.read("steps-0-1"))
    assert trial.restarts == 1
    ends = [(attempt.index, attempt.attempt, attempt.exit_code) for attempt in trial.attempts]
    assert ends == [(0, 1, 0), (1, 1, 0), (2, 1, 137), (2, 2, 0)]
    check_complete(trial, gate, ["0-1", "1-1", "2-1", "2-2"])
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


@pytest.mark.thorough
def test_an_expired_watch_restarts_and_misses_nothing(
    alone: Cluster,
    namespace: Namespace,
    gate: Gate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proxy = Proxy(alone)
    monkeypatch.setenv("KUBECONFIG", str(proxy.kubeconfig(tmp_path)))
    trial = persisting(namespace, gate)
    server = part_named("apiserver")
    try:
        proxy.shut()
        eventually(lambda: says_unreachable(trial), "nothing is seen")
        seen = namespace.core.list_namespaced_pod(namespace.name).metadata.resource_version
        # All of this happens without a watch: one pod is deleted, one is asked to die, one
        # continues.
        [gone] = [name for name in pods_of(namespace) if name.endswith("-main-1-1")]
        namespace.core.delete_namespaced_pod(gone, namespace.name, grace_period_seconds=0)
        gate.create("die-2-1")
        eventually(lambda: gate.exists("died-2-1"), "it dies")
        # A restarted server does not know earlier events.
        server.stop()
        server.start()
        server.wait()
        eventually(lambda: is_too_old(namespace, seen), "the watch cannot go on from there")
    finally:
        server.start()
        proxy.recover()
    eventually(lambda: gate.exists("steps-1-2") and gate.exists("steps-2-2"), "both start again")
    for rank in range(REPLICAS):
        gate.create(f"go-{rank}")
    trial.wait(timeout=2 * PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    ends = [
        (attempt.index, attempt.attempt, attempt.exit_code, attempt.reason)
        for attempt in trial.attempts
    ]
    assert ends == [
        (0, 1, 0, ""),
        (1, 1, None, "Lost"),
        (1, 2, 0, ""),
        (2, 1, 137, ""),
        (2, 2, 0, ""),
    ]
    # Only unsent data of the killed pod is lost.
    check_complete(trial, gate, ["0-1", "1-1", "1-2", "2-1", "2-2"], cut_short="1-1")
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
    proxy.close()


def is_too_old(namespace: Namespace, version: str) -> bool:
    """Return whether a watch of the pods can no longer continue from a version."""
    try:
        answer = namespace.core.list_namespaced_pod(
            namespace.name,
            resource_version=version,
            watch=True,
            timeout_seconds=1,
            _preload_content=False,
        )
    except client.ApiException as error:
        return bool(error.status == 410)
    return b'"code":410' in answer.data
