"""A busy API server (429): the operator retries, and does nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs, operating
from on_kubernetes.throttling_proxy import RecordedRequest, Turnstile


def is_create(request: RecordedRequest) -> bool:
    return request.method == "POST" and (request.is_of("pods") or request.is_of("services"))


def is_write(request: RecordedRequest) -> bool:
    return request.method in ("PATCH", "PUT")


def is_look(request: RecordedRequest) -> bool:
    return request.method == "GET"


@pytest.mark.parametrize(
    "which",
    [
        is_create,
        pytest.param(is_write, marks=pytest.mark.thorough),
        pytest.param(is_look, marks=pytest.mark.thorough),
    ],
)
def test_refused_requests_are_retried_later_and_done_once(
    cluster: Cluster, turnstile: Turnstile, jobs: Jobs, tmp_path: Path,
    which: Callable[[RecordedRequest], bool],
) -> None:  # fmt: skip
    turnstile.refuse(which)
    words, config = ("--namespace", jobs.namespace, "--alone"), turnstile.kubeconfig(tmp_path)
    with operating(cluster, *words, kubeconfig=str(config)) as process:
        roles = {"Chief": jobs.role(1, "print('at last')"), "Worker": jobs.role(2, "pass")}
        jobs.create("TFJob", "train", **roles)
        eventually(lambda: len(turnstile.refused()) > 12, "it comes back")
        assert not jobs.pods()
        turnstile.let_through()
        assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
        assert jobs.logs("train-chief-0") == "at last\n"
        names = ["train-chief-0", "train-worker-0", "train-worker-1"]
        assert [jobs.attempt(name) for name in names] == [1, 1, 1]
        assert turnstile.passed("POST", "pods") == turnstile.passed("POST", "services") == 3
        # Lists of four kinds may coincide, each once a second.
        assert turnstile.busiest_second() <= 12
        assert "Traceback" not in process.output and not process.is_over
