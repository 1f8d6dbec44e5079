"""Builds the manifests that a job would create in a cluster, without submitting the job."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing

import msgspec

from windlass.kube.api.connection import Connection
from windlass.kube.capacity.list_nodes import list_nodes
from windlass.kube.capacity.nodes import Node, placement
from windlass.kube.check_cluster import cluster_identity
from windlass.model.check_results import ClusterCheck, ClusterManifests, ShowManifests
from windlass.model.errors import KubernetesError
from windlass.model.job import Job, JobSpec
from windlass.model.kubernetes.job_options import KubernetesOptions
from windlass.model.status import ReplicaId
from windlass.runtimes.kubernetes.objects.manifests import (
    Object,
    build_pod,
    build_secret,
    build_service,
    elided,
    has_services,
    job_record,
)

_NOBODY = "0" * 32  # a placeholder for ids that are assigned later
_SET_BY_THE_CLUSTER = "00000000-0000-0000-0000-000000000000"


def preset_image() -> str:
    """Return the default image that this process's environment sets, or "" if it sets none."""
    return os.environ.get("WINDLASS_KUBERNETES_IMAGE", "")


def manifests_here(
    request: ShowManifests, connect: Callable[[], Connection], image: str = ""
) -> ClusterManifests:
    """Return the objects that a job would create.

    If no cluster can be reached, cluster-dependent values are generic.
    """
    namespace, nodes = request.namespace or "default", None
    cluster = ClusterCheck(findings=())
    try:
        with closing(connect()) as connection:
            cluster = cluster_identity(connection)
            namespace = connection.namespace
            nodes = list_nodes(connection)
    except KubernetesError:
        pass  # without a cluster, accelerators get common resource names and labels
    return ClusterManifests(
        objects=build_manifests(request.spec, namespace, nodes, image), cluster=cluster
    )


def build_manifests(
    spec: JobSpec, namespace: str, nodes: Sequence[Node] | None, image: str = ""
) -> list[Object]:
    """Build the Secret, the services and the first attempts' pods.

    `nodes` are the nodes of the cluster, or None if the account has no permission to list nodes.

    >>> from windlass.model.job import ProcessCall, Role
    >>> role = Role(executable=ProcessCall(argv=("true",)), replicas=2)
    >>> made = build_manifests(JobSpec(roles=(role,), backend="kubernetes"), "lab", None)
    >>> [manifest["kind"] for manifest in made]
    ['Secret', 'Service', 'Pod', 'Service', 'Pod']
    """
    job = Job(uid=_NOBODY, trial_id=0, spec=spec)
    named = (spec.roles[0].kubernetes or KubernetesOptions()).namespace
    record = job_record(job, named or namespace, "0")
    made = [build_secret(record, b"", {})]
    for role in spec.roles:
        options = role.kubernetes or KubernetesOptions()
        where = placement(
            role.resources.accelerator,
            role.replicas,
            nodes,
            tolerations=[msgspec.to_builtins(toleration) for toleration in options.tolerations],
            node_selector=options.node_selector or None,
        )
        for index in range(role.replicas):
            if has_services(spec):
                made.append(build_service(record, role.name, index, _SET_BY_THE_CLUSTER))
            replica = ReplicaId(role.name, index, 1)
            pod = build_pod(record, job, replica, _SET_BY_THE_CLUSTER, placement=where, image=image)
            made.append(pod)
    return elided(made)
