"""Executors, which select the backend and the resources of a job's replicas.

Executors are plain values with common field names, so that a script can switch to another backend
by switching its executor. A job is refused if no server supports its executor yet. All roles of a
job run on the same backend.
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
    """Runs replicas as plain processes on the server's machine, which is usually this one.

    ```python
    wl.Local(cpus=2, memory="4GB")
    wl.Local(accelerator="a100x2")
    ```

    Args:
        cpus: the CPUs to reserve per replica (default: 1).
        memory: the memory to reserve per replica, such as `"16GB"`.
        accelerator: the accelerators per replica, such as `"a100"`, `"a100x2"`, `"gpu"` or `"cpu"`.
    """

    backend: ClassVar = LOCAL
    cpus: float | None = None
    memory: str | int | None = None
    accelerator: str | None = None


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Kubernetes:
    """Runs each replica as a pod in a Kubernetes cluster. The cluster needs nothing installed.

    ```python
    wl.Kubernetes(namespace="research", accelerator="a100x8", container_image="lab/train:7")
    wl.Kubernetes(cpus=4, volumes={"/data": "claim:datasets/imagenet:ro"}, queue="team-a")
    ```

    Args:
        namespace: the namespace of the pods, the same for all roles (default: the server's own).
        cpus: the CPUs to request per replica (default: 1).
        memory: the memory to request per replica, such as `"16GB"`.
        accelerator: the accelerators per replica, such as `"a100"`, `"a100x2"`, `"gpu"` or `"cpu"`.
        container_image: the image of the pods, which must contain Python (default: a small image).
        node_selector: labels that a pod's node must have.
        tolerations: node taints that the pods tolerate, as in the Kubernetes API.
        service_account: the Kubernetes service account of the pods.
        queue: the job's local queue, if the cluster uses Kueue.
        priority_class: the priority class of the pods.
        volumes: sources to mount, by mount path: `"claim:NAME"`, `"claim:NAME/FOLDER"`,
            `"config:NAME"`, `"secret:NAME"`, `"host:/PATH"`, `"scratch:10GB"`, `"memory:2GB"`. A
            source ending in `:ro` is mounted read-only.
        image_pull_secrets: the names of the secrets for pulling the image.
        pod_patch: a patch for the pod's specification, for fields that have no option here. Lists
            of named objects are merged by name. `None` removes a field.
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
    """A Ray cluster, with an actor for each replica. No server supports Ray yet.

    ```python
    wl.Ray(cluster="ray://head:10001", cpus=4)
    ```

    Args:
        cluster: the address of the cluster.
        cpus: the CPUs to request per replica (default: 1).
        memory: the memory to request per replica, such as `"16GB"`.
        accelerator: the accelerators per replica, such as `"a100"`, `"a100x2"`, `"gpu"` or `"cpu"`.
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
