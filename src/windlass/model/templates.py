"""Templates: named sets of the fields of jobs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from windlass.model.requests import Name, Text, TrialKey

Fields = dict[Name, Any]


class TemplateRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields that jobs can be given by a name."""

    id: int
    name: str
    created: float
    user: str = ""
    description: str = ""
    fields: dict[str, Any] = {}


class CreateTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for a template. Sent twice with one key, it makes one."""

    key: TrialKey
    name: Name
    description: Text = ""
    fields: Fields = {}
    user: Annotated[str, msgspec.Meta(max_length=200)] = ""


class ChangeTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Have other fields, all of them replaced, or another name; trials stay as they are."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    description: Text | msgspec.UnsetType = msgspec.UNSET
    fields: Fields | msgspec.UnsetType = msgspec.UNSET


class TemplatePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some templates, and where the next ones begin."""

    items: tuple[TemplateRecord, ...]
    next: str | None = None
