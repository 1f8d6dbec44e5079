"""Stores large values in a pickled call, such as arrays, as separate blobs.

Calls with the same value then share its blob, which is sent and stored only once.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from pickle import PickleBuffer
from typing import TYPE_CHECKING, NamedTuple

from windlass.worker.program.call_file import encode_parts

if TYPE_CHECKING:
    from windlass.worker.program.call_file import Part

LARGE_VALUE = 256 * 1024  # bytes; a value of at least this size becomes a separate blob
_PIECE = 1 << 20  # bytes per blob with many small values
_MOST_KEPT = 256 << 20  # bytes


class PackedCall(NamedTuple):
    """A pickled call: the payload, and large values that are separate blobs."""

    payload: bytes
    large: Mapping[str, bytes] = {}  # by digest
    uses_main: bool = False  # whether the call refers to anything in `__main__`

    @property
    def size(self) -> int:
        """The size in bytes of everything that a trial has to load."""
        return len(self.payload) + sum(map(len, self.large.values()))


class LargeValues:
    """Remembers the most recent large values and their digests, to avoid hashing them again.

    >>> values = LargeValues()
    >>> first, again = values.find(b"abc"), values.find(bytes(bytearray(b"abc")))
    >>> first == again, first[1] is again[1]
    (True, True)
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[str, bytes]] = deque()
        self._size = 0

    def find(self, data: bytes) -> tuple[str, bytes]:
        """Return a value's digest, and the value itself or an equal value that is remembered."""
        for digest, value in self._recent:
            if value == data:
                return digest, value
        entry = hashlib.sha256(data).hexdigest(), data
        self._recent.append(entry)
        self._size += len(data)
        while self._size > _MOST_KEPT and len(self._recent) > 1:
            self._size -= len(self._recent.popleft()[1])
        return entry


class PickleFile:
    """A pickler's file, to which the pickler writes each large value in a call of its own."""

    def __init__(self, values: LargeValues) -> None:
        self._values = values
        self._parts: list[Part] = []
        self._small: list[bytes] = []
        self._large: dict[str, bytes] = {}

    def write(self, data: bytes | bytearray | PickleBuffer) -> int:
        content = _bytes_of(data)
        if len(content) < LARGE_VALUE:
            self._small.append(content)
        else:
            self._end_small()
            self._add(content)
        return len(content)

    def finish(self) -> PackedCall:
        self._end_small()
        if not self._large:
            return PackedCall(b"".join(part for part in self._parts if isinstance(part, bytes)))
        return PackedCall(encode_parts(self._parts), self._large)

    def _end_small(self) -> None:
        """End a run of small writes of the pickler.

        A long run is cut into pieces, which calls with the same values share.
        """
        rest = b"".join(self._small)
        self._small = []
        while len(rest) >= LARGE_VALUE:
            self._add(rest[:_PIECE])
            rest = rest[_PIECE:]
        if rest:
            self._parts.append(rest)

    def _add(self, data: bytes) -> None:
        digest, value = self._values.find(data)
        self._large[digest] = value
        self._parts.append((digest, len(value)))


class ByteCounter:
    """A file that only counts a pickle's bytes."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: bytes | bytearray | PickleBuffer) -> int:
        size = memoryview(data).nbytes
        self.size += size
        return size


def _bytes_of(data: bytes | bytearray | PickleBuffer) -> bytes:
    return bytes(data.raw() if isinstance(data, PickleBuffer) else data)
