"""Defines `wl.Model` and `wl.ModelVersion`, the entries of the model registry."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.arguments.metadata_checks import (
    check_config,
    check_labels,
    check_place,
    check_text,
    label_query,
)
from windlass.client.connection.pages import Listing, walk
from windlass.client.connection.transport import request_path
from windlass.client.resources.base import Archivable, get_resource, list_resources
from windlass.client.resources.metadata import Described, HasMetadata, Labelled
from windlass.model.errors import InvalidArgument, shown
from windlass.model.models import (
    LATEST,
    ChangeModel,
    ChangeVersion,
    CreateModel,
    ModelPage,
    ModelRecord,
    ModelVersionRecord,
    RegisterVersion,
    SetAlias,
    VersionPage,
    alias_flaw,
)
from windlass.model.text import names

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self, Unpack

    from windlass.client.arguments.filters import Filters
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.checkpoint import Checkpoint
    from windlass.client.resources.trial.trial import Trial
    from windlass.client.resources.workspace import Project


class Model(Archivable[ModelRecord], Described[ModelRecord], HasMetadata[ModelRecord]):
    """A named series of versions in the model registry. Each version is a checkpoint.

    ```python
    model = wl.create_model("classifier", description="Cats or dogs.", exist_ok=True)
    for checkpoint in wl.list_checkpoints(sort_by="-id", limit=1):
        version = model.register_version(checkpoint)
        model.set_alias("production", version.version)
    print(model.versions, model.aliases)
    ```
    """

    _collection = "models"
    _record_type = ModelRecord
    _change_type = ChangeModel

    @property
    def project(self) -> str:
        """The name of the project that contains the model."""
        return self._record.project

    @property
    def user(self) -> str:
        """The user who created the model."""
        return self._record.user

    @property
    def versions(self) -> int:
        """The number of versions of the model."""
        return self._record.versions

    @property
    def latest(self) -> int | None:
        """The latest version's number, or None if the model has no versions."""
        return self._record.latest

    @property
    def aliases(self) -> dict[str, int]:
        """The aliases and their version numbers, such as `{"production": 3}`."""
        return self._record.aliases

    def set_name(self, name: str) -> Self:
        """Rename the model. Model names are unique.

        ```python
        wl.create_model("clasifier", exist_ok=True).set_name("cats-or-dogs").delete()
        ```
        """
        names.check(names.proper_flaw(name, "model"))
        return self._change(name=name)

    def move_to(self, project: Project | str) -> Self:
        """Move the model to another project, which is created if needed.

        ```python
        wl.create_model("classifier", exist_ok=True).move_to("vision")
        ```
        """
        return self._change(project=check_place(project))

    def register_version(
        self,
        checkpoint: Checkpoint | int | str,
        *,
        name: str = "",
        notes: str = "",
        labels: Sequence[str] = (),
        metadata: dict[str, Any] | None = None,
    ) -> ModelVersion:
        """Register a checkpoint as the next version.

        `checkpoint` is a checkpoint, its id or its uid. If it is already a version of this model,
        that version is returned unchanged. A checkpoint cannot be deleted while it is a version.
        Inside a trial, call `register_version(wl.save_checkpoint(path))`.

        ```python
        model = wl.create_model("classifier", exist_ok=True)
        for checkpoint in wl.list_checkpoints(limit=1):
            print(model.register_version(checkpoint, labels=["baseline"]).version)
        ```
        """
        from windlass.client.resources.checkpoint import Checkpoint

        key = checkpoint.uid if isinstance(checkpoint, Checkpoint) else checkpoint
        if not _is_key(key):
            raise InvalidArgument(
                f"{shown(checkpoint)} is not a checkpoint.",
                hint="Pass a checkpoint or its id. See: wl.list_checkpoints(), windlass "
                "checkpoint ls",
            )
        inside = os.environ.get("WINDLASS_TRIAL_ID", "")
        request = RegisterVersion(
            checkpoint=str(key),
            trial_id=int(inside) if inside.isdecimal() else None,
            name=_check_name(name),
            notes=check_text("notes", notes),
            labels=check_labels(labels),
            metadata=check_config(metadata),
            user=own_name(),
        )
        path = request_path("models", self.id, "versions")
        record = self._transport.ask("POST", path, ModelVersionRecord, body=request)
        self.refresh()
        return ModelVersion(self._transport, record)

    def get_version(self, which: int | str = LATEST) -> ModelVersion:
        """Return a version by its number or alias. `"latest"` means the newest version.

        ```python
        model = wl.create_model("classifier", exist_ok=True)
        if model.versions:
            model.get_version().download("newest-model")
        ```
        """
        if not _is_key(which):
            raise InvalidArgument(
                f"{shown(which)} is neither a version number nor an alias.",
                hint=f"See: windlass model show {self.name}",
            )
        path = request_path("models", self.id, "versions", which)
        record = self._transport.ask("GET", path, ModelVersionRecord)
        return ModelVersion(self._transport, record)

    def list_versions(
        self,
        *,
        labels: str | Sequence[str] | None = None,
        sort_by: str = "version",
        limit: int | None = None,
    ) -> Listing[ModelVersion]:
        """List the versions. With `labels`, list only versions that have all of them.

        ```python
        for version in wl.create_model("classifier", exist_ok=True).list_versions():
            print(version.version, version.aliases, version.step)
        ```
        """
        query = {"labels": label_query(labels), "sort": sort_by}
        path = request_path("models", self.id, "versions")
        pages = walk(self._transport, path, VersionPage, query, limit)
        return pages.map(lambda record: ModelVersion(self._transport, record))

    def set_alias(self, alias: str, version: int | ModelVersion) -> Self:
        """Point an alias at a version. The change is atomic.

        ```python
        model = wl.create_model("classifier", exist_ok=True)
        if model.latest:
            model.set_alias("production", model.latest)
        ```
        """
        names.check(alias_flaw(alias), "alias: ")
        number = version.version if isinstance(version, ModelVersion) else version
        if isinstance(number, bool) or not isinstance(number, int):
            raise InvalidArgument(
                f"{shown(version)} is not a version. Write a number or a wl.ModelVersion.",
                hint='To use the version of another alias: model.set_alias("production",'
                ' model.get_version("staging"))',
            )
        path = request_path("models", self.id, "aliases", alias)
        body = SetAlias(version=number)
        self._record = self._transport.ask("PUT", path, ModelRecord, body=body)
        return self

    def remove_alias(self, alias: str) -> Self:
        """Remove an alias. Do nothing if it does not exist."""
        names.check(alias_flaw(alias), "alias: ")
        path = request_path("models", self.id, "aliases", alias)
        self._record = self._transport.ask("DELETE", path, ModelRecord)
        return self

    def delete(self) -> None:
        """Delete the model with all its versions.

        The checkpoints stay. You can delete them afterwards.
        """
        super().delete()

    def __repr__(self) -> str:
        many = "1 version" if self.versions == 1 else f"{self.versions} versions"
        aliases = "".join(f", {alias} is {number}" for alias, number in self.aliases.items())
        return f"<Model {self.name}: {many}{aliases}>"


