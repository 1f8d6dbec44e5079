"""Several operators, one of which acts, and their ends."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes import client

from harness import eventually
from on_kubernetes.both_backends.backends import new_namespace
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import INSIDE, Gate
from on_kubernetes.operator.operator_process import PASS, Jobs, OperatorProcess, operating
from on_kubernetes.operator.planned_jobs import Births, check_fates, create_fated
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from on_kubernetes.throttling_proxy import Turnstile
from windlass.kube.api.resource_kinds import LEASES, Object
from windlass.operator.leader_election import lease_name

SEED = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.randrange(10**6))


@pytest.fixture
def elsewhere(cluster: Cluster, core: client.CoreV1Api, jobs: Jobs) -> Iterator[Jobs]:
    """The jobs of another namespace."""
    made = new_namespace(cluster, core, f"windlass-test-{secrets.token_hex(4)}")
    yield Jobs(cluster, made)
    made.remove()


@contextmanager
def two_operating(
    cluster: Cluster, namespace: Namespace, kubeconfig: str = ""
) -> Iterator[tuple[OperatorProcess, OperatorProcess]]:
    """One leading operator, perhaps with its own proxy, and one on standby."""
    words = ("--namespace", namespace.name, "--lease-namespace", namespace.name)
    with operating(cluster, *words, kubeconfig=kubeconfig) as first:
        first.wait_leading()
        with operating(cluster, *words) as second:
            eventually(lambda: second.ask("/readyz") == (200, "standing by\n"), "it stands by")
            yield first, second


def test_one_of_two_acts_and_the_other_takes_over_within_15_seconds(
    cluster: Cluster, namespace: Namespace, jobs: Jobs
) -> None:
    with two_operating(cluster, namespace) as (first, second):
        jobs.create("TFJob", "before", Worker=jobs.role(1, PASS))
        assert jobs.ended("TFJob", "before")["type"] == "Succeeded"
        jobs.create("TFJob", "during", Worker=jobs.role(1, "import time; time.sleep(3)"))
        jobs.wait("TFJob", "during", "Created")
        first.kill()
        began = time.monotonic()
        second.wait_leading()
        assert time.monotonic() - began < 15.0
        assert jobs.ended("TFJob", "during")["type"] == "Succeeded"
        assert jobs.attempt("during-worker-0") == 1


def test_a_stopped_operator_lets_the_other_act_at_once(
    cluster: Cluster, namespace: Namespace, jobs: Jobs
) -> None:
    with two_operating(cluster, namespace) as (first, second):
        assert first.stop() == 0
        assert "Stopped. Pods keep running." in first.output
        began = time.monotonic()
        second.wait_leading()
        assert time.monotonic() - began < 5.0


def test_pods_run_without_an_operator_and_the_next_one_continues(
    own_cluster: Cluster, namespace: Namespace, jobs: Jobs, gate: Gate
) -> None:
    die_once = f"""
import os, sys, time
while not os.path.exists("{INSIDE}/go"):
    time.sleep(0.05)
