"""A cursor is of one question: it is good for the list, filters and order that it came with.

Before what the list itself wrote into it stands a mark of the question as it was asked. With
other filters its place would be somewhere in a list that nobody has seen the beginning of.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from windlass.model.errors import InvalidArgument

_BOUND = re.compile(r"([A-Za-z0-9_-]{8})\.(.+)", re.ASCII | re.DOTALL)
_FREE = ("cursor", "limit")  # pages of one list may be of any size


def mark_of(path: str, query: Mapping[str, Any]) -> str:
    """The mark of a question: where it is asked, and all of it but which page.

    >>> mark_of("/trials", {"state": "FAILED", "limit": 5})
    'po-K20C2'
    """
    pairs = sorted((name, value) for name, value in query.items() if name not in _FREE)
    digest = hashlib.blake2b(ascii((path, pairs)).encode(), digest_size=6)
    return base64.urlsafe_b64encode(digest.digest()).decode()


def bind(cursor: str, mark: str) -> str:
    """A cursor as it is given out."""
    return f"{mark}.{cursor}"


def unbind(cursor: str, mark: str) -> str:
    """What the list wrote into a cursor; that of another question is refused."""
    parts = _BOUND.fullmatch(cursor)
    if parts is None:
        raise InvalidArgument(
            "The cursor is not one this list gave out.", hint="Start again without a cursor."
        )
    if parts[1] != mark:
        raise InvalidArgument(
            "The cursor is of another question: another list, other filters or another order.",
            hint="Ask as for the page before, or start again without a cursor.",
        )
    return parts[2]
