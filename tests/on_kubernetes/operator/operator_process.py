"""Operators and their jobs, for tests on real pods."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

import warm_interpreter
from harness import BIN, PATIENCE, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.kill_container import kill_container
from on_kubernetes.pods import Namespace
from windlass.kube.api.connection import Connection, connect
from windlass.kube.api.resource_kinds import EVENTS, PODS, SERVICES, Kind, Object
from windlass.model.errors import KubernetesError
from windlass.operator.job_kinds import BY_NAME
from windlass.operator.names import MEMORY

Role = dict[str, Any]
RIGGED = Path(__file__).parents[2] / "support" / "operator_with_faults.py"
MERGE = "application/merge-patch+json"
# A container's first process ignores SIGTERM unless it handles the signal: the kubelet would wait
# two seconds and kill it.
SLEEP = (
    "import os, signal, time; signal.signal(signal.SIGTERM, lambda *_: os._exit(143)); "
    "time.sleep(1000)"
)
PASS = "pass"


class OperatorProcess:
    """A process of `windlass operator` with its stored output."""

    def __init__(self, cluster: Cluster, *words: str, kubeconfig: str = "", rig: str = "") -> None:
        self.lines: list[str] = []
        environment = {
            **os.environ,
            "KUBECONFIG": kubeconfig or str(cluster.kubeconfig),
            "PYTHONUNBUFFERED": "1",
        }
        program = [str(BIN / "windlass")]
        if rig:  # see operator_with_faults.py
            program = [sys.executable, str(RIGGED)]
            environment["WINDLASS_RIG"] = rig
        command = [*program, "operator", "--listen", "127.0.0.1:0", *words]
        reader, writer = os.pipe()
        # Dozens of operators start, and their imports would take most of a start.
        self._process = warm_interpreter.start(
            command, cwd=Path.cwd(), env=environment, output=writer
        )
        os.close(writer)
        self._reader = threading.Thread(target=self._read, args=(reader,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def url(self) -> str:
        """The address of its health server, once it prints it."""
        addresses: list[str] = []

        def is_reported() -> bool:
            assert self._process.poll() is None, self.output
            addresses[:] = re.findall(r"metrics: (http://127\.0\.0\.1:\d+)", self.output)
            return bool(addresses)

        eventually(is_reported, "the operator says where it listens")
        return addresses[0]

    def ask(self, path: str) -> tuple[int, str]:
        """The response of its health server."""
        try:
            with urllib.request.urlopen(self.url() + path, timeout=10) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> int:
        """The value of a sample of `/metrics`, or 0."""
        return sum(
            int(sample.value)
            for family in text_string_to_metric_families(self.ask("/metrics")[1])
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def wait_leading(self) -> None:
        eventually(lambda: self.ask("/readyz") == (200, "leading\n"), f"it leads: {self.output}")

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        try:
            code = self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end; it said: {self.output}") from None
        self._reader.join(10)
        return code

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self.wait()

    def stop(self) -> int:
        """Stop the process and return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def _read(self, output: int) -> None:
        with open(output) as lines:
            self.lines.extend(lines)


@contextmanager
def operating(cluster: Cluster, *words: str, **more: Any) -> Iterator[OperatorProcess]:
    """An operator for the duration of the block."""
    process = OperatorProcess(cluster, *words, **more)
    try:
        yield process
    finally:
        code = process.stop()
        # pytest shows it if the test fails
        sys.stderr.write(f"{process.output}It exited with {code}.\n")


