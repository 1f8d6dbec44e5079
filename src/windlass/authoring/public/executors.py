"""Executors, which name the backend and the resources of a job's replicas.

Executors are plain values whose fields have the same names, so that a script can move to another
backend with another executor. A job is refused if no server supports its executor yet. All roles of
a job run on the same backend.
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
    """Runs replicas as plain processes on the server's machine, which is usually this machine.

    ```python
    wl.Local(cpus=2, memory="4GB")
    wl.Local(accelerator="a100x2")
    ```

    Args:
        cpus: the CPUs to reserve for a replica (default: 1).
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
    """Runs each replica as a pod of a Kubernetes cluster. Nothing must be installed in the cluster.

    ```python
    wl.Kubernetes(namespace="research", accelerator="a100x8", container_image="lab/train:7")
    wl.Kubernetes(cpus=4, volumes={"/data": "claim:datasets/imagenet:ro"}, queue="team-a")
    ```

    Args:
        namespace: the namespace of the pods, which all roles share (default: the server's own).
        cpus: the CPUs that a replica requests (default: 1).
        memory: the memory that a replica requests: `"16GB"`.
        accelerator: the accelerators of a replica: `"a100"`, `"a100x2"`, `"gpu"`, `"cpu"`.
        container_image: the image of the pods, which must contain Python (default: a small image).
        node_selector: labels that the node of a pod must have.
        tolerations: taints of nodes that the pods tolerate, as in the Kubernetes API.
        service_account: the Kubernetes service account of the pods.
        queue: the local queue of the job, if the cluster uses Kueue.
        priority_class: the priority class of the pods.
        volumes: sources to mount, by path: `"claim:NAME"`, `"claim:NAME/FOLDER"`,
            `"config:NAME"`, `"secret:NAME"`, `"host:/PATH"`, `"scratch:10GB"`, `"memory:2GB"`.
            A source that ends in `:ro` is read-only.
        image_pull_secrets: the names of the secrets that allow pulling the image.
        pod_patch: a patch of the pod's specification, for fields without an option here.
            Lists of named objects are merged by name. `None` removes a field.
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
    """A Ray cluster that would run each replica as an actor. No server supports Ray yet.

    ```python
    wl.Ray(cluster="ray://head:10001", cpus=4)
    ```

    Args:
        cluster: the address of the cluster.
        cpus: the CPUs that a replica requests (default: 1).
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
