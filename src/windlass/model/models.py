"""Models and their versions: checkpoints that people mean to use."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from windlass.model.requests import ChangeLabels, ChangeTrial, Labels, Name, Text, TrialKey
from windlass.model.text.names import proper_flaw

Metadata = dict[Name, Any]
LATEST = "latest"


class ModelRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named line of versions, in a project."""

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
    latest: int | None = None  # the highest number that there is
    aliases: dict[str, int] = {}


class ModelVersionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One checkpoint under a number of its model."""

    id: int
    model_id: int
    model: str
    version: int
    checkpoint_id: int
    checkpoint_uid: str
    trial_id: int  # that saved it
    created: float
    step: int | None = None
    user: str = ""
    name: str = ""
    notes: str = ""
    labels: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    aliases: tuple[str, ...] = ()


class CreateModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for a model. Sent twice with one key, it makes one."""

    key: TrialKey
    name: Name
    project: Name = "default"
    description: Text = ""
    labels: Labels = ()
    metadata: Metadata = {}
    user: Annotated[str, msgspec.Meta(max_length=200)] = ""
    exist_ok: bool = False  # then the one of that name, if there is one


class ChangeModel(ChangeTrial, frozen=True, kw_only=True, omit_defaults=True):
    """Have other metadata; what is not given stays."""

    project: Name | int | msgspec.UnsetType = msgspec.UNSET  # the one to move to
    archived: bool | msgspec.UnsetType = msgspec.UNSET
    put_metadata: Metadata = {}
    remove_metadata: tuple[Name, ...] = ()


class RegisterVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask that a checkpoint is a version; the one that it is already stays as it is."""

    checkpoint: Annotated[str, msgspec.Meta(max_length=100)]  # its id or uid
    trial_id: int | None = None  # the trial that asks: it may just have saved it
    name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    notes: Text = ""
    labels: Labels = ()
    metadata: Metadata = {}
    user: Annotated[str, msgspec.Meta(max_length=200)] = ""


class ChangeVersion(ChangeLabels, frozen=True, kw_only=True, omit_defaults=True):
    """Have other metadata; what is not given stays. A name may be empty."""

    name: Annotated[str, msgspec.Meta(max_length=200)] | msgspec.UnsetType = msgspec.UNSET
    notes: Text | msgspec.UnsetType = msgspec.UNSET
    put_metadata: Metadata = {}
    remove_metadata: tuple[Name, ...] = ()


class SetAlias(msgspec.Struct, frozen=True, kw_only=True):
    """Have an alias name a version, whichever it named before."""

    version: int


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some models, and where the next ones begin."""

    items: tuple[ModelRecord, ...]
    next: str | None = None


class VersionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some versions of a model, and where the next ones begin."""

    items: tuple[ModelVersionRecord, ...]
    next: str | None = None


def alias_flaw(alias: object) -> str:
    """What keeps something from being an alias; empty if nothing does.

    >>> alias_flaw("production"), alias_flaw("latest")
    ('', "'latest' is the newest version already; choose another alias")
    """
    if flaw := proper_flaw(alias, "alias"):
        return flaw
    text = str(alias)
    if text == LATEST:
        return f"{text!r} is the newest version already; choose another alias"
    if text.isdecimal():
        return f"{text!r} is no alias: it would be taken for the number of a version"
    return ""
