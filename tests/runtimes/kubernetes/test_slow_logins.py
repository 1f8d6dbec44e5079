"""Slow or hanging connections do not block the reconciliation of jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from kube.kubeconfig_files import write_kubeconfig
from windlass.home import Home
from windlass.kube.api.connection import Connection, connect
from windlass.model.job import Assignment, Job, JobSpec, ProcessCall, Role
from windlass.model.kubernetes.job_options import KubernetesOptions
from windlass.model.status import ReplicaId
from windlass.runtimes.kubernetes import cluster_view
from windlass.runtimes.kubernetes.runtime import KubernetesRuntime
from windlass.runtimes.kubernetes.server_context import KubernetesContext

SHORT = 20.0  # seconds: far less than a login takes here, or than all would wait one after another
FIRST = ReplicaId("main", 0, 1)


class Login:
    """A login that hangs until a test ends it."""

    def __init__(self, folder: Path) -> None:
        self.times = 0
        self.error: Exception | None = None
        self._file = write_kubeconfig(folder / "config", "lab", server="https://127.0.0.1:1")
        self._home = Home(folder / "home")
        self._ends = threading.Event()

    def connect(self) -> Connection:
        self.times += 1
        assert self._ends.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        return connect(config_file=str(self._file), home=self._home)

    def settings(self) -> int:
        return self._file.stat().st_mtime_ns

    def end(self) -> None:
        self._ends.set()

    def hang_again(self) -> None:
        self._ends.clear()
        self.touch()

    def touch(self) -> None:
        self._file.touch()


@pytest.fixture
def login(tmp_path: Path) -> Login:
    return Login(tmp_path)


@pytest.fixture
def runtime(login: Login, tmp_path: Path) -> Iterator[KubernetesRuntime]:
    around = KubernetesContext(
        connect=login.connect,
        settings=login.settings,
        worker=lambda: b"",
        token_for=lambda _uid: "",
        urls=list,
        url=lambda: "http://127.0.0.1:1",
    )
    made = KubernetesRuntime(tmp_path / "home", around)
    yield made
    login.end()
    made.close()


def a_job(number: int, namespace: str = "", replicas: int = 1) -> Job:
    role = Role(
        name="main",
        executable=ProcessCall(argv=("true",)),
        replicas=replicas,
        kubernetes=KubernetesOptions(namespace=namespace),
    )
    return Job(
        uid=f"{number:032x}", trial_id=number, spec=JobSpec(roles=(role,), backend="kubernetes")
    )


def test_reconciles_do_not_wait_for_a_pending_connection(
    runtime: KubernetesRuntime, login: Login
) -> None:
    jobs = [a_job(number, "lab") for number in range(1, 20)]
    began = time.monotonic()
    for job in jobs:
        runtime.create(job, FIRST, Assignment())
        assert len(runtime.list(job)) == 1
        runtime.delete(job, FIRST, 1.0)
        runtime.give_up(job.uid)
    assert time.monotonic() - began < SHORT
    eventually(lambda: login.times == 1, "it is being made")


def test_an_unnamed_namespace_is_awaited_for_seconds_by_all_callers_together(
    runtime: KubernetesRuntime, login: Login
) -> None:
    began = time.monotonic()
    for number in range(1, 20):
        with pytest.raises(wl.KubernetesError, match="no connection to the cluster yet"):
            runtime.create(a_job(number), FIRST, Assignment())
        with pytest.raises(wl.KubernetesError, match="no connection to the cluster yet"):
            runtime.addresses(a_job(number, replicas=2), {})
    assert time.monotonic() - began < SHORT
    assert login.times == 1


def test_a_failed_login_is_reported_to_callers_that_cannot_wait(
    runtime: KubernetesRuntime, login: Login
) -> None:
    login.error = wl.KubernetesError("the program is gone")
    login.end()
    with pytest.raises(wl.KubernetesError, match="the program is gone"):
        runtime.create(a_job(1), FIRST, Assignment())
    login.hang_again()
    began = time.monotonic()
    for number in range(1, 20):
        with pytest.raises(wl.KubernetesError, match="the program is gone"):
            runtime.create(a_job(number), FIRST, Assignment())
    assert time.monotonic() - began < SHORT


def test_addresses_are_assigned_while_another_login_is_pending(
    runtime: KubernetesRuntime, login: Login
) -> None:
    login.end()
    with pytest.raises(wl.KubernetesError, match="refused"):  # the login is done; nothing listens
        runtime.validate(a_job(1).spec)
    login.hang_again()
    began = time.monotonic()
    for number in range(2, 20):
        addresses = runtime.addresses(a_job(number, replicas=2), {})
        assert ".of-lab" in addresses["main-0"]
    assert time.monotonic() - began < SHORT


def test_callers_that_can_wait_get_the_connection_or_the_error(
    runtime: KubernetesRuntime, login: Login
) -> None:
    login.error = wl.KubernetesError("the program is gone")
    with ThreadPoolExecutor(4) as askers:
        futures = [askers.submit(runtime.validate, a_job(1).spec) for _ in range(4)]
        eventually(lambda: login.times == 1, "it is being made")
        login.end()
        assert {str(future.exception(timeout=PATIENCE)) for future in futures} == {
            "the program is gone"
        }


def test_callers_that_queue_for_a_slow_login_fail_together(
    runtime: KubernetesRuntime, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_view, "_SHARED", PATIENCE)  # all of them arrive in that time
    login.error = wl.KubernetesError("the program is gone")
    with ThreadPoolExecutor(1) as asker:
        futures = [asker.submit(runtime.validate, a_job(1).spec) for _ in range(8)]
        eventually(lambda: login.times == 1, "it is being made")
        threading.Timer(cluster_view._SOON + 0.5, login.end).start()  # longer than usual
        assert {str(future.exception(timeout=PATIENCE)) for future in futures} == {
            "the program is gone"
        }
    assert login.times == 1


def test_a_changed_login_does_not_share_the_slow_failure_of_the_previous_one(
    runtime: KubernetesRuntime, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_view, "_SHARED", PATIENCE)
    monkeypatch.setattr(cluster_view, "_SOON", 0.0)  # every failure counts as slow
    login.error = wl.KubernetesError("the program is gone")
    login.end()
    for _ in range(2):
        with pytest.raises(wl.KubernetesError, match="the program is gone"):
            runtime.validate(a_job(1).spec)
    assert login.times == 1, "the second request shares the failure of the first"
    login.error = wl.KubernetesError("another program is gone")
    login.touch()
    with pytest.raises(wl.KubernetesError, match="another program is gone"):
        runtime.validate(a_job(1).spec)
