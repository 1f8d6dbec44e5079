"""Installs the custom resource definitions (CRDs) of TFJob and PyTorchJob."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import msgspec

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import Kind, Object, labels_of
from windlass.model.errors import KubernetesError
from windlass.operator.job_kinds import JOB_KINDS
from windlass.operator.permissions import check_may_install

DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"
)
_MANAGER = "app.kubernetes.io/managed-by"
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409
_PATIENCE = 30.0  # seconds that the cluster may take to accept a definition


class Installed(msgspec.Struct, frozen=True):
    """The result of installing one definition: "created", "updated", "unchanged" or "kept".

    "kept" means that a different operator's definition was left in place.
    """

    name: str
    what: str


def definition_texts() -> list[str]:
    """Return the definitions as YAML texts, one per kind of job."""
    folder = files("windlass.operator") / "definitions"
    return [(folder / f"{kind.kind.plural}.yaml").read_text() for kind in JOB_KINDS]


def definitions() -> list[Object]:
    """Return the definitions as Kubernetes objects."""
    import yaml  # the Kubernetes client installs this package

    return [yaml.safe_load(text) for text in definition_texts()]


def install(connection: Connection, *, replace: bool = False) -> list[Installed]:
    """Create or update the definitions. Only `replace` replaces another operator's definitions.

    `install(connect())` returns once the cluster accepts objects of these kinds.
    """
    wanted = definitions()
    check_may_install(connection, _needed_for(connection, wanted, replace=replace))
    return [_install(connection, definition, replace=replace) for definition in wanted]


def _needed_for(
    connection: Connection, wanted: Sequence[Object], *, replace: bool
) -> dict[str, set[str]]:
    """Return, for each definition name, the verbs that installing the definition needs.

    If the account may not read a definition, the result contains all verbs.
    """
    needed = {}
    for definition in wanted:
        name = str(definition["metadata"]["name"])
        try:
            installed = connection.request("GET", DEFINITIONS.path(name=name))
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, _FORBIDDEN):
                raise
            is_absent = error.status == _NOT_FOUND
            needed[name] = {"get", "create"} if is_absent else {"get", "create", "update"}
            continue
        needed[name] = {"get", "update"} if replace or _is_ours(installed, definition) else {"get"}
    return needed


def _install(connection: Connection, wanted: Object, *, replace: bool) -> Installed:
    """Install one definition. Try again if another client changes it at the same time."""
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
        installed: Any = connection.request("GET", DEFINITIONS.path(name=name))
    except KubernetesError as error:
        if error.status != _NOT_FOUND:
            raise
        connection.request("POST", DEFINITIONS.path(), wanted)
        _wait_established(connection, name)
        return Installed(name, "created")
    if installed["metadata"].get("deletionTimestamp"):
        raise KubernetesError(
            f"The definition {name} is being deleted, and still has jobs.",
            hint="See why they remain, then try again: kubectl get "
            f"{wanted['spec']['names']['plural']} --all-namespaces",
            status=_CONFLICT,
        )
    if not _is_ours(installed, wanted) and not replace:
        return Installed(name, "kept")
    version = installed["metadata"]["resourceVersion"]
    body = {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": version}}
    # The cluster fills in default values. Only a dry run shows whether the definition would change.
    new = connection.request("PUT", DEFINITIONS.path(name=name), body, query={"dryRun": "All"})
    if new["spec"] == installed["spec"] and labels_of(new) == labels_of(installed):
        return Installed(name, "unchanged")
    connection.request("PUT", DEFINITIONS.path(name=name), body)
    _wait_established(connection, name)
    return Installed(name, "updated")


def _is_ours(installed: Object, wanted: Object) -> bool:
    return labels_of(installed).get(_MANAGER) == labels_of(wanted)[_MANAGER]


def _wait_established(connection: Connection, name: str) -> None:
    """Wait until the cluster accepts objects of a definition."""
    end = time.monotonic() + _PATIENCE
    while True:
        definition = connection.request("GET", DEFINITIONS.path(name=name))
        conditions = {
            condition["type"]: condition
            for condition in (definition.get("status") or {}).get("conditions") or ()
        }
        if conditions.get("Established", {}).get("status") == "True":
            return
        if time.monotonic() > end:
            why = conditions.get("NamesAccepted", {}).get("message") or "no reason is given"
            raise KubernetesError(
                f"The cluster does not accept the definition {name}: {why}",
                hint=f"See its conditions: kubectl describe crd {name}",
            )
        time.sleep(0.1)
