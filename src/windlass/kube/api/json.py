"""Parses JSON responses, even if they contain deeply nested data.

Users can put arbitrary data into objects, and Python's parser fails on data that is nested too
deeply. Such data is omitted, so that one object does not make all other objects unreadable.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

DEEPEST = 100  # levels of nesting; real pods have less than a quarter of that
_MARK = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)


def read(data: bytes) -> Any:
    """Parse JSON. Raise `ValueError` if the data is not valid JSON.

    >>> read(b'{"kind": "Pod"}')
    {'kind': 'Pod'}
    >>> deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    >>> sorted(read(b'{"name": "x", "spec": %b}' % deep))
    ['name', 'spec']
    """
    try:
        return _decode(data)
    except RecursionError:
        return _decode(without_depths(data))


def without_depths(data: bytes, deepest: int = DEEPEST) -> bytes:
    """Return the JSON text with null in place of all values nested deeper than `deepest` levels.

    >>> without_depths(b'{"a": {"b": [{"c": "}"}, 1]}, "d": 2}', deepest=2)
    b'{"a": {"b": null}, "d": 2}'
    """
    kept, depth, taken = [], 0, 0
    for mark in _MARK.finditer(data):
        sign = mark[0]
        if sign in b"[{":
            if depth == deepest:
                kept += [data[taken : mark.start()], b"null"]
            depth += 1
        elif sign in b"]}":
            depth -= 1
            if depth == deepest:
                taken = mark.end()
    return b"".join([*kept, data[taken:]])


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
