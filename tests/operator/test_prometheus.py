"""The metrics of an operator, as Prometheus scrapes them."""

from __future__ import annotations

import os
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from harness import BIN, PATIENCE, eventually
from kube.http_responder import answer_json, answering
from windlass.installation import extra_hint
from windlass.kube.api.connection import connect
from windlass.operator import prometheus
from windlass.operator.operator import Operator


class EmptyCluster(BaseHTTPRequestHandler):
    """Lists no objects and leaves every watch open."""

    is_over: threading.Event

    def do_GET(self) -> None:
        if "watch=" not in self.path:
            answer_json(self, 200, {"items": [], "metadata": {"resourceVersion": "1"}})
            return
        self.send_response(200)
        self.end_headers()
        self.is_over.wait(PATIENCE)


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    with answering(EmptyCluster, tmp_path, monkeypatch), _running() as operator:
        yield operator


@contextmanager
def _running() -> Iterator[Operator]:
    operator, stop = Operator(connect(), ["lab"], identity="test"), threading.Event()
    thread = threading.Thread(target=operator.run, args=(stop,))
    thread.start()
    try:
        yield operator
    finally:
        stop.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_counters_of_jobs_have_a_namespace_and_a_kind(operator: Operator) -> None:
    operator.counts.add(prometheus.CREATED, "lab", "TFJob")
    operator.counts.add(prometheus.CREATED, "lab", "TFJob")
    operator.counts.add(prometheus.RESTARTED, "lab", "PyTorchJob", 3)
    samples = _scrape(operator)
    assert [(sample.labels, sample.value) for sample in samples["jobs_created_total"]] == [
        ({"namespace": "lab", "kind": "TFJob"}, 2.0)
    ]
    assert [(sample.labels, sample.value) for sample in samples["jobs_restarted_total"]] == [
        ({"namespace": "lab", "kind": "PyTorchJob"}, 3.0)
    ]
    assert "jobs_failed_total" not in samples


def test_requests_to_the_cluster_are_counted_by_method(operator: Operator) -> None:
    # A list and a watch of each of tfjobs, pytorchjobs, pods and services.
    eventually(
        lambda: (
            [(s.labels, s.value) for s in _scrape(operator).get("api_requests_total", ())]
            == [({"method": "GET"}, 8.0)]
        ),
        "eight requests are counted",
    )


def test_the_state_of_the_controller_is_read_at_the_scrape(operator: Operator) -> None:
    latency = operator._current_controller().latency
    for milliseconds in range(1, 101):
        latency.add(milliseconds / 1000)
    samples = _scrape(operator)
    assert samples["queue_depth"][0].value == 0
    assert samples["leader"][0].value == 1
    quantiles = {
        sample.labels["quantile"]: round(sample.value, 2) for sample in samples["reconcile_seconds"]
    }
    assert quantiles == {"0.5": 0.05, "0.9": 0.09, "0.99": 0.1}
    assert samples["reconcile_seconds_count"][0].value == 100
    assert samples["reconcile_seconds_sum"][0].value == pytest.approx(5.05)


def test_every_metric_has_a_help_text_and_none_is_registered_globally(operator: Operator) -> None:
    families = list(text_string_to_metric_families(_text(operator)))
    assert {family.name: family.type for family in families} == {
        **{
            f"windlass_operator_jobs_{transition}": "counter"
            for transition in ("created", "deleted", "succeeded", "failed", "restarted")
        },
        "windlass_operator_api_requests": "counter",
        "windlass_operator_queue_depth": "gauge",
        "windlass_operator_reconcile_seconds": "summary",
        "windlass_operator_leader": "gauge",
    }
    assert all(family.documentation for family in families)
    assert not any(family.name.startswith("windlass") for family in REGISTRY.collect())


def test_a_missing_package_is_reported_with_the_extra_that_installs_it(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'prometheus_client'\")"
    )
    command = subprocess.run(
        [BIN / "windlass", "operator", "--alone"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert command.returncode == 1
    assert "The operator needs the package prometheus-client" in command.stderr
    assert extra_hint("kubernetes", "") in command.stderr


def _scrape(operator: Operator) -> dict[str, list[Sample]]:
    """The samples of a scrape, by their name without its prefix."""
    samples: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(_text(operator)):
        for sample in family.samples:
            name = sample.name.removeprefix("windlass_operator_")
            samples.setdefault(name, []).append(sample)
    return samples


def _text(operator: Operator) -> str:
    url = f"http://127.0.0.1:{operator.port}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:
        return str(response.read().decode())
