"""What would be created in a cluster for a job that was not submitted."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing

import msgspec

from windlass.kube.connecting import Connection
from windlass.kube.examining import which
from windlass.kube.nodes import Node, placement
from windlass.kube.seeing import list_nodes
from windlass.model.errors import KubernetesError
from windlass.model.findings import ClusterCheck, ClusterManifests, ShowManifests
from windlass.model.job import Job, JobSpec
from windlass.model.kubernetes import KubernetesOptions
from windlass.model.status import ReplicaId
from windlass.runtimes.kubernetes.building import (
    Object,
    claim_of,
    elided,
    has_services,
    pod_of,
    secret_of,
    service_of,
)

_NOBODY = "0" * 32  # what is known only once it is there
_TOLD_BY_THE_CLUSTER = "00000000-0000-0000-0000-000000000000"


def preset_image() -> str:
    """What pods run in whose jobs name none, if this process is told so."""
    return os.environ.get("WINDLASS_KUBERNETES_IMAGE", "")


def manifests_here(
    asked: ShowManifests, connect: Callable[[], Connection], image: str = ""
) -> ClusterManifests:
    """What would be created in the cluster at hand; what that does not say is left open."""
    namespace, nodes = asked.namespace or "default", None
    cluster = ClusterCheck(findings=())
    try:
        with closing(connect()) as connection:
            cluster = which(connection)
            namespace = connection.namespace
            nodes = list_nodes(connection)
    except KubernetesError:
        pass  # accelerators become what is in common use
    return ClusterManifests(
        objects=manifests_of(asked.spec, namespace, nodes, image), cluster=cluster
    )


def manifests_of(
    spec: JobSpec, namespace: str, nodes: Sequence[Node] | None, image: str = ""
) -> list[Object]:
    """The Secret, the services and the pods of the first attempts; `nodes` as `placement` has them.

    >>> from windlass.model.job import ProcessCall, Role
    >>> role = Role(executable=ProcessCall(argv=("true",)), replicas=2)
    >>> made = manifests_of(JobSpec(roles=(role,), backend="kubernetes"), "lab", None)
    >>> [each["kind"] for each in made]
    ['Secret', 'Service', 'Pod', 'Service', 'Pod']
    """
    job = Job(uid=_NOBODY, trial_id=0, spec=spec)
    named = (spec.roles[0].kubernetes or KubernetesOptions()).namespace
    claim = claim_of(job, named or namespace, "0")
    made = [secret_of(claim, b"", {})]
    for role in spec.roles:
        options = role.kubernetes or KubernetesOptions()
        where = placement(
            role.resources.accelerator,
            role.replicas,
            nodes,
            tolerations=[msgspec.to_builtins(each) for each in options.tolerations],
            node_selector=options.node_selector or None,
        )
        for index in range(role.replicas):
            if has_services(spec):
                made.append(service_of(claim, role.name, index, _TOLD_BY_THE_CLUSTER))
            replica = ReplicaId(role.name, index, 1)
            pod = pod_of(claim, job, replica, _TOLD_BY_THE_CLUSTER, placement=where, image=image)
            made.append(pod)
    return elided(made)
