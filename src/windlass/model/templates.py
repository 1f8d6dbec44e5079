"""Templates: named sets of job fields that other jobs can reuse."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from windlass.model.requests import Name, Text, TrialKey

Fields = dict[Name, Any]


class TemplateRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored template. A job that names the template uses its fields."""

    id: int
    name: str
    created: float
    user: str = ""
    description: str = ""
    fields: dict[str, Any] = {}


class CreateTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request a new template. Repeating the request with the same key creates no second one."""

    key: TrialKey
    name: Name
    description: Text = ""
    fields: Fields = {}
    user: Annotated[str, msgspec.Meta(max_length=200)] = ""


class ChangeTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rename a template or replace all its fields. Existing trials stay unchanged."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    description: Text | msgspec.UnsetType = msgspec.UNSET
    fields: Fields | msgspec.UnsetType = msgspec.UNSET


class TemplatePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of templates, with the cursor for the next page."""

    items: tuple[TemplateRecord, ...]
    next: str | None = None
