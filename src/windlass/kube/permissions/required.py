"""The table of permissions that Windlass needs. Checks, manifests and docs use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from windlass.kube.permission import Permission

ROLE = "windlass"  # the name of the role in our manifests


class PermissionRule(msgspec.Struct, frozen=True, kw_only=True):
    """A resource, the verbs that Windlass needs for it, and why Windlass needs them."""

    resource: str
    verbs: tuple[str, ...]
    why: str
    group: str = ""

    def permissions(self, namespace: str) -> Iterator[Permission]:
        """Yield a permission for each verb that Windlass needs for this resource."""
        for verb in self.verbs:
            yield Permission(
                verb=verb, resource=self.resource, group=self.group, namespace=namespace
            )


RUNNING: tuple[PermissionRule, ...] = (
    PermissionRule(
        resource="pods",
        verbs=("create", "delete", "get", "list", "watch"),
        why="each replica of a trial runs in a pod",
    ),
    # A WebSocket starts with a GET request, so older API servers check the verb "get".
    PermissionRule(
        resource="pods/portforward",
        verbs=("create", "get"),
        why="reaching pods that cannot reach the server",
    ),
    PermissionRule(
        resource="services",
        verbs=("create", "get"),
        why="addresses at which replicas reach each other. The cluster deletes services together "
        "with the Secret that owns them, so no permission to delete is needed",
    ),
    PermissionRule(
        resource="secrets",
        verbs=("create", "delete", "get"),
        why="each trial has one Secret, which contains the data that the trial's pods need to "
        "start, and owns the trial's other objects",
    ),
    PermissionRule(
        resource="events",
        verbs=("list",),
        why="the reason why a pod is not starting",
    ),
)
"""Permissions required to run trials in a namespace."""

HELPFUL: tuple[PermissionRule, ...] = (
    PermissionRule(
        resource="nodes",
        verbs=("list",),
        why="refusing accelerators that the cluster does not have, before anything is created",
    ),
)
"""Optional permissions for the whole cluster. Without them, Windlass skips a check."""


def is_granted(rules: Sequence[Mapping[str, Any]], permission: Permission) -> bool:
    """Return whether the rules of a role or of a `SelfSubjectRulesReview` grant a permission.

    >>> rules = [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/log"]}]
    >>> is_granted(rules, Permission(verb="get", resource="pods/log", namespace="lab"))
    True
    >>> is_granted(rules, Permission(verb="create", resource="pods", namespace="lab"))
    False
    """
    part = permission.resource.partition("/")[2]
    names = {"*", permission.resource} | ({f"*/{part}"} if part else set())
    return any(
        not rule.get("resourceNames")
        and {"*", permission.verb} & set(rule.get("verbs") or ())
        and {"*", permission.group} & set(rule.get("apiGroups") or ())
        and names & set(rule.get("resources") or ())
        for rule in rules
    )


def role_rules(rules: Sequence[PermissionRule]) -> list[dict[str, Any]]:
    """Return the rules as they appear in a role manifest.

    >>> role_rules(HELPFUL)
    [{'apiGroups': [''], 'resources': ['nodes'], 'verbs': ['list']}]
    """
    return [
        {"apiGroups": [rule.group], "resources": [rule.resource], "verbs": list(rule.verbs)}
        for rule in rules
    ]


def role_manifests(
    namespace: str, account: str, rules: Sequence[PermissionRule] = RUNNING, *, name: str = ROLE
) -> list[dict[str, Any]]:
    """Return the manifests of a role and of the binding that gives the role to an account."""
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name, "namespace": namespace},
            "rules": role_rules(rules),
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            # Each account has its own binding. A shared binding would be overwritten by the next
            # account.
            "metadata": {"name": _binding_name(name, account), "namespace": namespace},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": name,
            },
            "subjects": [binding_subject(account)],
        },
    ]


def cluster_grant(role: str, rule: PermissionRule, account: str) -> str:
    """Return the commands that grant the permissions of a rule in the whole cluster.

    >>> cluster_grant("windlass-nodes", HELPFUL[0], "ada")
    'kubectl create clusterrole windlass-nodes --verb=list --resource=nodes; \
kubectl create clusterrolebinding windlass-nodes:ada --clusterrole=windlass-nodes --user=ada'
    """
    resource = f"{rule.resource}.{rule.group}" if rule.group else rule.resource
    binding = _binding_name(role, account)
    return (
        f"kubectl create clusterrole {role} --verb={','.join(rule.verbs)} --resource={resource}; "
        f"kubectl create clusterrolebinding {binding} --clusterrole={role} --user={account}"
    )


def _binding_name(role: str, account: str) -> str:
    """Return the name, free of slashes, of the binding that gives a role to an account.

    >>> _binding_name("windlass", "system:serviceaccount:lab:trainer")
    'windlass:system:serviceaccount:lab:trainer'
    """
    return f"{role}:{account}".replace("/", "-").replace("%", "-")[:253]


def binding_subject(account: str) -> dict[str, str]:
    """Return an account's entry in the `subjects` of a role binding.

    >>> binding_subject("system:serviceaccount:lab:trainer")
    {'kind': 'ServiceAccount', 'namespace': 'lab', 'name': 'trainer'}
    >>> binding_subject("ada")
    {'kind': 'User', 'apiGroup': 'rbac.authorization.k8s.io', 'name': 'ada'}
    """
    parts = account.split(":")
    if parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:
        return {"kind": "ServiceAccount", "namespace": parts[2], "name": parts[3]}
    return {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": account}
