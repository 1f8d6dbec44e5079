"""A shell's input: a named pipe in the folder of the log. The pipe carries typed bytes in frames.

Each frame is written in one step, so that neither a second writer nor a kill can split it. A frame
contains its writer's id and the position of its bytes. If a client sends bytes twice, the shell
therefore receives them only once.
"""

from __future__ import annotations

import os
import select
import struct

from windlass.worker.common.atomic_files import remove_if_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PIPE = "keyboard"  # the pipe's name in the attempt's directory

TYPED, SIZE, END = b"t", b"s", b"e"
_HEAD = struct.Struct(">cH8sQ")
_SIZE = struct.Struct(">HH")
_MOST = min(select.PIPE_BUF, 4096) - _HEAD.size
_MOST_WRITERS = 64
_AHEAD = 64 * 1024  # bytes to accept before the program has read earlier ones


def typed(writer: bytes, position: int, data: bytes) -> Iterator[bytes]:
    """Yield the frames for typed bytes.

    `position` is the number of bytes that the writer typed earlier.
    """
    for start in range(0, len(data), _MOST):
        piece = data[start : start + _MOST]
        yield _HEAD.pack(TYPED, len(piece), writer, position + start) + piece


def resized(rows: int, columns: int) -> bytes:
    """Return a frame that resizes the terminal."""
    return _HEAD.pack(SIZE, _SIZE.size, bytes(8), 0) + _SIZE.pack(rows, columns)


def ended() -> bytes:
    """Return a frame that ends the input."""
    return _HEAD.pack(END, 0, bytes(8), 0)


def size_of(data: bytes) -> tuple[int, int]:
    """Return the rows and columns in a resize frame."""
    rows, columns = _SIZE.unpack(data)
    return rows, columns


def content_of(frame: bytes) -> bytes:
    """Return a frame's content.

    >>> [content_of(frame) for frame in typed(bytes(8), 0, b"ls")]
    [b'ls']
    """
    return frame[_HEAD.size :]


class InputPipe:
    """The reading end of a shell's input pipe, which stays open while writers come and go."""

    def __init__(self, attempt_dir: str) -> None:
        self._path = os.path.join(attempt_dir, PIPE)
        os.mkfifo(self._path, 0o600)
        # Open the pipe for writing as well. Otherwise, it would end whenever no writer is
        # connected.
        self.fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._bytes = b""
        # bytes typed by each writer, with the latest writer last
        self._positions: dict[bytes, int] = {}

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the kind and content of each received frame.

        Skip bytes that were already received.
        """
        try:
            self._bytes += os.read(self.fd, _AHEAD)
        except BlockingIOError:
            return
        while len(self._bytes) >= _HEAD.size:
            kind, length, writer, position = _HEAD.unpack_from(self._bytes)
            if len(self._bytes) < _HEAD.size + length:
                return
            data = self._bytes[_HEAD.size : _HEAD.size + length]
            self._bytes = self._bytes[_HEAD.size + length :]
            if kind == TYPED:
                data = self._new(writer, position, data)
            yield kind, data

    def close(self) -> None:
        """Close the shell's input pipe."""
        os.close(self.fd)
        remove_if_there(self._path)

    def _new(self, writer: bytes, position: int, data: bytes) -> bytes:
        written = self._positions.pop(writer, 0)
        self._positions[writer] = max(written, position + len(data))
        if len(self._positions) > _MOST_WRITERS:
            del self._positions[next(iter(self._positions))]
        return data[max(written - position, 0) :]
