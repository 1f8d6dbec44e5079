"""Routes for templates: create, change, list, get and delete."""

from __future__ import annotations

from windlass.model.requests import API
from windlass.model.templates import ChangeTemplate, CreateTemplate, TemplatePage, TemplateRecord
from windlass.server.services import Services
from windlass.server.web.query_types import Cursor, Limit, Text
from windlass.server.web.routing import Route


async def list_templates(
    services: Services,
    name: Text | None = None,
    sort: Text = "id",
    cursor: Cursor | None = None,
    limit: Limit = 100,
) -> TemplatePage:
    """List templates in sorted pages."""
    return await services.templates.page(name=name, sort=sort, cursor=cursor, limit=limit)


async def create_template(services: Services, data: CreateTemplate) -> TemplateRecord:
    """Create a template. Its name must be unique."""
    return await services.templates.create(data)


async def get_template(services: Services, template_id: int) -> TemplateRecord:
    """Return a template by id."""
    return await services.templates.record(template_id)


async def find_template(services: Services, name: str) -> TemplateRecord:
    """Return a template by name. If no template has this name, a number is taken as an id."""
    return await services.templates.record(name)


async def change_template(
    services: Services, template_id: int, data: ChangeTemplate
) -> TemplateRecord:
    """Change a template's name or fields. Existing trials do not change."""
    return await services.templates.change(template_id, data)


async def delete_template(services: Services, template_id: int) -> None:
    """Delete a template. The request also succeeds if the template does not exist."""
    await services.templates.delete(template_id)


_TEMPLATES = f"{API}/templates"
_TEMPLATE = f"{_TEMPLATES}/{{template_id:int}}"
routes = [
    Route("POST", _TEMPLATES, create_template, status=201),
    Route("GET", _TEMPLATES, list_templates),
    Route("GET", _TEMPLATE, get_template),
    Route("PATCH", _TEMPLATE, change_template),
    Route("DELETE", _TEMPLATE, delete_template),
    Route("GET", f"{_TEMPLATES}/named/{{name:path}}", find_template),
]
