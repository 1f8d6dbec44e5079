"""Errors that any layer of the server may raise or recognize."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from windlass.model.errors import WindlassError

HOW_TO_FREE_SPACE = (
    "Free some space (df -h and df -i show how much is left), then try "
    "again. Results of trials are not lost."
)


class MissingBlobs(WindlassError):
    """Raised if the server lacks blobs that a request refers to. The client then uploads them."""

    code = "missing_blobs"

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(f"{len(missing)} blobs are missing.")
        self.missing = tuple(missing)


class NoSpace(WindlassError):
    """Raised if the disk has too little free space."""

    code = "no_space"


def is_disk_full(error: BaseException) -> bool:
    """Return whether a full disk caused an exception."""
    return _is_caused_by(error, errno.ENOSPC, errno.EDQUOT)


def is_read_only(error: BaseException) -> bool:
    """Return whether a read-only file system caused an exception."""
    return _is_caused_by(error, errno.EROFS)


def _is_caused_by(error: BaseException | None, *numbers: int) -> bool:
    """Return whether an exception or one of its causes has one of these error numbers."""
    while error is not None:
        if getattr(error, "errno", None) in numbers:  # an error of the system or the database
            return True
        error = error.__cause__
    return False
