"""Installing: definitions of the objects that the operator looks after, for a cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import msgspec

from windlass.kube.connecting import Connection
from windlass.kube.kinds import Kind, Object, labels_of
from windlass.model.errors import KubernetesError
from windlass.operator.jobkinds import JOB_KINDS
from windlass.operator.rights import check_may_install

DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"
)
_MANAGER = "app.kubernetes.io/managed-by"
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409
_PATIENCE = 30.0  # seconds for a cluster to take up a definition


class Installed(msgspec.Struct, frozen=True):
    """What became of a definition: "created", "updated", "unchanged", or "kept", another's."""

    name: str
    what: str


def definition_texts() -> list[str]:
    """The definitions as files that a cluster takes, one a kind."""
    folder = files("windlass.operator") / "definitions"
    return [(folder / f"{kind.kind.plural}.yaml").read_text() for kind in JOB_KINDS]


def definitions() -> list[Object]:
    """The definitions, read."""
    import yaml  # the Kubernetes client needs it, too

    return [yaml.safe_load(text) for text in definition_texts()]


def install(connection: Connection, *, replace: bool = False) -> list[Installed]:
    """Bring the definitions to a cluster. Those of another's making are kept, unless asked.

    `install(connect())` returns once objects of these kinds can be made.
    """
    wanted = definitions()
    check_may_install(connection, _needed_for(connection, wanted, replace=replace))
    return [_install(connection, each, replace=replace) for each in wanted]


def _needed_for(
    connection: Connection, wanted: Sequence[Object], *, replace: bool
) -> dict[str, set[str]]:
    """The verbs that bringing each definition takes, by its name; where none may be seen, all."""
    needed = {}
    for each in wanted:
        name = str(each["metadata"]["name"])
        try:
            there = connection.request("GET", DEFINITIONS.path(name=name))
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, _FORBIDDEN):
                raise
            is_absent = error.status == _NOT_FOUND
            needed[name] = {"get", "create"} if is_absent else {"get", "create", "update"}
            continue
        needed[name] = {"get", "update"} if replace or _is_ours(there, each) else {"get"}
    return needed


def _install(connection: Connection, wanted: Object, *, replace: bool) -> Installed:
    """Bring one; whoever else brings, changes or takes it meanwhile, it is looked at again."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return _install_once(connection, wanted, replace=replace)
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT) or time.monotonic() > end:
                raise
        time.sleep(0.1)


def _install_once(connection: Connection, wanted: Object, *, replace: bool) -> Installed:
    name = str(wanted["metadata"]["name"])
    try:
        there: Any = connection.request("GET", DEFINITIONS.path(name=name))
    except KubernetesError as error:
        if error.status != _NOT_FOUND:
            raise
        connection.request("POST", DEFINITIONS.path(), wanted)
        _wait_established(connection, name)
        return Installed(name, "created")
    if there["metadata"].get("deletionTimestamp"):
        raise KubernetesError(
            f"The definition {name} is being deleted, and still has jobs that are not gone.",
            hint="See what keeps them, then try again: kubectl get "
            f"{wanted['spec']['names']['plural']} --all-namespaces",
            status=_CONFLICT,
        )
    if not _is_ours(there, wanted) and not replace:
        return Installed(name, "kept")
    version = there["metadata"]["resourceVersion"]
    body = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
    # The cluster fills in what a definition does not say: it says itself what would become of it.
    new = connection.request("PUT", DEFINITIONS.path(name=name), body, query={"dryRun": "All"})
    if new["spec"] == there["spec"] and labels_of(new) == labels_of(there):
        return Installed(name, "unchanged")
    connection.request("PUT", DEFINITIONS.path(name=name), body)
    _wait_established(connection, name)
    return Installed(name, "updated")


def _is_ours(there: Object, wanted: Object) -> bool:
    return labels_of(there).get(_MANAGER) == labels_of(wanted)[_MANAGER]


def _wait_established(connection: Connection, name: str) -> None:
    """Return when objects of that definition can be made: a moment after it is there."""
    end = time.monotonic() + _PATIENCE
    while True:
        there = connection.request("GET", DEFINITIONS.path(name=name))
        said = {each["type"]: each for each in (there.get("status") or {}).get("conditions") or ()}
        if said.get("Established", {}).get("status") == "True":
            return
        if time.monotonic() > end:
            why = said.get("NamesAccepted", {}).get("message") or "it does not say why"
            raise KubernetesError(
                f"The cluster does not take up the definition {name}: {why}",
                hint=f"See what it says: kubectl describe crd {name}",
            )
        time.sleep(0.1)
