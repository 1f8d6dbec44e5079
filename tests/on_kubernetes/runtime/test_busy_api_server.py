"""A busy cluster (429): trials wait, and nothing is lost or created twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import PATIENCE, eventually
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import (
    begun,
    is_empty,
    log_lines,
    pods_of,
    python,
    replica_messages,
    restart,
    times_begun,
)
from on_kubernetes.throttling_proxy import RecordedRequest, Turnstile


@pytest.fixture
def home(
    turnstile: Turnstile, home_with_cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A home whose servers reach the cluster through a throttling proxy."""
    monkeypatch.setenv("KUBECONFIG", str(turnstile.kubeconfig(tmp_path)))
    return home_with_cluster


def is_look(request: RecordedRequest) -> bool:
    return request.method == "GET" and (request.is_of("pods") or request.is_of("secrets"))


def test_refused_objects_are_created_later_and_once(
    turnstile: Turnstile, home: Path, namespace: Namespace
) -> None:
    turnstile.refuse(lambda request: request.method == "POST" and request.is_of("namespaces"))
    trial = python("print('at last')", namespace, replicas=2).submit()
    eventually(lambda: "is too busy" in replica_messages(trial), "this is reported")
    assert not pods_of(namespace)
    turnstile.let_through()
    trial.wait(timeout=PATIENCE)
    assert (trial.state, trial.restarts) == ("SUCCEEDED", 0), trial.message
    assert [log_lines(trial, index=index) for index in range(2)] == [["at last"]] * 2
    made = {kind: turnstile.passed("POST", kind) for kind in ("secrets", "services", "pods")}
    assert made == {"secrets": 1, "services": 2, "pods": 2}
    assert turnstile.busiest_second() <= 4
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


@pytest.mark.thorough
def test_a_submission_waits_a_moment_for_a_busy_cluster(
    turnstile: Turnstile, home: Path, namespace: Namespace
) -> None:
    turnstile.refuse(lambda _asked: len(turnstile.refused()) < 2)
    trial = python("print('at last')", namespace).submit().wait(timeout=PATIENCE)
    assert (trial.state, log_lines(trial)) == ("SUCCEEDED", ["at last"]), trial.message


@pytest.mark.thorough
def test_pods_that_a_busy_cluster_does_not_list_are_not_lost(
    turnstile: Turnstile, home: Path, namespace: Namespace, gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    trial = begun(namespace, gate)
    turnstile.refuse(is_look)
    again = restart(home, monkeypatch, Path(os.environ["KUBECONFIG"])).get_trial(trial.id)
    eventually(lambda: "is too busy" in replica_messages(again), "this is reported")
    gate.create("go")
    before = len(turnstile.refused())
    eventually(lambda: len(turnstile.refused()) > before + 4, "it is asked for again")
    assert again.refresh().state == "RUNNING"
    turnstile.let_through()
    again.wait(timeout=PATIENCE)
    assert (again.state, again.restarts, log_lines(again)) == ("SUCCEEDED", 0, ["begun", "done"])
    assert times_begun(gate, again) == 1
    assert turnstile.busiest_second() <= 4
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_a_busy_cluster_is_not_unreachable_and_its_trials_are_not_given_up(
    turnstile: Turnstile, home: Path, namespace: Namespace, gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    trial = begun(namespace, gate)
    turnstile.refuse(is_look)
    again = restart(home, monkeypatch, Path(os.environ["KUBECONFIG"])).get_trial(trial.id)
    eventually(lambda: "is too busy" in replica_messages(again), "this is reported")
    again.stop(grace=0, force=True)
    eventually(
        lambda: any(request.is_of("secrets") for request in turnstile.refused()),
        "it is seen to be there",
    )
    assert "--force" not in replica_messages(again), "that would change nothing"
    assert again.state == "STOPPING"
    turnstile.let_through()
    again.wait(timeout=PATIENCE)
    [attempt] = again.attempts
    assert (again.state, attempt.reason) == ("STOPPED", "Stopped")
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
