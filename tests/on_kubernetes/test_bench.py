"""`make bench-kube` runs and prints its results. No test judges a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kubernetes import client

from harness import PATIENCE, eventually
from on_kubernetes.cluster_access import Cluster

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("sharing", "definitions")
def test_many_jobs_are_measured_beside_bare_creates_and_leave_nothing(
    cluster: Cluster, core: client.CoreV1Api, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    words = ["--jobs", "3", "--replicas", "2", "--json", report, "--kubeconfig", cluster.kubeconfig]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kube_jobs", *map(str, words)],
        cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    figures = json.loads(report.read_text())
    assert (figures["jobs"], figures["replicas"]) == (3, 2)
    assert 0 < figures["all_created"] < figures["all_succeeded"]
    for name in ("bare_creates", "requests_a_job", "memory"):
        assert figures[name] > 0
    assert "to all created" in done.stdout and "to all succeeded" in done.stdout

    def left() -> list[str]:
        names = [namespace.metadata.name for namespace in core.list_namespace().items]
        return [name for name in names if name.startswith("windlass-bench")]

    eventually(lambda: not left(), "its namespaces are gone")
