"""Binding of cursors: a cursor is valid only for the list, filters and order it came with.

A bound cursor starts with a hash of the query that produced it, followed by the list's own
position. With other filters the position would point into a list whose beginning the client has not
seen.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from windlass.model.errors import InvalidArgument

_BOUND = re.compile(r"([A-Za-z0-9_-]{8})\.(.+)", re.ASCII | re.DOTALL)
_FREE = ("cursor", "limit")  # pages of one list may differ in size


def hash_query(path: str, query: Mapping[str, Any]) -> str:
    """Return the hash of a query: the path and all parameters except cursor and limit.

    >>> hash_query("/trials", {"state": "FAILED", "limit": 5})
    'po-K20C2'
    """
    pairs = sorted((name, value) for name, value in query.items() if name not in _FREE)
    digest = hashlib.blake2b(ascii((path, pairs)).encode(), digest_size=6)
    return base64.urlsafe_b64encode(digest.digest()).decode()


def bind(cursor: str, mark: str) -> str:
    """Return a cursor in the form that clients get."""
    return f"{mark}.{cursor}"


def unbind(cursor: str, mark: str) -> str:
    """Return the list's own part of a cursor; refuse a cursor of another query."""
    parts = _BOUND.fullmatch(cursor)
    if parts is None:
        raise InvalidArgument(
            "The cursor is not from this list.", hint="Start again without a cursor."
        )
    if parts[1] != mark:
        raise InvalidArgument(
            "The cursor belongs to another request: another list, other filters or another order.",
            hint="Repeat the request of the previous page, or start again without a cursor.",
        )
    return parts[2]