sys.exit(137 if os.environ["WINDLASS_ATTEMPT"] == "1" else 0)
"""
    words = ("--namespace", namespace.name, "--alone")
    with operating(own_cluster, *words):
        role = jobs.role(1, die_once, restartPolicy="ExitCode")
        jobs.create("TFJob", "train", Worker=gate.equip(role))
        jobs.wait("TFJob", "train", "Running")
        uids = jobs.uids()
    gate.create("go")
    jobs.wait_pod("train-worker-0", _has_failed, "runs to its end")
    assert jobs.uids() == uids, "nothing starts again"
    assert jobs.is_remembered("TFJob", "train")
    with operating(own_cluster, *words):
        assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
        assert jobs.attempt("train-worker-0") == 2


def _has_failed(pod: Object | None) -> bool:
    return pod is not None and pod["status"]["phase"] == "Failed"


def falls_silent(proxy: Proxy, turnstile: Turnstile) -> None:
    proxy.hold()
    proxy.cut()


def is_busy_for_long(proxy: Proxy, turnstile: Turnstile) -> None:
    turnstile.refuse(lambda request: request.is_of("leases"), retry_after=60)


@pytest.mark.parametrize("fail", [falls_silent, is_busy_for_long])
@pytest.mark.thorough
def test_an_operator_with_a_slow_api_server_stops_leading_before_another_starts(
    cluster: Cluster, namespace: Namespace, jobs: Jobs, proxy: Proxy, turnstile: Turnstile,
    tmp_path: Path, fail: Callable[[Proxy, Turnstile], None],
) -> None:  # fmt: skip
    way = turnstile if fail is is_busy_for_long else proxy
    with two_operating(cluster, namespace, str(way.kubeconfig(tmp_path))) as (first, second):
        fail(proxy, turnstile)
        eventually(lambda: "leading no more" in first.output, "it gives way")
        assert "leading as" not in second.output, "and did so first"
        second.wait_leading()
        proxy.go_on()


def test_an_operator_reports_its_state(cluster: Cluster, namespace: Namespace, jobs: Jobs) -> None:
    with operating(cluster, "--namespace", namespace.name, "--alone") as process:
        eventually(lambda: process.ask("/readyz")[0] == 200, "it is ready")
        assert process.ask("/healthz") == (200, "ok\n")
        assert process.ask("/nothing")[0] == 404
        jobs.create("TFJob", "train", Worker=jobs.role(1, PASS))
        jobs.ended("TFJob", "train")
        text = process.ask("/metrics")[1]
        assert "windlass_operator_queue_depth 0.0" in text
        assert process.metric("windlass_operator_reconcile_seconds_count") > 0
        assert process.metric("windlass_operator_leader") == 1


def test_operators_of_different_namespaces_do_not_wait_for_each_other(
    cluster: Cluster, jobs: Jobs, elsewhere: Jobs
) -> None:
    """They have one account, and so one namespace for their leases."""
    places, lease = (jobs, elsewhere), ("--lease-namespace", jobs.namespace)
    with (
        operating(cluster, "--namespace", jobs.namespace, *lease) as first,
        operating(cluster, "--namespace", elsewhere.namespace, *lease) as second,
    ):
        for jobs_there, process in zip(places, (first, second), strict=True):
            process.wait_leading()
            name = lease_name([jobs_there.namespace])
            assert f"while it holds the lease {name} in namespace {jobs.namespace}" in (
                process.output
            )
            jobs.connection.request("GET", LEASES.path(jobs.namespace, name))
        for jobs_there in places:
            jobs_there.create("TFJob", "train", Worker=jobs_there.role(1, PASS))
        for jobs_there in places:
            assert jobs_there.ended("TFJob", "train")["type"] == "Succeeded"
        for jobs_there, process in zip(places, (first, second), strict=True):
            assert f'namespace="{jobs_there.namespace}"' in process.ask("/metrics")[1]
            assert "another program changed the stored status" not in process.output


def test_two_operators_of_one_namespace_do_nothing_twice_and_report_each_other(
    cluster: Cluster, jobs: Jobs, elsewhere: Jobs
) -> None:
    """One manages a namespace more than the other, and so has another lease."""
    lease = ("--lease-namespace", jobs.namespace)
    both = ("--namespace", jobs.namespace, "--namespace", elsewhere.namespace)
    with (
        operating(cluster, "--namespace", jobs.namespace, *lease) as narrow,
        operating(cluster, *both, *lease) as wide,
    ):
        narrow.wait_leading()
        wide.wait_leading()
        with Births(jobs) as births:
            names = create_fated(jobs, 5, random.Random(SEED))
            check_fates(jobs, births, names, SEED)
        output = narrow.output + wide.output
        assert f"another operator may manage namespace {jobs.namespace}." in output


def test_a_deleted_job_is_counted_once_by_the_acting_operator_if_it_is_managed(
    cluster: Cluster, jobs: Jobs
) -> None:
    words = ("--namespace", jobs.namespace, "--lease-namespace", jobs.namespace)
    theirs = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}

    def make_and_delete() -> None:
        jobs.create("TFJob", "theirs", spec=theirs, Worker=jobs.role(1, PASS))
        jobs.create("TFJob", "ours", Worker=jobs.role(1, PASS))
        jobs.ended("TFJob", "ours")
        # In this order: an operator that has seen the last deletion has seen the first.
        jobs.delete("TFJob", "theirs")
        jobs.delete("TFJob", "ours")

    with operating(cluster, *words) as first:
        first.wait_leading()
        with operating(cluster, *words) as second:
            eventually(lambda: second.ask("/readyz") == (200, "standing by\n"), "it stands by")
            make_and_delete()
            eventually(lambda: _deleted(first, jobs) == 1, "it is counted")
            first.stop()
            second.wait_leading()
            make_and_delete()
            eventually(lambda: _deleted(second, jobs) > 0, "it is counted")
            assert _deleted(second, jobs) == 1


def _deleted(process: OperatorProcess, jobs: Jobs) -> int:
    """The number of deletions of TFJobs that an operator has counted."""
    name = "windlass_operator_jobs_deleted_total"
    return process.metric(name, namespace=jobs.namespace, kind="TFJob")
