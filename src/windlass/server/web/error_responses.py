"""Converts exceptions to HTTP responses that have a status code and `{code, message, hint}`."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from windlass.model.errors import WindlassError
from windlass.model.requests import Fault
from windlass.server.errors import (
    HOW_TO_FREE_SPACE,
    MissingBlobs,
    NoSpace,
    is_disk_full,
    is_read_only,
)
from windlass.server.web.messages import Answer, Refused

_log = logging.getLogger("windlass")
_STATUS = {
    "unauthorized": 401,
    "not_found": 404,
    "conflict": 409,
    "missing_blobs": 409,
    "no_space": 507,
    "server": 500,
}
_SEE_TYPES = "See the types of requests: GET /api/v1/schema/openapi.json"


def answer_to(error: Exception, home: Path) -> Answer:
    """Return the response for a request whose handler raised this error."""
    if isinstance(error, Refused):
        return Answer(msgspec.json.encode(error.fault), error.status, headers=error.headers)
    fault = to_fault(error, home)
    return Answer(msgspec.json.encode(fault), _STATUS.get(fault.code, 400))


def to_fault(error: Exception, home: Path) -> Fault:
    """Convert an exception to the error object that is sent to the client."""
    if isinstance(error, MissingBlobs):
        return Fault(code=error.code, message=error.message, missing=error.missing)
    if isinstance(error, WindlassError):
        return Fault(code=error.code, message=error.message, hint=error.hint)
    if isinstance(error, msgspec.ValidationError):
        return Fault(code="invalid_argument", message=_validation_text(error), hint=_SEE_TYPES)
    if isinstance(error, RecursionError):
        message = "The request is nested too deeply."
        return Fault(code="invalid_argument", message=message, hint=_SEE_TYPES)
    if isinstance(error, (UnicodeError, msgspec.MsgspecError)):
        message = "The request is not valid JSON in UTF-8."
        return Fault(code="invalid_argument", message=message, hint=_SEE_TYPES)
    if is_disk_full(error):
        return Fault(
            code=NoSpace.code,
            message=f"The disk is full: nothing can be written to {home}.",
            hint=HOW_TO_FREE_SPACE,
        )
    if is_read_only(error):
        return Fault(
            code="server",
            message=f"Nothing can be written to {home}: it is read-only.",
            hint="Make it writable, then try again. Running trials continue.",
        )
    _log.error("a request failed", exc_info=error)
    return Fault(
        code="server",
        message=f"The server had an internal error: {type(error).__name__}.",
        hint="See its log: windlass server logs",
    )


def _validation_text(error: msgspec.ValidationError) -> str:
    """Rewrite a msgspec error message about `$.limit` as `limit: Expected `int` >= 1`."""
    what, _, where = str(error).partition(" - at `$")
    field = where.rstrip("`").lstrip(".")
    return f"{field}: {what}" if field else what
