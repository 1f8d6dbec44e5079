"""The table of permissions that the operator's account needs. Checks and manifests use it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from windlass.kube.api.connection import Connection
from windlass.kube.permission import Permission
from windlass.kube.permissions.check import account_name, denied_permissions, missing_permissions
from windlass.kube.permissions.required import PermissionRule, cluster_grant, role_manifests
from windlass.model.errors import KubernetesError
from windlass.operator.job_kinds import GROUP, JOB_KINDS

ROLE = "windlass-operator"
_OBJECTS = ("get", "list", "watch", "create", "patch", "delete")
OF_JOBS: tuple[PermissionRule, ...] = (
    *(
        PermissionRule(resource=f"{kind.kind.plural}{part}", group=GROUP, verbs=verbs, why=why)
        for part, verbs, why in (
            (
                "",
                ("get", "list", "watch", "patch", "delete"),
                "reading jobs, storing their annotations, deleting expired jobs",
            ),
            ("/status", ("update",), "updating the status of jobs"),
            (
                "/finalizers",
                ("update",),
                "owning pods, if the cluster checks the permissions of owners",
            ),
        )
        for kind in JOB_KINDS
    ),
    PermissionRule(resource="pods", verbs=_OBJECTS, why="a replica of a job is a pod"),
    PermissionRule(
        resource="services", verbs=_OBJECTS, why="addresses by which replicas find each other"
    ),
    PermissionRule(resource="events", verbs=("create",), why="posting events of jobs"),
)
"""Permissions required in every namespace that the operator watches."""

HELPFUL: tuple[PermissionRule, ...] = (
    PermissionRule(
        resource="events", verbs=("list",), why="reporting why volumes of pods cannot be mounted"
    ),
)
"""Permissions that are optional in every namespace, and help to explain why pods wait."""

OF_LEASE: tuple[PermissionRule, ...] = (
    PermissionRule(
        resource="leases",
        group="coordination.k8s.io",
        verbs=("get", "create", "update"),
        why="electing one of several instances as the leader",
    ),
)
"""Permissions required in the lease's namespace."""


OF_DEFINITIONS = PermissionRule(
    resource="customresourcedefinitions",
    group="apiextensions.k8s.io",
    verbs=("get", "create", "update"),
    why="installing and updating the definitions of jobs",
)
"""The cluster-wide permission that the installing account, not the operator, requires."""


def check_may_install(connection: Connection, needed: Mapping[str, Collection[str]]) -> None:
    """Raise an error that names all permissions that the account lacks for the installation."""
    # Permissions may be limited to one object name. Permission to create may not, because the
    # object does not exist yet.
    required = {
        msgspec.structs.replace(permission, name="" if permission.verb == "create" else name)
        for name, verbs in needed.items()
        for permission in OF_DEFINITIONS.permissions("")
        if permission.verb in verbs
    }
    missing_verbs = {
        permission.verb for permission in denied_permissions(connection, list(required))
    }
    if not missing_verbs:
        return
    account = account_name(connection) or "NAME"
    missing = [verb for verb in OF_DEFINITIONS.verbs if verb in missing_verbs]
    grant = cluster_grant("windlass-definitions", OF_DEFINITIONS, account)
    raise KubernetesError(
        f"{account} lacks {_counted(len(missing))} of the whole cluster that installing needs: "
        f"{', '.join(missing)} {OF_DEFINITIONS.resource}.{OF_DEFINITIONS.group}.",
        hint="An administrator can install for you: windlass operator install\nor grant "
        f"it: {grant}",
        status=403,
        reason="Forbidden",
    )


def check_permissions(
    connection: Connection, namespaces: Sequence[str], lease_namespace: str
) -> None:
    """Raise an error that names all required permissions that the operator's account lacks."""
    missing = []
    for namespace in namespaces or ("",):
        missing += missing_permissions(connection, namespace, OF_JOBS)
    if lease_namespace:
        missing += missing_permissions(connection, lease_namespace, OF_LEASE)
    if not missing:
        return
    account = account_name(connection)
    raise KubernetesError(
        f"{account or 'This account'} lacks {_counted(len(missing))} that the operator needs:",
        hint=f"{listed(missing)}\nAn administrator can grant all of them: "
        f"{grant_command(account, namespaces, lease_namespace)}",
        status=403,
        reason="Forbidden",
    )


def _counted(count: int) -> str:
    return "a right" if count == 1 else f"{count} rights"


def missing_help(connection: Connection, namespaces: Sequence[str]) -> list[Permission]:
    """Return the optional permissions that the account lacks."""
    return [
        permission
        for namespace in namespaces or ("",)
        for permission in missing_permissions(connection, namespace, HELPFUL)
    ]


def listed(missing: Sequence[Permission]) -> str:
    """List the missing verbs as a text that has one line per resource.

    >>> print(
    ...     listed(
    ...         [
    ...             Permission(verb=verb, resource="pods", namespace="lab")
    ...             for verb in ("get", "list")
    ...         ]
    ...     )
    ... )
    - get, list pods in namespace lab
    """
    verbs: dict[Permission, list[str]] = {}
    for permission in missing:
        verbs.setdefault(msgspec.structs.replace(permission, verb=""), []).append(permission.verb)
    return "\n".join(
        f"- {', '.join(listed_verbs)}{permission}"
        f"{'' if permission.namespace else ' in all namespaces'}"
        for permission, listed_verbs in verbs.items()
    )


def grant_command(account: str, namespaces: Sequence[str], lease_namespace: str) -> str:
    """Return the command with which an administrator grants the operator's permissions.

    >>> grant_command("ada", ["lab"], "")
    'windlass operator rights --account ada --namespace lab --alone | kubectl apply -f -'
    """
    words = ["windlass", "operator", "rights", "--account", account or "NAME"]
    for namespace in namespaces:
        words += ["--namespace", namespace]
    words += ["--lease-namespace", lease_namespace] if lease_namespace else ["--alone"]
    return f"{' '.join(words)} | kubectl apply -f -"


def grants(account: str, namespaces: Sequence[str], lease_namespace: str) -> list[dict[str, Any]]:
    """Return manifests of roles that contain all of the operator's permissions.

    The manifests also bind the roles to an account.
    """
    manifests: list[dict[str, Any]] = []
    rules = (*OF_JOBS, *HELPFUL)
    for namespace in namespaces:
        manifests += role_manifests(namespace, account, rules, name=ROLE)
    if not namespaces:
        manifests += [
            _of_the_cluster(manifest) for manifest in role_manifests("", account, rules, name=ROLE)
        ]
    if lease_namespace:
        manifests += role_manifests(lease_namespace, account, OF_LEASE, name=f"{ROLE}-lease")
    return manifests


def _of_the_cluster(manifest: dict[str, Any]) -> dict[str, Any]:
    """Convert a role or role binding to its cluster-wide kind."""
    metadata = {"name": manifest["metadata"]["name"]}
    changed = {**manifest, "kind": f"Cluster{manifest['kind']}", "metadata": metadata}
    if "roleRef" in manifest:
        changed["roleRef"] = {**manifest["roleRef"], "kind": "ClusterRole"}
    return changed