class Jobs:
    """The TFJobs and PyTorchJobs of a namespace."""

    def __init__(self, cluster: Cluster, namespace: Namespace) -> None:
        self.connection: Connection = connect(config_file=str(cluster.kubeconfig))
        self.namespace = namespace.name
        self._image = cluster.image

    def role(self, number: int, program: str, **fields: Any) -> Role:
        """This many replicas of a Python program, with the right name of the container."""
        container = {
            "image": self._image,
            "command": ["python3", "-u", "-c", program],
            **fields.pop("container", {}),
        }
        pod = {
            "terminationGracePeriodSeconds": 1,
            "containers": [container, *fields.pop("beside", ())],
            **fields.pop("pod", {}),
        }
        return {"replicas": number, "template": {"spec": pod}, **fields}

    def body(
        self, kind: str, name: str, *, spec: dict[str, Any] | None = None, **roles: Role
    ) -> Any:
        """A complete object to create."""
        job_kind = BY_NAME[kind]
        for role in roles.values():
            role["template"]["spec"]["containers"][0].setdefault("name", job_kind.container)
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {job_kind.replica_specs: roles, **(spec or {})},
        }

    def create(self, kind: str, name: str, **more: Any) -> Object:
        """Create an object; see `body`."""
        body = self.body(kind, name, **more)
        made: Object = self.connection.request(
            "POST", BY_NAME[kind].kind.path(self.namespace), body
        )
        return made

    def get(self, kind: str, name: str) -> Object | None:
        return self._read(BY_NAME[kind].kind, name)

    def patch(self, kind: str, name: str, change: dict[str, Any]) -> None:
        self.connection.request(
            "PATCH", BY_NAME[kind].kind.path(self.namespace, name), change,
            content_type=MERGE,
        )  # fmt: skip

    def delete(self, kind: str, name: str) -> None:
        self.connection.request("DELETE", BY_NAME[kind].kind.path(self.namespace, name), {})

    def conditions(self, kind: str, name: str) -> dict[str, Any]:
        """The true conditions of a job, by type."""
        conditions = (self.get(kind, name) or {}).get("status", {}).get("conditions") or ()
        return {
            condition["type"]: condition
            for condition in conditions
            if condition["status"] == "True"
        }

    def wait(self, kind: str, name: str, *types: str, patience: float = PATIENCE) -> dict[str, Any]:
        """Wait for the first of some conditions."""
        statuses: dict[str, Any] = {}

        def holds() -> bool:
            held = self.conditions(kind, name)
            statuses.update(next((held[kind] for kind in types if kind in held), {}))
            return bool(statuses)

        try:
            eventually(holds, f"{name} is {' or '.join(types)}", patience=patience)
        except AssertionError as error:
            pods = {name: pod["status"] for name, pod in self.pods().items()}
            seen = (self.get(kind, name), pods, self.events(name))
            raise AssertionError("\n".join(map(str, (error, *seen)))) from None
        return statuses

    def ended(self, kind: str, name: str) -> dict[str, Any]:
        """Wait for the end of a job and return it."""
        return self.wait(kind, name, "Succeeded", "Failed")

    def is_settled(self, kind: str, name: str) -> bool:
        """Return whether the stored state of a job is settled."""
        metadata = (self.get(kind, name) or {}).get("metadata") or {}
        return '"settled":true' in (metadata.get("annotations") or {}).get(MEMORY, "")

    def is_remembered(self, kind: str, name: str) -> bool:
        """Return whether an operator has stored state on the object of a job."""
        metadata = (self.get(kind, name) or {}).get("metadata") or {}
        return MEMORY in (metadata.get("annotations") or {})

    def pods(self) -> dict[str, Object]:
        return self._all(PODS)

    def pod(self, name: str) -> Object | None:
        return self._read(PODS, name)

    def services(self) -> dict[str, Object]:
        return {
            name: service for name, service in self._all(SERVICES).items() if name != "kubernetes"
        }

    def events(self, name: str) -> list[str]:
        """The events of an object: "reason: message"."""
        events = self.connection.request("GET", EVENTS.path(self.namespace))["items"]
        return [
            f"{event['reason']}: {event['message']}"
            for event in events
            if event["involvedObject"].get("name") == name
        ]

    def wait_event(self, name: str, *texts: str) -> None:
        """Wait for an event of an object. An event of several replicas occurs once."""
        eventually(
            lambda: any(all(text in event for text in texts) for event in self.events(name)),
            f"{name}: {texts} is told",
        )

    def wait_pod(self, name: str, holds: Callable[[Object | None], bool], what: str) -> None:
        eventually(lambda: holds(self.pod(name)), f"{name} {what}")

    def wait_running(self, *names: str) -> None:
        for name in names:
            self.wait_pod(name, lambda pod: _phase(pod) == "Running", "runs")

    def wait_nothing_left(self) -> None:
        eventually(lambda: not self.pods() and not self.services(), "nothing is left")

    def logs(self, name: str) -> str:
        path = PODS.path(self.namespace, name, "log")
        return str(self.connection.open("GET", path).read().decode())

    def has_printed(self, name: str, text: str) -> bool:
        """Return whether a running pod has printed a text."""
        return _phase(self.pod(name)) == "Running" and text in self.logs(name)

    def kill(self, name: str) -> None:
        """Kill the program of a running pod from outside of its container."""
        [container] = (self.pod(name) or {})["status"]["containerStatuses"]
        kill_container(container["containerID"])

    def uids(self) -> dict[str, str]:
        """The uids of pods by name, which differ for a replaced pod."""
        return {name: str(pod["metadata"]["uid"]) for name, pod in self.pods().items()}

    def attempt(self, name: str) -> int:
        """The attempt of a pod, or 0."""
        pod = self.pod(name)
        return 0 if pod is None else int(pod["metadata"]["labels"]["windlass.dev/attempt"])

    def _all(self, kind: Kind) -> dict[str, Object]:
        objects = self.connection.request("GET", kind.path(self.namespace))["items"]
        return {manifest["metadata"]["name"]: manifest for manifest in objects}

    def _read(self, kind: Kind, name: str) -> Object | None:
        try:
            stored: Object = self.connection.request("GET", kind.path(self.namespace, name))
        except KubernetesError as error:
            if error.status != 404:
                raise
            return None
        return stored


def _phase(pod: Object | None) -> str:
    return "" if pod is None else str(pod["status"].get("phase", ""))
