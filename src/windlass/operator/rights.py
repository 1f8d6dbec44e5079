"""Rights: what the operator's account must be allowed, in one table for checks and manifests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from windlass.kube.access import account_name, missing_deeds, missing_rights
from windlass.kube.connecting import Connection
from windlass.kube.deeds import Deed
from windlass.kube.rights import Right, cluster_grant, role_manifests
from windlass.model.errors import KubernetesError
from windlass.operator.jobkinds import GROUP, JOB_KINDS

ROLE = "windlass-operator"
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

HELPFUL: tuple[Right, ...] = (
    Right(resource="events", verbs=("list",), why="telling why volumes of pods cannot be mounted"),
)
"""Also in every namespace; without them all goes on, and that is not told."""

OF_LEASE: tuple[Right, ...] = (
    Right(
        resource="leases",
        group="coordination.k8s.io",
        verbs=("get", "create", "update"),
        why="agreeing on which of several instances acts",
    ),
)
"""In the namespace of the lease."""


OF_DEFINITIONS = Right(
    resource="customresourcedefinitions",
    group="apiextensions.k8s.io",
    verbs=("get", "create", "update"),
    why="bringing the definitions of jobs, and updating them",
)
"""Of the whole cluster, for whoever installs; the operator itself does without."""


def check_may_install(connection: Connection, needed: Mapping[str, Collection[str]]) -> None:
    """That the account may do with each definition what it takes; else an error names it all."""
    # Whoever may look at one of that name may be allowed no others; what is new has no name yet.
    asked = {
        msgspec.structs.replace(deed, name="" if deed.verb == "create" else name)
        for name, verbs in needed.items()
        for deed in OF_DEFINITIONS.deeds("")
        if deed.verb in verbs
    }
    lacks = {deed.verb for deed in missing_deeds(connection, list(asked))}
    if not lacks:
        return
    account = account_name(connection) or "NAME"
    missing = [verb for verb in OF_DEFINITIONS.verbs if verb in lacks]
    grant = cluster_grant("windlass-definitions", OF_DEFINITIONS, account)
    raise KubernetesError(
        f"{account} lacks {_counted(len(missing))} of the whole cluster that installing needs: "
        f"{', '.join(missing)} {OF_DEFINITIONS.resource}.{OF_DEFINITIONS.group}.",
        hint="Somebody who may, such as an administrator, can install in your place: "
        f"windlass operator install\nor grant it: {grant}",
        status=403,
        reason="Forbidden",
    )


def check_rights(connection: Connection, namespaces: Sequence[str], lease_namespace: str) -> None:
    """That the account may do all that the operator does; else an error names what it may not."""
    lacks = []
    for namespace in namespaces or ("",):
        lacks += missing_rights(connection, namespace, OF_JOBS)
    if lease_namespace:
        lacks += missing_rights(connection, lease_namespace, OF_LEASE)
    if not lacks:
        return
    account = account_name(connection)
    raise KubernetesError(
        f"{account or 'This account'} lacks {_counted(len(lacks))} that the operator needs:",
        hint=f"{listed(lacks)}\nWhoever may can grant them all: "
        f"{granting_command(account, namespaces, lease_namespace)}",
        status=403,
        reason="Forbidden",
    )


def _counted(rights: int) -> str:
    return "a right" if rights == 1 else f"{rights} rights"


def missing_help(connection: Connection, namespaces: Sequence[str]) -> list[Deed]:
    """Those of the rights that only help which the account does not have."""
    return [
        deed
        for namespace in namespaces or ("",)
        for deed in missing_rights(connection, namespace, HELPFUL)
    ]


def listed(lacks: Sequence[Deed]) -> str:
    """A line for each kind of thing with what may not be done with it.

    >>> print(
    ...     listed([Deed(verb=verb, resource="pods", namespace="lab") for verb in ("get", "list")])
    ... )
    - get, list pods in namespace lab
    """
    verbs: dict[Deed, list[str]] = {}
    for deed in lacks:
        verbs.setdefault(msgspec.structs.replace(deed, verb=""), []).append(deed.verb)
    return "\n".join(
        f"- {', '.join(each)}{deed}{'' if deed.namespace else ' in all namespaces'}"
        for deed, each in verbs.items()
    )


def granting_command(account: str, namespaces: Sequence[str], lease_namespace: str) -> str:
    """What somebody who may grant rights has to run.

    >>> granting_command("ada", ["lab"], "")
    'windlass operator rights --account ada --namespace lab --alone | kubectl apply -f -'
    """
    words = ["windlass", "operator", "rights", "--account", account or "NAME"]
    for each in namespaces:
        words += ["--namespace", each]
    words += ["--lease-namespace", lease_namespace] if lease_namespace else ["--alone"]
    return f"{' '.join(words)} | kubectl apply -f -"


def grants(account: str, namespaces: Sequence[str], lease_namespace: str) -> list[dict[str, Any]]:
    """Roles with all that the operator does, bound to an account; see `granting_command`."""
    made: list[dict[str, Any]] = []
    rights = (*OF_JOBS, *HELPFUL)
    for namespace in namespaces:
        made += role_manifests(namespace, account, rights, name=ROLE)
    if not namespaces:
        made += [_of_the_cluster(each) for each in role_manifests("", account, rights, name=ROLE)]
    if lease_namespace:
        made += role_manifests(lease_namespace, account, OF_LEASE, name=f"{ROLE}-lease")
    return made


def _of_the_cluster(manifest: dict[str, Any]) -> dict[str, Any]:
    """A role of all namespaces in place of one of some."""
    metadata = {"name": manifest["metadata"]["name"]}
    changed = {**manifest, "kind": f"Cluster{manifest['kind']}", "metadata": metadata}
    if "roleRef" in manifest:
        changed["roleRef"] = {**manifest["roleRef"], "kind": "ClusterRole"}
    return changed
