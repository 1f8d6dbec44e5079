"""`make bench-kube`: many jobs at once, on the objects of a cluster alone.

No node runs a pod: the pods name a scheduler that does not exist, and this program changes their
phases. The benchmark measures the operator and the API server. For comparison, the same run also
measures bare creates of the same objects.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from windlass.kube.api.connection import Connection, connect
from windlass.kube.api.resource_kinds import PODS, SERVICES, Object, labels_of, location_of, uid_of
from windlass.kube.api.watch import Watcher
from windlass.model.errors import KubernetesError
from windlass.model.status import ReplicaId
from windlass.operator.install_crds import install
from windlass.operator.job_kinds import TFJOB
from windlass.operator.jobs.from_object import translate
from windlass.operator.names import JOB_NAME
from windlass.operator.pods.builder import make_pod, make_service

AT_ONCE = 4  # the operator's workers, and those who create barely
_NOBODY = "nobody"
_MERGE = "application/merge-patch+json"
_PATIENCE = 1200.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one run."""

    jobs: int
    replicas: int
    bare_creates: float  # seconds
    all_created: float
    all_succeeded: float
    requests_a_job: float
    memory: int  # bytes


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="make bench-kube")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--kubeconfig", default=os.environ.get("WINDLASS_TEST_KUBECONFIG", ""))
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    connection = connect(config_file=options.kubeconfig or None)
    install(connection)
    with _Namespace(connection) as bare:
        bare_creates = _create_barely(connection, bare, options.jobs, options.replicas)
    with _Namespace(connection) as namespace:
        figures = _measure(connection, namespace, options, bare_creates)
    print(_shown(figures))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    return 0


def _shown(figures: Figures) -> str:
    objects = figures.jobs * (1 + 2 * figures.replicas)
    ratio = figures.all_created / figures.bare_creates
    return "\n".join(
        [
            f"{figures.jobs} TFJobs of {figures.replicas} replicas, no kubelet",
            f"  bare creates of the same {objects} objects   {figures.bare_creates:8.1f} s",
            f"  to all created                       {figures.all_created:8.1f} s  ({ratio:.1f} x)",
            f"  to all succeeded                     {figures.all_succeeded:8.1f} s",
            f"  API requests a job                   {figures.requests_a_job:8.1f}",
            f"  memory of the operator               {figures.memory / 1e6:8.0f} MB",
        ]
    )


