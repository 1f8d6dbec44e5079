"""The rights that Windlass needs in a namespace: one table for checks, manifests and the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from windlass.kube.deeds import Deed

ROLE = "windlass"  # what the role is called in manifests of ours


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """What may be done with one kind of thing, and what that is needed for."""

    resource: str
    verbs: tuple[str, ...]
    why: str
    group: str = ""

    def deeds(self, namespace: str) -> Iterator[Deed]:
        """Each of the verbs, as one thing to be allowed."""
        for verb in self.verbs:
            yield Deed(verb=verb, resource=self.resource, group=self.group, namespace=namespace)


RUNNING: tuple[Right, ...] = (
    Right(
        resource="pods",
        verbs=("create", "delete", "get", "list", "watch"),
        why="a replica of a trial is a pod",
    ),
    # As a web socket the request is a GET, which older API servers take for a "get".
    Right(
        resource="pods/portforward",
        verbs=("create", "get"),
        why="reaching pods that cannot reach the server",
    ),
    Right(
        resource="services",
        verbs=("create", "get"),
        why="addresses by which replicas find each other; deleted with the Secret that owns them",
    ),
    Right(
        resource="secrets",
        verbs=("create", "delete", "get"),
        why="one for each trial: what its pods start with, and the owner of all that it has there",
    ),
    Right(
        resource="events",
        verbs=("list",),
        why="why a pod does not start",
    ),
)
"""To run trials in a namespace."""

HELPFUL: tuple[Right, ...] = (
    Right(
        resource="nodes",
        verbs=("list",),
        why="refusing accelerators that the cluster does not have, before anything is created",
    ),
)
"""Of the whole cluster; without them a check is left out."""


def granted(rules: Sequence[Mapping[str, Any]], deed: Deed) -> bool:
    """Whether rules of a role, or of a `SelfSubjectRulesReview`, allow it.

    >>> rules = [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/log"]}]
    >>> granted(rules, Deed(verb="get", resource="pods/log", namespace="lab"))
    True
    >>> granted(rules, Deed(verb="create", resource="pods", namespace="lab"))
    False
    """
    part = deed.resource.partition("/")[2]
    names = {"*", deed.resource} | ({f"*/{part}"} if part else set())
    return any(
        not rule.get("resourceNames")
        and {"*", deed.verb} & set(rule.get("verbs") or ())
        and {"*", deed.group} & set(rule.get("apiGroups") or ())
        and names & set(rule.get("resources") or ())
        for rule in rules
    )


def rules_of(rights: Sequence[Right]) -> list[dict[str, Any]]:
    """The rights as the rules of a role.

    >>> rules_of(HELPFUL)
    [{'apiGroups': [''], 'resources': ['nodes'], 'verbs': ['list']}]
    """
    return [
        {"apiGroups": [right.group], "resources": [right.resource], "verbs": list(right.verbs)}
        for right in rights
    ]


def role_manifests(
    namespace: str, account: str, rights: Sequence[Right] = RUNNING, *, name: str = ROLE
) -> list[dict[str, Any]]:
    """A role with the rights, bound to an account: what somebody who may applies."""
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name, "namespace": namespace},
            "rules": rules_of(rights),
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            # One for each account: applied for a second it would else take them from the first.
            "metadata": {"name": _binding_name(name, account), "namespace": namespace},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": name,
            },
            "subjects": [subject_of(account)],
        },
    ]


def cluster_grant(role: str, right: Right, account: str) -> str:
    """The commands by which somebody who may grants a right of the whole cluster.

    >>> cluster_grant("windlass-nodes", HELPFUL[0], "ada")
    'kubectl create clusterrole windlass-nodes --verb=list --resource=nodes; \
kubectl create clusterrolebinding windlass-nodes:ada --clusterrole=windlass-nodes --user=ada'
    """
    resource = f"{right.resource}.{right.group}" if right.group else right.resource
    binding = _binding_name(role, account)
    return (
        f"kubectl create clusterrole {role} --verb={','.join(right.verbs)} --resource={resource}; "
        f"kubectl create clusterrolebinding {binding} --clusterrole={role} --user={account}"
    )


def _binding_name(role: str, account: str) -> str:
    """What a binding of a role to an account is called: such names may not have slashes.

    >>> _binding_name("windlass", "system:serviceaccount:lab:trainer")
    'windlass:system:serviceaccount:lab:trainer'
    """
    return f"{role}:{account}".replace("/", "-").replace("%", "-")[:253]


def subject_of(account: str) -> dict[str, str]:
    """Whom a binding is for.

    >>> subject_of("system:serviceaccount:lab:trainer")
    {'kind': 'ServiceAccount', 'namespace': 'lab', 'name': 'trainer'}
    >>> subject_of("ada")
    {'kind': 'User', 'apiGroup': 'rbac.authorization.k8s.io', 'name': 'ada'}
    """
    parts = account.split(":")
    if parts[:2] == ["system", "serviceaccount"] and len(parts) == 4:
        return {"kind": "ServiceAccount", "namespace": parts[2], "name": parts[3]}
    return {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": account}
