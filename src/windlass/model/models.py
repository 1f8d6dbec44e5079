"""Models and their versions. A version is a checkpoint, kept under a name for later use."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from windlass.model.requests import ChangeLabels, ChangeTrial, Labels, Name, Text, TrialKey
from windlass.model.text.names import proper_flaw

Metadata = dict[Name, Any]
LATEST = "latest"


class ModelRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model in a project. Its versions are checkpoints."""

    id: int
    name: str
    project: str
    created: float
    user: str = ""
    description: str = ""
    notes: str = ""
    labels: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    archived: bool = False
    versions: int = 0
    latest: int | None = None  # the highest version number
    aliases: dict[str, int] = {}


class ModelVersionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version of a model: a checkpoint with a version number."""

    id: int
    model_id: int
    model: str
    version: int
    checkpoint_id: int
    checkpoint_uid: str
    trial_id: int  # the trial that saved the checkpoint
    created: float
    step: int | None = None
    user: str = ""
    name: str = ""
    notes: str = ""
    labels: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    aliases: tuple[str, ...] = ()


class CreateModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request a new model. Repeating the request with the same key creates no second model."""

    key: TrialKey
    name: Name
    project: Name = "default"
    description: Text = ""
    labels: Labels = ()
    metadata: Metadata = {}
    user: Annotated[str, msgspec.Meta(max_length=200)] = ""
    exist_ok: bool = False  # return the existing model with this name, if any


class ChangeModel(ChangeTrial, frozen=True, kw_only=True, omit_defaults=True):
    """Change a model's metadata. Omitted fields stay unchanged."""

    project: Name | int | msgspec.UnsetType = msgspec.UNSET  # the target project
    archived: bool | msgspec.UnsetType = msgspec.UNSET
    put_metadata: Metadata = {}
    remove_metadata: tuple[Name, ...] = ()


class RegisterVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Register a checkpoint as a version of a model.

    If the checkpoint is already a version of the model, that version stays unchanged.
    """

    checkpoint: Annotated[str, msgspec.Meta(max_length=100)]  # the checkpoint's id or uid
    # the trial that sends the request; it may have saved the checkpoint moments ago
    trial_id: int | None = None
    name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    notes: Text = ""
    labels: Labels = ()
    metadata: Metadata = {}
    user: Annotated[str, msgspec.Meta(max_length=200)] = ""


class ChangeVersion(ChangeLabels, frozen=True, kw_only=True, omit_defaults=True):
    """Change a version's metadata. Omitted fields stay unchanged.

    An empty `name` removes the version's own name.
    """

    name: Annotated[str, msgspec.Meta(max_length=200)] | msgspec.UnsetType = msgspec.UNSET
    notes: Text | msgspec.UnsetType = msgspec.UNSET
    put_metadata: Metadata = {}
    remove_metadata: tuple[Name, ...] = ()


class SetAlias(msgspec.Struct, frozen=True, kw_only=True):
    """Point a model's alias at one of the model's versions.

    If the alias already exists, it is moved to this version.
    """

    version: int


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of models, with the cursor for the next page."""

    items: tuple[ModelRecord, ...]
    next: str | None = None


class VersionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a model's versions, with the cursor for the next page."""

    items: tuple[ModelVersionRecord, ...]
    next: str | None = None


def alias_flaw(alias: object) -> str:
    """Return why a value is not a valid alias, or "" if it is.

    >>> alias_flaw("production"), alias_flaw("latest")
    ('', "'latest' always names the newest version; choose another alias")
    """
    if flaw := proper_flaw(alias, "alias"):
        return flaw
    text = str(alias)
    if text == LATEST:
        return f"{text!r} always names the newest version; choose another alias"
    if text.isdecimal():
        return f"{text!r} cannot be an alias: it looks like a version number; add a letter"
    return ""
