"""Types that several threads may read values of at once.

msgspec learns what a struct consists of when it is first asked to read one. Two threads that have
it learn the same struct at the same time end their process with SIGSEGV.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_lock = threading.Lock()
_known: set[object] = set()


@overload
def learned(kind: type[T]) -> type[T]: ...


@overload
def learned(kind: object) -> Any: ...  # unions are types, too


def learned(kind: Any) -> Any:
    """That very type, once msgspec knows it: to be used wherever a value is read as one.

    >>> class Point(msgspec.Struct):
    ...     x: int
    >>> msgspec.json.decode(b'{"x": 1}', type=learned(Point))
    Point(x=1)
    """
    if kind not in _known:
        with _lock:
            msgspec.msgpack.Decoder(kind)
            _known.add(kind)
    return kind
