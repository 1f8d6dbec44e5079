"""The backends that can run jobs, and their capabilities.

The table is plain data, so that it loads quickly in programs that only describe jobs. The code that
runs jobs is in `runtimes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LOCAL, KUBERNETES = "local", "kubernetes"


class Capabilities(NamedTuple):
    """The properties of a backend that matter to the client and the server."""

    # Processes run on the server's machine, use its files and interpreters, and share its capacity.
    runs_on_server: bool = False
    has_priority: bool = False  # the server's queue orders jobs by priority
    executor: str = ""  # the `wl` class that selects the backend
    executor_options: tuple[str, ...] = ()  # options other than cpus, memory and accelerator
    # Options of `@wl.run` that this backend rejects, each with the reason and a remedy.
    refused_options: Mapping[str, str] = {}


BACKENDS: Mapping[str, Capabilities] = {
    LOCAL: Capabilities(
        runs_on_server=True,
        has_priority=True,
        executor="Local",
        refused_options={
            "container_image": "runs plain processes, not containers\n"
            "Remove container_image, and list the required packages in packages=.",
            "cluster": "has no clusters; it is one machine\nRemove cluster.",
            "spot": "has no spot machines\nRemove spot.",
        },
    ),
    KUBERNETES: Capabilities(
        executor="Kubernetes",
        executor_options=(
            "container_image", "image_pull_secrets", "namespace", "node_selector", "pod_patch",
            "priority_class", "queue", "service_account", "tolerations",
        ),
        refused_options={
            "cluster": "has no clusters to choose from\nRemove cluster.",
            "spot": "has no spot option\n"
            "Select nodes in a wl.Job: executor=wl.Kubernetes(node_selector=...)",
        },
    ),
}  # fmt: skip
_UNKNOWN = Capabilities()


def capabilities_of(backend: str) -> Capabilities:
    """Return a backend's capabilities.

    A newer server may have recorded a backend that this version does not know. Windlass then
    assumes only that its jobs run on another machine, and a server refuses to run them.

    >>> capabilities_of("local").runs_on_server, capabilities_of("moon").runs_on_server
    (True, False)
    """
    return BACKENDS.get(backend, _UNKNOWN)
