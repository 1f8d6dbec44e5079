"""Placement of pods with accelerators: at submission and at each attempt."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from kube.http_responder import answer_json, answering
from windlass.kube.api.connection import Connection, connect
from windlass.kube.capacity.nodes import (
    GKE_POOL,
    GKE_TOPOLOGY,
    GKE_TPU,
    GPU,
    PRODUCT,
    TPU,
    placement,
)
from windlass.model.hardware.resources import Accelerator, Resources
from windlass.model.job import ProcessCall, Role
from windlass.model.kubernetes.job_options import KubernetesOptions
from windlass.runtimes.kubernetes.job_records import JobRecords
from windlass.runtimes.kubernetes.objects.manifests import JobRecord
from windlass.runtimes.kubernetes.submit_checks import SubmitChecks

A100 = Accelerator(kind="a100", count=1)
LONG = 3600.0  # seconds after which a seen node no longer counts
OTHERS_LABEL = "gpu.nvidia.com/class"  # in use at one cloud, and not common


class Cluster(BaseHTTPRequestHandler):
    """Lists the nodes that a test defines."""

    nodes: list[dict[str, Any]] = []

    def do_GET(self) -> None:
        answer_json(self, 200, {"items": type(self).nodes})


class Clock:
    """The time, advanced by the test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Cluster]]:
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "windlass"))
    with answering(Cluster, tmp_path, monkeypatch) as handler:
        yield handler


@pytest.fixture
def connection(cluster: type[Cluster]) -> Iterator[Connection]:
    made = connect()
    yield made
    made.close()


def node(resources: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": resources}}


def role(accelerator: Accelerator, replicas: int = 1, **options: Any) -> Role:
    return Role(
        executable=ProcessCall(argv=("true",)),
        replicas=replicas,
        resources=Resources(accelerator=accelerator),
        kubernetes=KubernetesOptions(**options),
    )


PLAIN = node({"cpu": "4"}, {"karpenter.sh/nodepool": "plain"})
OTHERS = node({GPU: "8"}, {OTHERS_LABEL: "A100_PCIE_40GB"})


def test_an_attempt_without_nodes_repeats_the_selection_of_the_previous_one(
    cluster: type[Cluster], connection: Connection
) -> None:
    clock = Clock()
    checks = SubmitChecks(clock=clock)
    cluster.nodes = [PLAIN, OTHERS]
    first = checks.placement(connection, role(A100))
    assert first.node_selector == {OTHERS_LABEL: "A100_PCIE_40GB"}
    cluster.nodes, clock.now = [PLAIN], LONG
    assert checks.placement_of_attempt(connection, role(A100)) == (first, False)
    with pytest.raises(wl.ResourceError, match="'a100' is not available in this cluster"):
        checks.placement(connection, role(A100))


def test_an_attempt_without_a_known_predecessor_uses_common_labels(
    cluster: type[Cluster], connection: Connection
) -> None:
    cluster.nodes = [PLAIN]
    checks = SubmitChecks()  # of a restarted server
    placed, is_guess = checks.placement_of_attempt(connection, role(A100))
    assert placed == placement(A100, 1, None) and is_guess
    [gke] = [term for term in placed.node_terms if "gke" in str(term)]
    assert "nvidia-tesla-a100" in gke["matchExpressions"][0]["values"]


def test_a_restarted_server_reads_the_placement_from_existing_pods(
    cluster: type[Cluster], connection: Connection, tmp_path: Path
) -> None:
    cluster.nodes = [OTHERS]
    first = SubmitChecks().placement(connection, role(A100))
    claim = JobRecord(uid="c0ffee", trial_id=1, namespace="lab", base="wl-1", home="h")
    claims = JobRecords(tmp_path)
    claims.place("c0ffee", "worker", first)
    assert claims.find("c0ffee") is None, "deleted objects leave no note"
    claims.keep(claim)
    claims.place("c0ffee", "worker", first)
    claims.place("c0ffee", "chief", placement(A100, 1, None))
    record = JobRecords(tmp_path).find("c0ffee")
    assert record is not None and record.placements["worker"] == first
    assert set(record.placements) == {"worker", "chief"}
    cluster.nodes = [PLAIN]
    before = record.placements["worker"]
    assert SubmitChecks().placement_of_attempt(connection, role(A100), before) == (first, False)


def test_recently_seen_nodes_take_precedence_over_the_previous_attempt(
    cluster: type[Cluster], connection: Connection
) -> None:
    clock = Clock()
    checks = SubmitChecks(clock=clock)
    cluster.nodes = [OTHERS]
    old = checks.placement(connection, role(A100))
    cluster.nodes, clock.now = [node({GPU: "1"}, {PRODUCT: "NVIDIA-A100-PCIE-40GB"})], LONG
    new = checks.placement(connection, role(A100))
    cluster.nodes, clock.now = [PLAIN], 2 * LONG
    assert new != old
    assert checks.placement_of_attempt(connection, role(A100), old) == (new, False)


def test_an_attempt_follows_the_current_nodes(
    cluster: type[Cluster], connection: Connection
) -> None:
    clock = Clock()
    checks = SubmitChecks(clock=clock)
    cluster.nodes = [OTHERS]
    checks.placement(connection, role(A100))
    cluster.nodes, clock.now = [node({GPU: "1"}, {PRODUCT: "NVIDIA-A100-PCIE-40GB"})], LONG
    placed, is_guess = checks.placement_of_attempt(connection, role(A100))
    assert not is_guess
    assert placed.node_selector == {PRODUCT: "NVIDIA-A100-PCIE-40GB"}


def test_the_placement_of_another_role_is_not_reused(
    cluster: type[Cluster], connection: Connection
) -> None:
    clock = Clock()
    checks = SubmitChecks(clock=clock)
    cluster.nodes = [OTHERS]
    checks.placement(connection, role(A100))
    cluster.nodes, clock.now = [PLAIN], LONG
    two = Accelerator(kind="a100", count=2)
    assert checks.placement_of_attempt(connection, role(two)) == (placement(two, 1, None), True)


def test_a_slice_waits_for_its_pool_to_be_recreated(
    cluster: type[Cluster], connection: Connection
) -> None:
    clock = Clock()
    checks = SubmitChecks(clock=clock)
    labels = {GKE_TPU: "tpu-v5-lite-podslice", GKE_TOPOLOGY: "4x4", GKE_POOL: "pool"}
    machine = node({TPU: "4"}, labels)
    tpu_role = role(Accelerator(kind="v5e", count=16), replicas=4)
    cluster.nodes = [machine] * 4
    first = checks.placement(connection, tpu_role)
    for left in (3, 0):
        cluster.nodes = [PLAIN, *[machine] * left]
        clock.now += LONG
        assert checks.placement_of_attempt(connection, tpu_role) == (first, False)
        assert SubmitChecks().placement_of_attempt(connection, tpu_role)[0] == first