class _Namespace:
    """A namespace for one measurement, which goes with all in it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name = f"windlass-bench-{secrets.token_hex(4)}"

    def __enter__(self) -> str:
        body = {"metadata": {"name": self._name}}
        self._connection.request("POST", "/api/v1/namespaces", body)
        self._wait_for_account()
        return self._name

    def __exit__(self, *_: object) -> None:
        self._connection.request("DELETE", f"/api/v1/namespaces/{self._name}", {})

    def _wait_for_account(self) -> None:
        """Wait for the default account, since the cluster refuses pods before it exists."""
        path = f"/api/v1/namespaces/{self._name}/serviceaccounts"
        end = time.monotonic() + 60
        while not self._connection.request("GET", path)["items"]:
            if time.monotonic() > end:
                raise TimeoutError(f"{self._name} has no service account")
            time.sleep(0.05)


def _job(namespace: str, number: int, replicas: int) -> Object:
    container = {"name": TFJOB.container, "image": "none:none"}
    template = {"spec": {"schedulerName": _NOBODY, "containers": [container]}}
    return {
        "apiVersion": TFJOB.kind.api_version,
        "kind": TFJOB.name,
        "metadata": {"name": f"job-{number:04}", "namespace": namespace},
        "spec": {
            "successPolicy": "AllWorkers",
            TFJOB.replica_specs: {"Worker": {"replicas": replicas, "template": template}},
        },
    }


def _create_barely(connection: Connection, namespace: str, jobs: int, replicas: int) -> float:
    """Return the seconds that creating all these objects takes."""

    def create(number: int) -> None:
        made = connection.request(
            "POST", TFJOB.kind.path(namespace), _job(namespace, number, replicas)
        )
        made_from = translate(made)
        for index in range(replicas):
            replica = ReplicaId("worker", index, 1)
            service, pod = make_service(made_from, replica), make_pod(made_from, replica)
            connection.request("POST", SERVICES.path(namespace), service)
            connection.request("POST", PODS.path(namespace), pod)

    return _timed(lambda: _in_threads(create, range(jobs)))


def _measure(connection: Connection, namespace: str, options: Any, bare_creates: float) -> Figures:
    operator = _Operator(namespace, options.kubeconfig)
    kubelet = _Kubelet(connection, namespace, options.jobs * options.replicas)
    jobs = _Ends(connection, namespace, options.jobs)
    try:
        before = operator.requests()
        began = time.monotonic()
        _in_threads(
            lambda number: connection.request(
                "POST", TFJOB.kind.path(namespace), _job(namespace, number, options.replicas)
            ),
            range(options.jobs),
        )
        kubelet.wait_all_there()
        all_created = time.monotonic() - began
        kubelet.begin()
        jobs.wait_all_succeeded()
        all_succeeded = time.monotonic() - began
        requests = (operator.requests() - before) / options.jobs
        return Figures(
            jobs=options.jobs, replicas=options.replicas, bare_creates=bare_creates,
            all_created=all_created, all_succeeded=all_succeeded,
            requests_a_job=requests, memory=operator.memory(),
        )  # fmt: skip
    finally:
        kubelet.stop()
        jobs.stop()
        operator.stop()


class _Operator:
    """An operator in a process of its own, as users have it."""

    def __init__(self, namespace: str, kubeconfig: str) -> None:
        command = [
            sys.executable, "-m", "windlass", "operator", "--alone", "--namespace", namespace,
            "--listen", "127.0.0.1:0",
        ]  # fmt: skip
        environment = {**os.environ, "WINDLASS_LOG_LEVEL": "WARNING", "PYTHONUNBUFFERED": "1"}
        if kubeconfig:
            environment["KUBECONFIG"] = kubeconfig
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._url = ""
        while not self._url:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError("the operator did not start")
            found = re.search(r"http://[\d.]+:\d+", line)
            self._url = found[0] if found else ""
        while self._ask("/readyz") != 200:
            time.sleep(0.05)

    def requests(self) -> int:
        with urllib.request.urlopen(f"{self._url}/metrics") as answer:
            text = answer.read().decode()
        return sum(
            int(sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "windlass_operator_api_requests_total"
        )

    def memory(self) -> int:
        import psutil

        return int(psutil.Process(self._process.pid).memory_info().rss)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def _ask(self, path: str) -> int:
        try:
            with urllib.request.urlopen(self._url + path) as answer:
                return int(answer.status)
        except OSError:
            return 0


class _Kubelet:
    """Report pods as running, then as done, in place of a node."""

    def __init__(self, connection: Connection, namespace: str, number: int) -> None:
        self._connection = connection
        self._number = number
        self._all_there = threading.Event()
        self._pods: dict[str, Object] = {}
        self._watcher = Watcher(
            connection, PODS, namespace=namespace, selector=JOB_NAME, on_change=self._changed
        )
        self._watcher.start()
        self._watcher.synced.wait(60)

    def wait_all_there(self) -> None:
        if not self._all_there.wait(_PATIENCE):
            raise TimeoutError(f"only {len(self._pods)} of {self._number} pods are there")

    def begin(self) -> None:
        """Move all of them through their phases."""
        _in_threads(lambda pod: self._say(pod, "Running"), list(self._pods.values()))
        _in_threads(lambda pod: self._say(pod, "Succeeded"), list(self._pods.values()))

    def stop(self) -> None:
        self._watcher.stop()

    def _changed(self, _before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._pods[uid_of(after)] = after
        if len(self._pods) >= self._number:
            self._all_there.set()

    def _say(self, pod: Object, phase: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        state: dict[str, Any] = {"running": {"startedAt": now}}
        if phase == "Succeeded":
            ended = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
            state = {"terminated": ended}
        container = {
            "name": TFJOB.container, "state": state, "image": "none:none", "imageID": "",
            "ready": phase == "Running", "restartCount": 0,
        }  # fmt: skip
        status = {"status": {"phase": phase, "containerStatuses": [container]}}
        path = PODS.path(*location_of(pod), "status")
        try:
            self._connection.request("PATCH", path, status, content_type=_MERGE)
        except KubernetesError as error:
            raise RuntimeError(f"{labels_of(pod)}: {error}") from error


class _Ends:
    """Waits for jobs to have succeeded."""

    def __init__(self, connection: Connection, namespace: str, number: int) -> None:
        self._number = number
        self._done: set[str] = set()
        self._all_done = threading.Event()
        self._watcher = Watcher(
            connection, TFJOB.kind, namespace=namespace, on_change=self._changed
        )
        self._watcher.start()

    def wait_all_succeeded(self) -> None:
        if not self._all_done.wait(_PATIENCE):
            raise TimeoutError(f"only {len(self._done)} of {self._number} jobs succeeded")

    def stop(self) -> None:
        self._watcher.stop()

    def _changed(self, _before: Object | None, after: Object | None) -> None:
        conditions = ((after or {}).get("status") or {}).get("conditions") or ()
        if after and any((c["type"], c["status"]) == ("Succeeded", "True") for c in conditions):
            self._done.add(uid_of(after))
        if len(self._done) >= self._number:
            self._all_done.set()


def _in_threads(act: Callable[[Any], object], what: Iterable[Any]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(act, what))


def _timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
