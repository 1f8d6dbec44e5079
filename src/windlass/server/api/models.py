"""Routes for models and their versions: create, register, change, list, get and delete."""

from __future__ import annotations

import asyncio

from windlass.model.models import (
    ChangeModel,
    ChangeVersion,
    CreateModel,
    ModelPage,
    ModelRecord,
    ModelVersionRecord,
    RegisterVersion,
    SetAlias,
    VersionPage,
)
from windlass.model.requests import API
from windlass.server.services import Services
from windlass.server.web.label_query import LabelText, read_labels
from windlass.server.web.query_types import Cursor, Limit, MaybeText, Text
from windlass.server.web.routing import Route


async def list_models(
    services: Services,
    project: MaybeText = None,
    project_id: int | None = None,
    name: MaybeText = None,
    labels: LabelText = None,
    archived: bool | None = None,
    sort: Text = "id",
    cursor: Cursor | None = None,
    limit: Limit = 100,
) -> ModelPage:
    """List the models that match all filters, in sorted pages."""
    return await services.models.page(
        project=project,
        project_id=project_id,
        name=name,
        labels=read_labels(labels),
        archived=archived,
        sort=sort,
        cursor=cursor,
        limit=limit,
    )


async def create_model(services: Services, data: CreateModel) -> ModelRecord:
    """Create a model. Its name must be unique."""
    return await services.models.create(data)


async def get_model(services: Services, model_id: int) -> ModelRecord:
    """Return a model by id."""
    return await services.models.record(model_id)


async def find_model(services: Services, name: str) -> ModelRecord:
    """Return a model by name. If no model has this name, a number is taken as an id."""
    return await services.models.record(name)


async def change_model(services: Services, model_id: int, data: ChangeModel) -> ModelRecord:
    """Change a model's attributes, or move the model to another project."""
    return await services.models.change(model_id, data)


async def delete_model(services: Services, model_id: int) -> None:
    """Delete a model and its versions. The request also succeeds if the model does not exist."""
    await services.models.delete(model_id)


async def register_version(
    services: Services, model_id: int, data: RegisterVersion
) -> ModelVersionRecord:
    """Register a checkpoint as the next version of a model.

    If the checkpoint is already a version of the model, that version is returned.
    """
    if data.trial_id is not None:
        await asyncio.to_thread(services.checkpoints.take_in, data.trial_id)
    return await services.models.register(model_id, data)


async def list_versions(
    services: Services,
    model_id: int,
    labels: LabelText = None,
    sort: Text = "version",
    cursor: Cursor | None = None,
    limit: Limit = 100,
) -> VersionPage:
    """List a model's versions in sorted pages."""
    return await services.models.version_page(
        model_id, labels=read_labels(labels), sort=sort, cursor=cursor, limit=limit
    )


async def get_version(services: Services, model_id: int, which: str) -> ModelVersionRecord:
    """Return a model version by its number, by an alias, or by the name `latest`."""
    return await services.models.version(model_id, which)


async def change_version(
    services: Services, model_id: int, version: int, data: ChangeVersion
) -> ModelVersionRecord:
    """Change a version's attributes."""
    return await services.models.change_version(model_id, version, data)


async def delete_version(services: Services, model_id: int, version: int) -> None:
    """Delete a version that has no alias.

    The request also succeeds if the version does not exist.
    """
    await services.models.delete_version(model_id, version)


async def set_alias(services: Services, model_id: int, alias: str, data: SetAlias) -> ModelRecord:
    """Point an alias at a version instead of at its previous version, if any."""
    return await services.models.set_alias(model_id, alias, data.version)


async def remove_alias(services: Services, model_id: int, alias: str) -> ModelRecord:
    """Remove an alias."""
    return await services.models.remove_alias(model_id, alias)


_MODELS = f"{API}/models"
_MODEL = f"{_MODELS}/{{model_id:int}}"
_VERSION = f"{_MODEL}/versions/{{version:int}}"
_ALIAS = f"{_MODEL}/aliases/{{alias:path}}"
routes = [
    Route("POST", _MODELS, create_model, status=201),
    Route("GET", _MODELS, list_models),
    Route("GET", _MODEL, get_model),
    Route("PATCH", _MODEL, change_model),
    Route("DELETE", _MODEL, delete_model),
    Route("GET", f"{_MODELS}/named/{{name:path}}", find_model),
    Route("POST", f"{_MODEL}/versions", register_version, status=201),
    Route("GET", f"{_MODEL}/versions", list_versions),
    Route("GET", f"{_MODEL}/versions/{{which:path}}", get_version),
    Route("PATCH", _VERSION, change_version),
    Route("DELETE", _VERSION, delete_version),
    Route("PUT", _ALIAS, set_alias),
    Route("DELETE", _ALIAS, remove_alias),
]
