"""An operator sends requests only when something changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import (
    MERGE,
    PASS,
    SLEEP,
    Jobs,
    OperatorProcess,
    operating,
)
from on_kubernetes.throttling_proxy import Turnstile
from windlass.kube.api.resource_kinds import PODS

pytestmark = pytest.mark.thorough


def test_a_status_is_written_only_if_it_changed(
    cluster: Cluster, turnstile: Turnstile, jobs: Jobs, tmp_path: Path
) -> None:
    words, config = ("--namespace", jobs.namespace, "--alone"), turnstile.kubeconfig(tmp_path)
    with operating(cluster, *words, kubeconfig=str(config)) as process:
        jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
        jobs.wait("TFJob", "train", "Running")
        written = turnstile.passed("PUT", "status")
        assert written > 0
        for number in range(5):  # each triggers a reconcile, and none changes anything
            looks = _looks(process)
            note = {"metadata": {"annotations": {"note": str(number)}}}
            path = PODS.path(jobs.namespace, "train-worker-0")
            jobs.connection.request("PATCH", path, note, content_type=MERGE)
            eventually(lambda before=looks: _looks(process) > before, "the job is looked at")
        assert turnstile.passed("PUT", "status") == written


def test_an_invalid_object_is_reported_once_and_then_left_alone(
    cluster: Cluster, turnstile: Turnstile, jobs: Jobs, tmp_path: Path
) -> None:
    words, config = ("--namespace", jobs.namespace, "--alone"), turnstile.kubeconfig(tmp_path)
    with operating(cluster, *words, kubeconfig=str(config)):
        jobs.create("TFJob", "odd", Chief=jobs.role(2, PASS))
        assert jobs.ended("TFJob", "odd")["reason"] == "InvalidSpec"
        jobs.wait_event("odd", "InvalidSpec: ")
        requests = _about(turnstile, "odd")
        for number in range(3):
            jobs.create("TFJob", f"next-{number}", Worker=jobs.role(1, PASS))
            assert jobs.ended("TFJob", f"next-{number}")["type"] == "Succeeded"
        assert _about(turnstile, "odd") == requests
        events = [event for event in jobs.events("odd") if event.startswith("InvalidSpec: ")]
        assert len(events) == 1, events


def _looks(process: OperatorProcess) -> int:
    """The number of reconciles."""
    return process.metric("windlass_operator_reconcile_seconds_count")


def _about(turnstile: Turnstile, name: str) -> list[str]:
    """The requests to the cluster about an object."""
    return [
        f"{request.method} {request.path}"
        for request in turnstile.requests
        if f"/{name}" in request.path
    ]
