"""Where the same tests run: this machine, and pods of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

import windlass as wl
from kube.access import Cluster
from kube.pods import Namespace


class Place:
    """A backend, and what jobs that run there say."""

    def __init__(
        self, backend: str, home: Path, *, image: str = "", namespace: Namespace | None = None
    ) -> None:
        self.backend = backend
        self.home = home
        self.namespace = namespace
        self._image = image

    def __repr__(self) -> str:
        return self.backend

    def run(self, function: Callable[..., Any], **options: Any) -> Any:
        """A function that runs here: as `@wl.run(...)` makes one."""
        return wl.run(**{**self.options, **options})(function)

    @property
    def options(self) -> dict[str, Any]:
        """For `@wl.run(...)` of what runs here."""
        there = {"backend": "kubernetes", "container_image": self._image}
        return {"cpus": 0.1, **(there if self.backend == "kubernetes" else {})}

    def executor(self, **asked: Any) -> wl.Local | wl.Kubernetes:
        """Where the jobs of a test run."""
        asked = {"cpus": 0.1, **asked}
        if self.backend == "kubernetes":
            return wl.Kubernetes(container_image=self._image, **asked)
        return wl.Local(**asked)

    def job(self, *argv: str, **more: Any) -> wl.Job:
        """A job that runs a command here."""
        return wl.Job(wl.Command(list(argv)), executor=self.executor(), **more)

    def leftovers(self) -> list[str]:
        """What a trial that is over has left lying in the cluster."""
        return [each.metadata.name for each in self.objects()]

    def objects(self) -> list[Any]:
        """What trials have in the cluster now; nothing where there is none."""
        if self.namespace is None:
            return []
        core = self.namespace.core
        selector = {"label_selector": "app.kubernetes.io/managed-by=windlass"}
        return [
            *core.list_namespaced_pod(self.namespace.name, **selector).items,
            *core.list_namespaced_service(self.namespace.name, **selector).items,
            *core.list_namespaced_secret(self.namespace.name, **selector).items,
        ]


def kubeconfig_for(cluster: Cluster, namespace: str, folder: Path) -> Path:
    """The cluster's kubeconfig, with that namespace as the one that is meant."""
    settings = yaml.safe_load(cluster.kubeconfig.read_text())
    for each in settings["contexts"]:
        each["context"]["namespace"] = namespace
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(settings))
    return path


def new_namespace(cluster: Cluster, core: client.CoreV1Api, name: str) -> Namespace:
    """A namespace for the tests of a file."""
    made = Namespace(core, name, image=cluster.image)
    made.create()
    return made
