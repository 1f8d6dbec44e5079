"""Pods of tests: created from a few arguments, awaited, read."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from harness import eventually
from on_kubernetes.pod_mounts import Mounts


class Namespace:
    """A namespace of one test."""

    def __init__(self, core: client.CoreV1Api, name: str, *, image: str) -> None:
        self.core = core
        self.name = name
        self._image = image

    def create(self) -> None:
        """Create the namespace, and return when it accepts pods."""
        self.core.create_namespace({"metadata": {"name": self.name}})
        eventually(self._takes_pods, f"{self.name} takes pods")

    def remove(self) -> None:
        """Delete the namespace with everything in it. Pods are killed without a grace period."""
        now = client.V1DeleteOptions(grace_period_seconds=0)
        self.core.delete_collection_namespaced_pod(self.name, body=now)
        self.core.delete_namespace(self.name)

    def pod(
        self,
        name: str,
        *command: str,
        mounts: Mounts | None = None,
        labels: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        resources: dict[str, str] | None = None,
        **spec: Any,
    ) -> client.V1Pod:
        """Create a pod of one container that runs a command; `spec` has further fields.

        `namespace.pod("hello", "python3", "-c", "print(1)", hostname="worker-0")`
        """
        mounts = mounts or Mounts()
        variables = {**mounts.env, **(env or {})}
        container = {
            "name": "main",
            "image": self._image,
            "command": list(command),
            "env": [{"name": key, "value": value} for key, value in variables.items()],
            "volumeMounts": mounts.places,
            "resources": {"limits": resources or {}},
        }
        body = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                "volumes": mounts.volumes,
                **spec,
            },
        }
        return self.core.create_namespaced_pod(self.name, body)

    def python(self, name: str, program: str, **more: Any) -> client.V1Pod:
        """Create a pod that runs Python code; see `pod`."""
        return self.pod(name, "python3", "-u", "-c", program, **more)

    def output(self, name: str) -> str:
        """Wait for the success of a pod and return its output."""
        eventually(lambda: self.phase(name) in ("Succeeded", "Failed"), f"{name} ends")
        lines = self.logs(name)
        assert self.phase(name) == "Succeeded", lines
        return lines

    def logs(self, name: str) -> str:
        """The output of a pod so far."""
        # The client would decode a line of JSON as an object.
        answer = self.core.read_namespaced_pod_log(name, self.name, _preload_content=False)
        return str(answer.data.decode())

    def phase(self, name: str) -> str:
        """Pending, Running, Succeeded, Failed or Unknown."""
        return str(self.core.read_namespaced_pod_status(name, self.name).status.phase)

    def wait_running(self, name: str) -> None:
        """Return when the pod runs."""
        eventually(lambda: self.phase(name) == "Running", f"{name} runs")

    def address(self, name: str) -> str:
        """The address of a running pod."""
        self.wait_running(name)
        return str(self.core.read_namespaced_pod(name, self.name).status.pod_ip)

    def is_gone(self, name: str) -> bool:
        """Return whether no pod of that name exists."""
        pods = self.core.list_namespaced_pod(self.name, field_selector=f"metadata.name={name}")
        return not pods.items

    def _takes_pods(self) -> bool:
        # Not before its service account exists, and in older clusters that account's token.
        container = {"name": "main", "image": self._image}
        trial = {"metadata": {"name": "trial"}, "spec": {"containers": [container]}}
        try:
            self.core.create_namespaced_pod(self.name, trial, dry_run="All")
        except client.ApiException as error:
            if error.status in (403, 500):
                return False
            raise
        return True


def is_node_ready(core: client.CoreV1Api) -> bool:
    """Return whether the cluster of `make kube` has a node that accepts pods."""
    conditions = [
        condition for node in core.list_node().items for condition in node.status.conditions or ()
    ]
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)
