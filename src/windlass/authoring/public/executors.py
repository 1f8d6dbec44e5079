"""Executors: the backend and resources of a job's replicas.

Executors are plain values with the same field names, so changing the executor moves a script to
another backend. Submission refuses executors that no server supports yet. All roles of a job run on
the same backend.
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
    """This machine, or the server's: plain processes, with capacity reserved for each replica.

    ```python
    wl.Local(cpus=2, memory="4GB")
    wl.Local(accelerator="a100x2")
    ```

    Args:
        cpus: the CPUs to reserve for a replica (1).
        memory: the memory to reserve for a replica: `"16GB"`.
        accelerator: the accelerators of a replica: `"a100"`, `"a100x2"`, `"gpu"`, `"cpu"`.
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
        namespace: the namespace of the pods (the server's own). All roles of a job share it.
        cpus: the CPUs that a replica requests (1).
        memory: the memory that a replica requests: `"16GB"`.
        accelerator: the accelerators of a replica: `"a100"`, `"a100x2"`, `"gpu"`, `"cpu"`.
        container_image: the image it runs in, with a Python in it (a small Python image).
        node_selector: labels that its node must have.
        tolerations: taints of nodes that it tolerates, in the form of the Kubernetes API.
        service_account: the account that its pod runs as.
        queue: its queue, if Kueue queues jobs.
        priority_class: the priority class of its pod.
        volumes: volumes to mount, by path: `"claim:NAME"`, `"claim:NAME/FOLDER"`,
            `"config:NAME"`, `"secret:NAME"`, `"host:/PATH"`, `"scratch:10GB"`, `"memory:2GB"`.
            A source that ends in `:ro` is read-only.
        image_pull_secrets: the names of the secrets for the image's registry.
        pod_patch: a patch of the pod's specification, as a last resort. Lists of named objects
            are merged by name; `None` removes a field.
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
    """A Ray cluster: an actor for each replica. No server supports it yet: jobs are refused.

    ```python
    wl.Ray(cluster="ray://head:10001", cpus=4)
    ```

    Args:
        cluster: the address of the cluster.
        cpus: the CPUs that a replica requests (1).
        memory: the memory that a replica requests: `"16GB"`.
        accelerator: the accelerators of a replica: `"a100"`, `"a100x2"`, `"gpu"`, `"cpu"`.
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
