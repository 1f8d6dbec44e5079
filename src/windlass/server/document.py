"""The OpenAPI document, true in what the framework cannot know: streams, raw bodies, faults.

The framework reads the routes; what a request or an answer looks like is asked of the structs
themselves, which are what both ends go by.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from litestar import Request
from litestar.openapi.plugins import JsonRenderPlugin

from windlass.model import wire
from windlass.model.records import ExperimentRecord, TrialRecord
from windlass.model.status import Event
from windlass.model.wire import API

_STRUCTS = (
    wire.CreateTrial, wire.StopTrial, wire.TrialPage, wire.ExperimentPage, wire.LogPage,
    wire.StreamEnd, wire.SnapshotAnswer, wire.ServerInfo, wire.Fault, TrialRecord,
    ExperimentRecord, Event,
)  # fmt: skip
_REFERENCE = "#/components/schemas/{name}"
_EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}
_FAULT = {
    "description": "What went wrong, and what to do about it.",
    "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(name="Fault")}}},
}


class Document(JsonRenderPlugin):
    """Renders the document as JSON."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return super().render(request, complete(openapi_schema))


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """The framework's document with what it lacks or has wrong."""
    document = copy.deepcopy(document)
    _, schemas = msgspec.json.schema_components(_STRUCTS, ref_template=_REFERENCE)
    document["components"]["schemas"] |= _portable(schemas)
    paths = document["paths"]
    for operations in paths.values():
        for operation in operations.values():
            operation["responses"].pop("400", None)  # the framework's own idea of a fault
            operation["responses"]["default"] = _FAULT
    paths[f"{API}/health"]["get"]["security"] = []
    paths[f"{API}/trials/{{trial_id}}/stream"]["get"]["responses"]["200"]["content"] = _EVENTS
    made = paths[f"{API}/trials"]["post"]["responses"]
    made["200"] = {"description": "The stream of the trial.", "content": _EVENTS}
    made["201"]["content"] = {
        "application/json": {"schema": {"$ref": _REFERENCE.format(name="TrialRecord")}}
    }
    paths[f"{API}/snapshots"]["post"]["requestBody"] = _raw("application/json")
    paths[f"{API}/blobs"]["post"]["requestBody"] = _raw("application/octet-stream")
    return document


def _raw(media_type: str) -> dict[str, Any]:
    """A body that the route reads by itself."""
    schema = {"type": "string", "format": "binary"} if "octet" in media_type else {}
    return {"required": True, "content": {media_type: {"schema": schema}}}


def _portable(schema: Any) -> Any:
    r"""The schema with patterns that all can read: what is `\Z` here is `$` elsewhere."""
    if isinstance(schema, dict):
        return {
            key: value.replace(r"\Z", "$") if key == "pattern" else _portable(value)
            for key, value in schema.items()
        }
    return [_portable(each) for each in schema] if isinstance(schema, list) else schema
