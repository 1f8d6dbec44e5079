"""Executors: the backend and resources of a job's replicas.

They are plain values with the same names for the same things, so that a script moves by changing
one. What no server has yet is refused when a job is submitted. All roles of a job run in one place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from windlass.authoring.checks.options import suggest_fields
from windlass.model.backends import KUBERNETES, LOCAL


@suggest_fields
@dataclass(frozen=True)
class Local:
    """This machine, or the server's: plain processes, with room set aside for each replica.

    ```python
    wl.Local(cpus=2, memory="4GB")
    wl.Local(accelerator="a100x2")
    ```

    Args:
        cpus: how many CPUs are set aside for a replica (1).
        memory: how much memory is set aside for it: `"16GB"`.
        accelerator: what it computes on: `"a100"`, `"a100x2"`, `"gpu"`, `"cpu"`.
    """

    backend: ClassVar = LOCAL
    cpus: float | None = None
    memory: str | int | None = None
    accelerator: str | None = None


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Kubernetes:
    """A Kubernetes cluster: a pod for each replica. Nothing needs installing there.

    ```python
    wl.Kubernetes(namespace="research", accelerator="a100x8", container_image="lab/train:7")
    wl.Kubernetes(cpus=4, volumes={"/data": "claim:datasets/imagenet:ro"}, queue="team-a")
    ```

    Args:
        namespace: where the pods are made (the server's own). All roles of a job share it.
        cpus: how many CPUs a replica asks for (1).
        memory: how much memory it asks for: `"16GB"`.
        accelerator: what it computes on: `"a100"`, `"a100x2"`, `"gpu"`, `"cpu"`.
        container_image: the image it runs in, which has a Python (one that has little else).
        node_selector: labels that its node must have.
        tolerations: taints of nodes that it puts up with, as the API of Kubernetes writes them.
        service_account: the account that its pod runs as.
        queue: the queue it waits in, where jobs are queued by Kueue.
        priority_class: the priority class of its pod.
        volumes: what it sees beyond the code, by path: `"claim:NAME"`, `"claim:NAME/FOLDER"`,
            `"config:NAME"`, `"secret:NAME"`, `"host:/PATH"`, `"scratch:10GB"`, `"memory:2GB"`;
            with `:ro` at its end it cannot be written to.
        image_pull_secrets: the names of the secrets that open the image's registry.
        pod_patch: what is laid over the pod's specification, as a last resort. Lists of named
            things are merged by their names, `None` takes something away.
    """

    backend: ClassVar = KUBERNETES
    namespace: str | None = None
    cpus: float | None = None
    memory: str | int | None = None
    accelerator: str | None = None
    container_image: str | None = None
    node_selector: Mapping[str, str] | None = None
    tolerations: Sequence[Mapping[str, Any]] | None = None
    service_account: str | None = None
    queue: str | None = None
    priority_class: str | None = None
    volumes: Mapping[str, str | os.PathLike[str]] | None = None
    image_pull_secrets: Sequence[str] | None = None
    pod_patch: Mapping[str, Any] | None = None


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Ray:
    """A Ray cluster: an actor for each replica. No server has it yet: a job there is refused.

    ```python
    wl.Ray(cluster="ray://head:10001", cpus=4)
    ```

    Args:
        cluster: the address of the cluster.
        cpus: how many CPUs a replica asks for (1).
        memory: how much memory it asks for: `"16GB"`.
        accelerator: what it computes on: `"a100"`, `"a100x2"`, `"gpu"`, `"cpu"`.
    """

    backend: ClassVar = "ray"
    cluster: str | None = None
    cpus: float | None = None
    memory: str | int | None = None
    accelerator: str | None = None


Executor = Local | Kubernetes | Ray
EXECUTORS: Mapping[str, type[Local] | type[Kubernetes]] = {  # by backend
    LOCAL: Local,
    KUBERNETES: Kubernetes,
}
