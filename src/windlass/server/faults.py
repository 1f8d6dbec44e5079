"""Errors as the API tells them: `{code, message, hint}`, and the right status."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from windlass.model.errors import WindlassError
from windlass.model.wire import Fault
from windlass.server.http import Answer, Refused

_log = logging.getLogger("windlass")
HOW_TO_MAKE_ROOM = (
    "Free some space (df -h and df -i tell how much is left), then try again; what ran is not lost."
)
_STATUS = {
    "unauthorized": 401,
    "not_found": 404,
    "conflict": 409,
    "missing_blobs": 409,
    "no_space": 507,
    "server": 500,
}


class MissingBlobs(WindlassError):
    """The client has to send these blobs first."""

    code = "missing_blobs"

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(f"{len(missing)} blobs are missing.")
        self.missing = tuple(missing)


class NoSpace(WindlassError):
    """The disk is full."""

    code = "no_space"


def answer_to(error: Exception, home: Path) -> Answer:
    """The answer to a request that raised this."""
    if isinstance(error, Refused):
        return Answer(msgspec.json.encode(error.fault), error.status, headers=error.headers)
    fault = to_fault(error, home)
    return Answer(msgspec.json.encode(fault), _STATUS.get(fault.code, 400))


def to_fault(error: Exception, home: Path) -> Fault:
    """What a client is told of an exception."""
    if isinstance(error, MissingBlobs):
        return Fault(code=error.code, message=error.message, missing=error.missing)
    if isinstance(error, WindlassError):
        return Fault(code=error.code, message=error.message, hint=error.hint)
    if isinstance(error, msgspec.ValidationError):
        return Fault(code="invalid_argument", message=_validation_text(error))
    if isinstance(error, RecursionError):
        return Fault(code="invalid_argument", message="The request is nested too deeply.")
    if isinstance(error, (UnicodeError, msgspec.MsgspecError)):
        return Fault(code="invalid_argument", message="The request is no JSON, or no UTF-8.")
    if is_no_space(error, home):
        return Fault(
            code=NoSpace.code,
            message=f"The disk is full: nothing can be written to {home}.",
            hint=HOW_TO_MAKE_ROOM,
        )
    if _is_read_only(error):
        return Fault(
            code="server",
            message=f"Nothing can be written to {home}: it is read-only.",
            hint="Make it writable again, then try again; what runs goes on.",
        )
    _log.error("a request failed", exc_info=error)
    return Fault(
        code="server",
        message=f"The server met a fault of its own: {type(error).__name__}.",
        hint="Its log says more: windlass server logs",
    )


def is_no_space(error: BaseException, home: Path) -> bool:
    """Whether an exception comes of a full disk."""
    # SQLite says "disk I/O error" where it cannot even begin.
    if _comes_of(error, (errno.ENOSPC, errno.EDQUOT), ("disk is full", "disk I/O error")):
        return True
    # It does not say why it could not make a file.
    room = os.statvfs(home)
    has_inodes = not room.f_files or room.f_favail > 0  # not every file system counts them
    return not has_inodes and _comes_of(error, (), ("unable to open database file",))


def _is_read_only(error: BaseException) -> bool:
    return _comes_of(error, (errno.EROFS,), ("readonly database",))


def _comes_of(error: BaseException | None, numbers: tuple[int, ...], said: Sequence[str]) -> bool:
    """Whether an exception is, or was caused by, such an error of the system or of SQLite."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in numbers:
            return True
        if isinstance(error, sqlite3.OperationalError) and any(text in str(error) for text in said):
            return True
        error = error.__cause__
    return False


def _validation_text(error: msgspec.ValidationError) -> str:
    """`limit: Expected `int` >= 1`, of what msgspec says of `$.limit`."""
    what, _, where = str(error).partition(" - at `$")
    place = where.rstrip("`").lstrip(".")
    return f"{place}: {what}" if place else what
