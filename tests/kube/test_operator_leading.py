"""Several operators, one of which acts; and how one of them ends."""

from __future__ import annotations

import time

from harness import eventually
from kube.access import Cluster
from kube.operating import Jobs, operating
from kube.pods import Namespace

PASS = "pass"


def test_of_two_one_acts_and_the_other_takes_over_within_15_seconds(
    cluster: Cluster, namespace: Namespace, jobs: Jobs
) -> None:
    words = ("--namespace", namespace.name, "--lease-namespace", namespace.name)
    with operating(cluster, *words) as first:
        first.wait_leading()
        with operating(cluster, *words) as second:
            eventually(lambda: second.ask("/readyz") == (200, "standing by\n"), "it stands by")
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


def test_one_that_is_told_to_stop_lets_the_other_act_at_once(
    cluster: Cluster, namespace: Namespace, jobs: Jobs
) -> None:
    words = ("--namespace", namespace.name, "--lease-namespace", namespace.name)
    with operating(cluster, *words) as first:
        first.wait_leading()
        with operating(cluster, *words) as second:
            eventually(lambda: second.ask("/readyz") == (200, "standing by\n"), "it stands by")
            assert first.stop() == 0
            assert "Stopped. Pods run on." in first.output
            began = time.monotonic()
            second.wait_leading()
            assert time.monotonic() - began < 5.0


def test_an_operator_says_how_it_is(cluster: Cluster, namespace: Namespace, jobs: Jobs) -> None:
    with operating(cluster, "--namespace", namespace.name, "--alone") as process:
        eventually(lambda: process.ask("/readyz")[0] == 200, "it is ready")
        assert process.ask("/healthz") == (200, "ok\n")
        assert process.ask("/nothing")[0] == 404
        jobs.create("TFJob", "train", Worker=jobs.role(1, PASS))
        jobs.ended("TFJob", "train")
        text = process.ask("/metrics")[1]
        assert "windlass_operator_queue_depth 0" in text
        assert "windlass_operator_reconcile_seconds_count" in text
        assert "windlass_operator_leader 1" in text
