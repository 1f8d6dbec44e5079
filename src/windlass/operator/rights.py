"""Rights: what the operator's account must be allowed, in one table for checks and manifests."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.kube.access import account_name, missing_rights
from windlass.kube.connecting import Connection
from windlass.kube.rights import Right
from windlass.model.errors import KubernetesError
from windlass.operator.jobkinds import GROUP, JOB_KINDS

_OBJECTS = ("get", "list", "watch", "create", "patch", "delete")
OF_JOBS: tuple[Right, ...] = (
    *(
        Right(resource=f"{kind.kind.plural}{part}", group=GROUP, verbs=verbs, why=why)
        for part, verbs, why in (
            (
                "",
                ("get", "list", "watch", "patch", "delete"),
                "seeing jobs, keeping what is remembered of them, deleting those that expired",
            ),
            ("/status", ("update",), "saying how jobs stand"),
            ("/finalizers", ("update",), "owning pods, where the cluster asks that of owners"),
        )
        for kind in JOB_KINDS
    ),
    Right(resource="pods", verbs=_OBJECTS, why="a replica of a job is a pod"),
    Right(resource="services", verbs=_OBJECTS, why="addresses by which replicas find each other"),
    Right(resource="events", verbs=("create",), why="telling what happens to jobs"),
)
"""In every namespace whose jobs are looked after."""

OF_LEASE: tuple[Right, ...] = (
    Right(
        resource="leases",
        group="coordination.k8s.io",
        verbs=("get", "create", "update"),
        why="agreeing on which of several instances acts",
    ),
)
"""In the namespace of the lease."""


def check_rights(connection: Connection, namespaces: Sequence[str], lease_namespace: str) -> None:
    """That the account may do all that the operator does; else an error names what it may not."""
    lacks = []
    for namespace in namespaces or ("",):
        lacks += missing_rights(connection, namespace, OF_JOBS)
    if lease_namespace:
        lacks += missing_rights(connection, lease_namespace, OF_LEASE)
    if not lacks:
        return
    listed = "\n".join(
        f"- {deed}{'' if deed.namespace else ' in all namespaces'}" for deed in lacks
    )
    rights = "a right" if len(lacks) == 1 else f"{len(lacks)} rights"
    raise KubernetesError(
        f"{account_name(connection) or 'This account'} lacks {rights} that the operator needs:",
        hint=f"{listed}\ndeploy/operator.yaml grants them all.",
        status=403,
        reason="Forbidden",
    )
