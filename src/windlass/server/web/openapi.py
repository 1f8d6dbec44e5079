"""Builds the OpenAPI document from the routes' signatures when a client requests it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.model.requests import Fault
from windlass.server.web.messages import EVENTS, JSON, OCTETS, Answer
from windlass.server.web.routing import Route

_REF = "#/components/schemas/{name}"
_TEXT = {"type": "string"}


def build_document(
    routes: Iterable[Route], *, title: str, version: str, is_open: str
) -> dict[str, Any]:
    """Return the OpenAPI document. `is_open` is the only path that needs no token."""
    listed = list(routes)
    types: list[Any] = [Fault]
    for route in listed:
        types += [kind for kind in (route.body, _answer_type(route)) if kind is not None]
        types += [field.type for field in _fields(route)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_by_type = {
        repr(kind): _portable(schema) for kind, schema in zip(types, schemas, strict=True)
    }
    paths: dict[str, dict[str, Any]] = {}
    for route in listed:
        operation = _operation(route, schema_by_type)
        if route.path == is_open:
            operation["security"] = []
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "security": [{"token": []}],
        "components": {
            "schemas": _portable(components),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schema_by_type: dict[str, Any]) -> dict[str, Any]:
    name = route.handler.__name__
    done = {"description": "Done.", "content": _content(route, schema_by_type)}
    fault = {
        "description": "The error and a hint.",
        "content": {JSON: {"schema": schema_by_type[repr(Fault)]}},
    }
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": (route.handler.__doc__ or "").strip(),
        "parameters": [*_path_parameters(route), *_query_parameters(route, schema_by_type)],
        "responses": {str(route.status): done, "default": fault},
    }
    if _is_either(route):
        stream = {"description": "Done, and followed.", "content": {EVENTS: {"schema": _TEXT}}}
        operation["responses"]["200"] = stream
    if route.body is not None:
        content = {JSON: {"schema": schema_by_type[repr(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    elif route.method == "POST":
        content = {OCTETS: {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _content(route: Route, schema_by_type: dict[str, Any]) -> dict[str, Any]:
    kind = _answer_type(route)
    schema = _TEXT if kind is None else schema_by_type[repr(kind)]
    return {route.media_type: {"schema": schema}}


def _answer_type(route: Route) -> Any:
    """Return the type of a route's JSON response, or None for bytes and streams."""
    kind = route.hints["return"]
    if kind is Answer:
        return None
    return kind.__args__[0] if _is_either(route) else kind


def _is_either(route: Route) -> bool:
    """Return whether a route answers with either JSON or a stream, as the client prefers."""
    return Answer in getattr(route.hints["return"], "__args__", ())


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


def _query_parameters(route: Route, schema_by_type: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": field.name,
            "in": "query",
            "required": field.required,
            "schema": schema_by_type[repr(field.type)]
            | ({} if field.default in (None, msgspec.NODEFAULT) else {"default": field.default}),
        }
        for field in _fields(route)
    ]


def _portable(schema: Any) -> Any:
    r"""Return a copy of a JSON schema in which `$` replaces Python's `\Z` in patterns.

    Other languages do not know `\Z`.
    """
    if isinstance(schema, dict):
        return {
            key: value.replace(r"\Z", "$") if key == "pattern" else _portable(value)
            for key, value in schema.items()
        }
    return [_portable(item) for item in schema] if isinstance(schema, list) else schema
