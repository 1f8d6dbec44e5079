"""The OpenAPI document of the routes, made from their signatures when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.model.wire import Fault
from windlass.server.http import JSON, OCTETS, Answer
from windlass.server.routing import Route

_REF = "#/components/schemas/{name}"


def document_of(
    routes: Iterable[Route], *, title: str, version: str, is_open: str
) -> dict[str, Any]:
    """The document. `is_open` is the one path that needs no token."""
    listed = list(routes)
    types: list[Any] = [Fault]
    for route in listed:
        types += [kind for kind in (route.body, _answer_type(route)) if kind is not None]
        types += [field.type for field in _fields(route)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    known = {repr(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in listed:
        operation = _operation(route, known)
        if route.path == is_open:
            operation["security"] = []
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "security": [{"token": []}],
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, known: dict[str, Any]) -> dict[str, Any]:
    name = route.handler.__name__
    fault = {"description": "Why not.", "content": {JSON: {"schema": known[repr(Fault)]}}}
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": (route.handler.__doc__ or "").strip(),
        "parameters": [*_path_parameters(route), *_query_parameters(route, known)],
        "responses": {
            str(route.status): {"description": "Done.", "content": _content(route, known)},
            "4XX": fault,
            "5XX": fault,
        },
    }
    if route.body is not None:
        content = {JSON: {"schema": known[repr(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    elif route.method == "POST":
        operation["requestBody"] = {"required": True, "content": {OCTETS: {}}}
    return operation


def _content(route: Route, known: dict[str, Any]) -> dict[str, Any]:
    kind = _answer_type(route)
    return {route.media_type: {} if kind is None else {"schema": known[repr(kind)]}}


def _answer_type(route: Route) -> Any:
    """What is answered as JSON; nothing for bytes and streams."""
    kind = route.hints["return"]
    if kind is Answer:
        return None
    kinds = [each for each in getattr(kind, "__args__", ()) if each is not Answer]
    is_either = Answer in getattr(kind, "__args__", ())
    return kinds[0] if is_either else kind


def _fields(route: Route) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(route.query) if route.query is not None else ()


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer"} if kind == "int" else {"type": "string", "minLength": 1},
        }
        for name, kind in route.blanks.items()
    ]


def _query_parameters(route: Route, known: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": field.name,
            "in": "query",
            "required": field.required,
            "schema": known[repr(field.type)],
        }
        for field in _fields(route)
    ]
