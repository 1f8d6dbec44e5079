"""The file of a pickled call, whose large values are separate blobs.

A small call is a plain pickle. A call with large values is a JSON object: `{"files":[[number, "f",
digest, size], ...], "pickle":[text, number, text, ...], "version":3}`. The pickle is the
concatenation of the entries of `pickle`: a text is base64, and a number stands for the content of
the blob with that number in `files`. The key `files` comes first, as in a manifest, so that garbage
collection keeps the blobs.
"""

from __future__ import annotations

import binascii
import io
import json
from functools import partial

from windlass.worker.blobs.digest import is_digest, path_in_store
from windlass.worker.common.file_reads import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    # Part of a pickle: its bytes, or the digest and size of the blob that contains them.
    Part = bytes | tuple[str, int]

_BEGIN = b'{"files":['  # unlike a pickle, which begins with the byte 0x80
_BUFFER = 64 * 1024


def encode_parts(parts: Sequence[Part]) -> bytes:
    """Encode a pickle, split into parts, as a file.

    >>> encode_parts([b"abc", ("00", 3)])
    b'{"files":[["0","f","00",3]],"pickle":["YWJj",0],"version":3}'
    """
    numbers: dict[tuple[str, int], int] = {}
    pickled: list[object] = []
    for part in parts:
        if isinstance(part, tuple):
            pickled.append(numbers.setdefault(part, len(numbers)))
        else:
            pickled.append(binascii.b2a_base64(part, newline=False).decode())
    files = [[str(number), "f", *blob] for blob, number in numbers.items()]
    content = {"files": files, "pickle": pickled, "version": 3}
    return json.dumps(content, separators=(",", ":")).encode()


def large_values(path: str) -> dict[str, int]:
    """Return the digests and sizes of a call's large values, or {} for a plain pickle.

    Raise `ValueError` if the file begins like a call with large values, but is not one.
    """
    with open(path, "rb") as file:
        if file.read(len(_BEGIN)) != _BEGIN:
            return {}
        file.seek(0)
        content = file.read()
    try:
        values = {digest: size for _, _, digest, size in json.loads(content)["files"]}
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ValueError("the list of its large values is invalid") from None
    if not all(is_digest(digest) and isinstance(size, int) for digest, size in values.items()):
        raise ValueError("the list of its large values is invalid")
    return values


def open_call(path: str, blobs: str) -> io.BufferedIOBase:
    """Open a call's pickle for reading. Large values come from the blob store `blobs`."""
    file = open_blob_file(path)
    if file.peek(len(_BEGIN))[: len(_BEGIN)] != _BEGIN:
        return file
    with file:
        content = json.loads(file.read())
    digests = [line[2] for line in content["files"]]
    parts = [
        binascii.a2b_base64(part) if isinstance(part, str) else path_in_store(blobs, digests[part])
        for part in content["pickle"]
    ]
    return io.BufferedReader(_Parts(parts), _BUFFER)


def open_blob_file(path: str) -> io.BufferedReader:
    """Open a file for reading. Reads are retried after temporary errors."""
    return io.BufferedReader(_Parts([path]), _BUFFER)


class _Parts(io.RawIOBase):
    """A stream that consists of several pieces one after the other: bytes, and contents of files.

    Unpickling reads each large value directly from its file.
    """

    def __init__(self, parts: Sequence[bytes | str]) -> None:
        self._rest = list(reversed(parts))
        self._current: io.RawIOBase | io.BytesIO | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while True:
            if self._current is not None:
                count = retried(partial(self._current.readinto, buffer))
                if count or not len(buffer):
                    return count or 0
                self._current.close()
                self._current = None
            if not self._rest:
                return 0
            part = self._rest.pop()
            if isinstance(part, str):
                self._current = retried(partial(io.FileIO, part))
            else:
                self._current = io.BytesIO(part)
