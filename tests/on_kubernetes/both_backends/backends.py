"""The backends of the shared tests: this machine, and pods of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

import windlass as wl
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace


class Backend:
    """A backend on which a test runs, with the options of jobs for that backend."""

    def __init__(
        self, name: str, home: Path, *, image: str = "", namespace: Namespace | None = None
    ) -> None:
        self.name = name
        self.home = home
        self.namespace = namespace
        self._image = image

    def __repr__(self) -> str:
        return self.name

    def run(self, function: Callable[..., Any], **options: Any) -> Any:
        """Decorate a function like `@wl.run(...)`, for this backend."""
        return wl.run(**{**self.options, **options})(function)

    @property
    def options(self) -> dict[str, Any]:
        """The options of `@wl.run(...)` for this backend."""
        there = {"backend": "kubernetes", "container_image": self._image}
        return {"cpus": 0.1, **(there if self.name == "kubernetes" else {})}

    def executor(self, **options: Any) -> wl.Local | wl.Kubernetes:
        """The executor of jobs on this backend."""
        options = {"cpus": 0.1, **options}
        if self.name == "kubernetes":
            return wl.Kubernetes(container_image=self._image, **options)
        return wl.Local(**options)

    def job(self, *argv: str, **more: Any) -> wl.Job:
        """A job that runs a command on this backend."""
        return wl.Job(wl.Command(list(argv)), executor=self.executor(), **more)

    def leftovers(self) -> list[str]:
        """The objects of finished trials that are left in the cluster."""
        return [item.metadata.name for item in self.objects()]

    def objects(self) -> list[Any]:
        """The current objects of trials in the cluster, or nothing without a cluster."""
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
    """The cluster's kubeconfig with that namespace as the default."""
    settings = yaml.safe_load(cluster.kubeconfig.read_text())
    for context in settings["contexts"]:
        context["context"]["namespace"] = namespace
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(settings))
    return path


def new_namespace(cluster: Cluster, core: client.CoreV1Api, name: str) -> Namespace:
    """A namespace for the tests of a file."""
    made = Namespace(core, name, image=cluster.image)
    made.create()
    return made
