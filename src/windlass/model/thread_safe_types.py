"""Prepares msgspec types whose values several threads decode at the same time.

msgspec analyses a struct type when one of its values is first decoded. If two threads start this
analysis for the same type at the same time, the process crashes with SIGSEGV.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_analysed: set[object] = set()


@overload
def learned(kind: type[T]) -> type[T]: ...


@overload
def learned(kind: object) -> Any: ...  # a union is not a type


def learned(kind: Any) -> Any:
    """Return `kind` after msgspec has analysed it.

    Pass every type to this function before decoding values of the type.

    >>> class Point(msgspec.Struct):
    ...     x: int
    >>> msgspec.json.decode(b'{"x": 1}', type=learned(Point))
    Point(x=1)
    """
    if kind not in _analysed:
        with _lock:
            msgspec.msgpack.Decoder(kind)
            _analysed.add(kind)
    return kind