class ModelVersion(Labelled[ModelVersionRecord], HasMetadata[ModelVersionRecord]):
    """One version of a model: a checkpoint with a version number, notes and metadata.

    ```python
    model = wl.create_model("classifier", exist_ok=True)
    for version in model.list_versions(sort_by="-version"):
        print(version.version, version.checkpoint_id, version.aliases)
    ```
    """

    _record_type = ModelVersionRecord
    _change_type = ChangeVersion

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._record.model

    @property
    def version(self) -> int:
        """The version's number. The first version is 1, and numbers are never reused."""
        return self._record.version

    @property
    def checkpoint_id(self) -> int:
        """The id of the checkpoint that this version refers to."""
        return self._record.checkpoint_id

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint that this version refers to. Each access fetches the checkpoint."""
        from windlass.client.resources.checkpoint import get_checkpoint

        return get_checkpoint(self._transport, self.checkpoint_id)

    @property
    def trial_id(self) -> int:
        """The id of the trial that saved the checkpoint."""
        return self._record.trial_id

    @property
    def trial(self) -> Trial[Any]:
        """The trial that saved the checkpoint. Each access fetches the trial."""
        from windlass.client.resources.trial.trial import get_trial

        return get_trial(self._transport, self.trial_id)

    @property
    def step(self) -> int | None:
        """The training step at which the checkpoint was saved, or None."""
        return self._record.step

    @property
    def user(self) -> str:
        """The user who registered this version."""
        return self._record.user

    @property
    def notes(self) -> str:
        """User-written notes about the version."""
        return self._record.notes

    @property
    def aliases(self) -> tuple[str, ...]:
        """The aliases that point at this version."""
        return self._record.aliases

    def set_name(self, name: str) -> Self:
        """Name the version, in addition to its number. An empty string removes the name."""
        return self._change(name=_check_name(name))

    def set_notes(self, text: str) -> Self:
        """Replace the version's notes."""
        return self._change(notes=check_text("notes", text))

    def download(self, folder: str | os.PathLike[str]) -> Path:
        """Write the version's files to a folder, as `Checkpoint.download` does.

        Return the path of the copy.

        ```python
        for version in wl.create_model("classifier", exist_ok=True).list_versions():
            version.download(f"classifier-{version.version}")
        ```
        """
        return self.checkpoint.download(folder)

    def delete(self) -> None:
        """Delete the version. Its number is not reused, and its checkpoint stays.

        If an alias points at the version, an error is raised. Point the alias at another version
        first.
        """
        super().delete()

    @property
    def _path(self) -> str:
        return request_path("models", self._record.model_id, "versions", self.version)

    def __repr__(self) -> str:
        aliases = f" ({', '.join(self.aliases)})" if self.aliases else ""
        return (
            f"<ModelVersion {self.model} {self.version}{aliases}: checkpoint {self.checkpoint_id}>"
        )


