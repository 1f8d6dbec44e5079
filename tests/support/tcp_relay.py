"""TCP relays: a port of this machine that leads to another address until it is cut or closed."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

_RESET = struct.pack("ii", 1, 0)  # such a close resets the connection on the other side


class Way:
    """A port of 127.0.0.1. Each of its connections leads to a connection that `connect` opens.

    `connect` raises OSError or ValueError if nothing listens. A context manager.
    """

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_shut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0  # connections that were broken
        self._thread = threading.Thread(target=self._accept, name="way", daemon=True)
        self._thread.start()

    def __enter__(self) -> Way:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.shut()
        # A close alone would not wake a thread that waits for a connection.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def cut(self) -> int:
        """Break every open connection and return their number."""
        with self._lock:
            cut, self._open = self._open, set()
        for connection in cut:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end(connection)
        self.cuts += len(cut) // 2
        return len(cut) // 2

    def shut(self) -> None:
        """Break all open connections and refuse new ones."""
        with self._lock:
            self._is_shut = True
        self.cut()

    def recover(self) -> None:
        """Accept new connections again."""
        with self._lock:
            self._is_shut = False

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._lead, args=(near,), daemon=True).start()

    def _lead(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError, ValueError):
            far = self._connect()
            with contextlib.closing(far):  # it may be only similar to a socket
                with self._lock:
                    if self._is_shut:
                        return
                    self._open |= {near, far}
                pipe_both(near, far)
                with self._lock:
                    self._open -= {near, far}


def pipe_both(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes in both directions until one side ends."""
    back = threading.Thread(target=_pipe, args=(other, one), daemon=True)
    back.start()
    _pipe(one, other)
    back.join()


def end(connection: socket.socket) -> None:
    """Shut both sides of a connection down."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _pipe(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):  # either end may close at any time
        while data := source.recv(1 << 16):
            target.sendall(data)
    end(source)
    end(target)
