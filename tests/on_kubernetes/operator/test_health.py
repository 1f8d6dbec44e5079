"""Health and readiness of an operator, and the responses of an unhealthy one."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import eventually, windlass
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs, operating
from on_kubernetes.proxies import Proxy
from windlass.kube.api.connection import connect
from windlass.operator.liveness import LONGEST_INACTIVITY
from windlass.operator.operator import Operator


class Running:
    """An operator in this process, with a settable clock."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.ahead = 0.0
        self.operator = Operator(
            connect(config_file=str(kubeconfig)), [namespace], identity="test",
            clock=lambda: time.monotonic() + self.ahead,
        )  # fmt: skip

    def ask(self, path: str) -> tuple[int, str]:
        try:
            url = f"http://127.0.0.1:{self.operator.port}{path}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@contextmanager
def running(kubeconfig: Path, namespace: str) -> Iterator[Running]:
    made, stop = Running(kubeconfig, namespace), threading.Event()
    thread = threading.Thread(target=made.operator.run, args=(stop,))
    thread.start()
    try:
        yield made
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def test_an_operator_is_not_ready_before_it_has_read_all_lists(
    own_cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    with Proxy(own_cluster) as proxy:
        proxy.hold()
        with running(proxy.kubeconfig(tmp_path), jobs.namespace) as process:
            eventually(lambda: process.ask("/readyz")[0] == 503, "it answers")
            status, response = process.ask("/readyz")
            assert status == 503
            assert f"tfjobs in namespace {jobs.namespace}" in response
            assert process.ask("/healthz") == (200, "ok\n")  # it waits, and is healthy
            proxy.go_on()
            eventually(lambda: process.ask("/readyz") == (200, "leading\n"), "it is ready")
            # Without a connection it is healthy, and reports the kinds that it cannot watch.
            proxy.hold()
            proxy.cut()
            eventually(lambda: "cannot watch" in process.ask("/readyz")[1], "it says so")
            assert process.ask("/healthz") == (200, "ok\n")
            proxy.go_on()
            eventually(lambda: process.ask("/readyz") == (200, "leading\n"), "it is ready again")


def test_a_watch_without_news_for_far_too_long_is_unhealthy(cluster: Cluster, jobs: Jobs) -> None:
    with running(cluster.kubeconfig, jobs.namespace) as process:
        eventually(lambda: process.ask("/readyz")[0] == 200, "it is ready")
        assert process.ask("/healthz") == (200, "ok\n")
        process.ahead += LONGEST_INACTIVITY + 60
        status, response = process.ask("/healthz")
        assert status == 503
        assert f"in namespace {jobs.namespace} has been silent for 3" in response
        for cache in (process.operator.jobs.cache, process.operator.pods.cache):
            for watcher in cache.watchers:
                watcher.cut()  # they start again, and receive news
        eventually(lambda: process.ask("/healthz") == (200, "ok\n"), "it is well again")


@pytest.mark.thorough
def test_a_stuck_watch_is_unhealthy(cluster: Cluster, jobs: Jobs) -> None:
    is_stuck, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        is_stuck.set()
        go_on.wait(60)

    with running(cluster.kubeconfig, jobs.namespace) as process:
        jobs.create("TFJob", "first", Worker=jobs.role(1, "pass"))
        eventually(lambda: "first-worker-0" in jobs.pods(), "it looks after jobs")
        process.operator.jobs.watch(lambda _uid: wait())  # its callback does not return
        jobs.create("TFJob", "train", Worker=jobs.role(1, "pass"))
        assert is_stuck.wait(60)
        process.ahead += LONGEST_INACTIVITY + 60
        status, response = process.ask("/healthz")
        assert (status, response.split(" in ")[0]) == (503, "the watch of tfjobs")
        go_on.set()


def test_a_dead_worker_is_unhealthy(cluster: Cluster, jobs: Jobs) -> None:
    words = ("--namespace", jobs.namespace, "--alone")
    with operating(cluster, *words, rig="lose-worker") as process:
        process.wait_leading()
        assert process.ask("/healthz") == (200, "ok\n")
        jobs.create("TFJob", "train", Worker=jobs.role(1, "pass"))
        wanted = (503, "the reconcile loop has died\n")
        eventually(lambda: process.ask("/healthz") == wanted, "it says so")


def test_an_unusable_address_is_reported_in_one_line(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = windlass(
            "operator", "--alone", "--listen", f"127.0.0.1:{port}",
            env={"KUBECONFIG": str(cluster.kubeconfig)},
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    message = f"The operator cannot listen at 127.0.0.1:{port}: Address already in use."
    assert message in done.stderr and "Traceback" not in done.stderr