def create_model(
    transport: Transport,
    name: str,
    project: str | None,
    description: str,
    labels: Sequence[str],
    metadata: Mapping[str, Any] | None,
    *,
    exist_ok: bool,
) -> Model:
    """Create a model in the model registry."""
    names.check(names.proper_flaw(name, "model"))
    request = CreateModel(
        key=uuid.uuid4().hex,  # makes a retried request harmless
        name=name,
        project=str(check_place("default" if project is None else project)),
        description=check_text("description", description),
        labels=check_labels(labels),
        metadata=check_config(metadata),
        user=own_name(),
        exist_ok=exist_ok,
    )
    return Model(transport, transport.ask("POST", "/models", ModelRecord, body=request))


def get_model(transport: Transport, id_or_name: int | str) -> Model:
    """Fetch a model by its id or name."""
    return get_resource(transport, Model, id_or_name, "model")


def list_models(
    transport: Transport, *, sort_by: str, limit: int | None, **filters: Unpack[Filters]
) -> Listing[Model]:
    """List the models that match the filters, fetching pages on demand."""
    return list_resources(transport, Model, ModelPage, sort_by=sort_by, limit=limit, **filters)


def own_name() -> str:
    """Return the name of this process's user."""
    from windlass.packaging.provenance import user_name

    return user_name()[:200]


def _is_key(value: Any) -> bool:
    """Return whether a value can name a version, as an integer or a non-empty string."""
    return isinstance(value, (int, str)) and not isinstance(value, bool) and value != ""


def _check_name(name: Any) -> str:
    names.check(names.name_flaw(name) if name != "" else "", "name: ")
    checked: str = name
    return checked
