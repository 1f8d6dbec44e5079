"""Retries run when there is news of the cluster, not when a pause is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import PATIENCE, eventually
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from on_kubernetes.runtime.counting_trials import check_complete, persisting, says_unreachable
from on_kubernetes.runtime.trials import is_empty, log_lines, pods_of, python, replica_messages
from on_kubernetes.throttling_proxy import Turnstile
from server_with_faults import rigged
from windlass.runtimes.kubernetes.objects import names as pod_names


@pytest.mark.thorough
def test_a_trial_with_a_taken_name_starts_when_the_foreign_object_is_gone(
    home_with_cluster: Path, namespace: Namespace, tmp_path: Path
) -> None:
    holding = tmp_path / "holding"
    holding.mkdir()
    with rigged(home_with_cluster, f"stubborn;hold:POST:secrets:{holding}"):
        trial = python("print('at last')", namespace).submit()
        eventually(lambda: (holding / "held").exists(), "it is about to be made")
        base = pod_names.base_of(trial.id, trial.record.uid)
        taken = f"{base}-main-0-1"
        namespace.pod(taken, "sleep", "1000")
        (holding / "go").touch()
        eventually(
            lambda: "does not belong to this job" in replica_messages(trial), "this is reported"
        )
        namespace.core.delete_namespaced_pod(taken, namespace.name, grace_period_seconds=0)
        trial.wait(timeout=PATIENCE)
        assert trial.state == "SUCCEEDED", trial.message
        assert log_lines(trial) == ["at last"]
        eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_failed_requests_are_retried_when_the_cluster_is_back(
    proxy: Proxy, home_behind_proxy: Path, namespace: Namespace, tmp_path: Path
) -> None:
    holding = tmp_path / "holding"
    holding.mkdir()
    with rigged(home_behind_proxy, f"stubborn;hold:POST:secrets:{holding}"):
        trial = python("print('at last')", namespace).submit()
        eventually(lambda: (holding / "held").exists(), "it is about to be made")
        proxy.shut()
        (holding / "go").touch()
        eventually(lambda: "cannot be reached" in replica_messages(trial), "this is reported")
        eventually(lambda: _has_failed(home_behind_proxy), "what is to be done there fails")
        proxy.recover()
        trial.wait(timeout=PATIENCE)
        assert trial.state == "SUCCEEDED", trial.message
        assert log_lines(trial) == ["at last"]
        eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


@pytest.mark.waits
def test_events_during_an_outage_are_detected_with_expired_watches(
    turnstile: Turnstile, home_with_cluster: Path, namespace: Namespace, gate: Gate,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Meanwhile one replica ends, one is deleted, one dies."""
    with turnstile.way() as way:
        monkeypatch.setenv("KUBECONFIG", str(turnstile.kubeconfig(tmp_path, way)))
        trial = persisting(namespace, gate)
        way.shut()
        eventually(lambda: says_unreachable(trial), "the status says so")
        away_at = int(gate.read("steps-0-1"))
        [deleted] = [name for name in pods_of(namespace) if name.endswith("-main-1-1")]
        namespace.core.delete_namespaced_pod(deleted, namespace.name, grace_period_seconds=0)
        gate.create("die-2-1")
        eventually(lambda: gate.exists("died-2-1"), "one dies")
        eventually(lambda: int(gate.read("steps-0-1")) > away_at + 10, "another works on")
        gate.create("go-0")
        eventually(lambda: gate.exists("done-0-1"), "it ends")
        assert says_unreachable(trial) and trial.state == "RUNNING"
        newest = namespace.core.list_namespaced_pod(namespace.name).metadata.resource_version
        turnstile.forget(newest)
        way.recover()
        for rank in (1, 2):
            eventually(lambda rank=rank: gate.exists(f"steps-{rank}-2"), f"{rank} starts again")
            gate.create(f"go-{rank}")
        trial.wait(timeout=PATIENCE)
        assert trial.state == "SUCCEEDED", trial.message
        assert trial.result() == int(gate.read("steps-0-1"))
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
        check_complete(trial, gate, ["0-1", "1-1", "1-2", "2-1", "2-2"], cut_short="1-1")
        assert turnstile.too_old > 0
        eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def _has_failed(home: Path) -> bool:
    """Return whether the log shows a failed try."""
    return "in a cluster: " in (home / "server.log").read_text()
