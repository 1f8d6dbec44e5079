"""Binds a cursor to its query, so that it is valid only for the same list, filters and order.

A bound cursor consists of a hash of its query and the position in the list. In a query that has
different filters, the same position could skip rows that the client has never seen, so the cursor
is refused there.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from windlass.model.errors import InvalidArgument

_BOUND = re.compile(r"([A-Za-z0-9_-]{8})\.(.+)", re.ASCII | re.DOTALL)
_FREE = ("cursor", "limit")  # the page size may change from page to page


def hash_query(path: str, query: Mapping[str, Any]) -> str:
    """Return a hash of a query's path and of all its parameters except cursor and limit.

    >>> hash_query("/trials", {"state": "FAILED", "limit": 5})
    'po-K20C2'
    """
    pairs = sorted((name, value) for name, value in query.items() if name not in _FREE)
    digest = hashlib.blake2b(ascii((path, pairs)).encode(), digest_size=6)
    return base64.urlsafe_b64encode(digest.digest()).decode()


def bind(cursor: str, mark: str) -> str:
    """Return the cursor, prefixed with its query's hash."""
    return f"{mark}.{cursor}"


def unbind(cursor: str, mark: str) -> str:
    """Remove the hash from a cursor. Raise an error if the cursor belongs to a different query."""
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
