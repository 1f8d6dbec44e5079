"""Rights: what the operator's account must be allowed, in one table for checks and manifests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from windlass.kube.connecting import Connection
from windlass.kube.kinds import Object


class Rights(msgspec.Struct, frozen=True):
    """Verbs that are needed on resources, and what for."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    because: str


_JOBS = ("tfjobs", "pytorchjobs")
OF_JOBS = (
    Rights(
        "kubeflow.org", _JOBS, ("get", "list", "watch", "patch", "delete"),
        "see jobs, keep what is remembered of them, delete those whose time to live is up",
    ),
    Rights(
        "kubeflow.org", tuple(f"{each}/status" for each in _JOBS), ("update",),
        "say how jobs stand",
    ),
    Rights(
        "kubeflow.org", tuple(f"{each}/finalizers" for each in _JOBS), ("update",),
        "own pods, where the cluster asks for that right of owners",
    ),
    Rights(
        "", ("pods",), ("get", "list", "watch", "create", "patch", "delete"), "run replicas"
    ),
    Rights(
        "", ("services",), ("get", "list", "watch", "create", "patch", "delete"),
        "give replicas addresses",
    ),
    Rights("", ("events",), ("create",), "tell what happens"),
)  # fmt: skip
OF_LEASE = (
    Rights("coordination.k8s.io", ("leases",), ("get", "create", "update"), "agree on who leads"),
)


class Lack(msgspec.Struct, frozen=True):
    """One thing that the account may not do, and needs to."""

    verb: str
    resource: str
    group: str
    namespace: str
    because: str

    def __str__(self) -> str:
        """The right as people grant it."""
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f"in namespace {self.namespace}" if self.namespace else "in all namespaces"
        return f"{self.verb} {what} {where} (to {self.because})"


def wanted(namespaces: Sequence[str], lease_namespace: str) -> Iterator[Lack]:
    """Everything that is needed, one by one."""
    for namespace in namespaces or ("",):
        for rights in OF_JOBS:
            yield from _each(rights, namespace)
    if lease_namespace:
        for rights in OF_LEASE:
            yield from _each(rights, lease_namespace)


def lacking(connection: Connection, namespaces: Sequence[str], lease_namespace: str) -> list[Lack]:
    """What the account may not do and needs to, asked of the cluster."""
    return [
        each for each in wanted(namespaces, lease_namespace) if not _is_allowed(connection, each)
    ]


def rules(rights: Sequence[Rights]) -> list[Object]:
    """The same as the rules of a role."""
    return [
        {"apiGroups": [each.group], "resources": list(each.resources), "verbs": list(each.verbs)}
        for each in rights
    ]


def _each(rights: Rights, namespace: str) -> Iterator[Lack]:
    for resource in rights.resources:
        for verb in rights.verbs:
            yield Lack(verb, resource, rights.group, namespace, rights.because)


def _is_allowed(connection: Connection, right: Lack) -> bool:
    resource, _, part = right.resource.partition("/")
    asked = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": part,
        "namespace": right.namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = connection.request("POST", path, review)
    return bool(answer["status"].get("allowed"))
