"""The HTTP channel between agent and server, whose connections either side may open.

If the agent cannot reach the server, the server connects to the agent's port and identifies itself.
The agent then uses this connection as if it had opened it.

Every request may be repeated, but takes effect only once. A broken connection or an unavailable
server therefore only delays the agent.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import os
import queue
import socket
import threading
import time
from urllib.parse import urlsplit

from windlass.worker.common.atomic_files import write_all
from windlass.worker.common.file_reads import retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

GREETING = b"WINDLASS-TUNNEL/1 "  # the token and a line break follow
_LONGEST_GREETING = 512
_DIAL = 5.0  # seconds to connect to the server
_ANSWER = 60.0  # seconds without data before a connection is closed
_SETTLED = 600.0  # the same after a large file, which the server first writes to disk
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_PIECE = 1 << 20
_MOST_IDLE = 16  # idle connections to keep
_LARGE = 8 << 20  # bytes; before a larger upload, ask whether the server has space
_FULL = 507
_READ_RETRIES = 10.0  # seconds for which a failed read is retried
# Statuses to retry. A server that does not know our token may be the wrong server.
_AGAIN = frozenset({401, 403, 408, 425, 429, 500, 502, 503, 504})


class Refused(Exception):
    """Raised if the server rejected the request and retrying would not help."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class GivenUp(Exception):
    """Raised if a request's deadline has passed or the channel was closed."""


class NoRoom(Exception):
    """Raised if the server's disk currently has no space for a file."""


class Changed(Exception):
    """Raised if the file to upload has changed or been deleted."""


class NotWritten(OSError):
    """Raised if a response arrived but could not be written to the target file."""


class Channel:
    """Sends requests to the server. All methods are thread-safe."""

    def __init__(self, urls: Sequence[str], token: str, port: int | None) -> None:
        """Create a channel that connects to `urls` and, on `port`, waits for the server to connect.

        Raise `OSError` if the port is in use and `urls` is empty.
        """
        self._urls = list(urls)
        self._token = token
        self._idle: queue.SimpleQueue[http.client.HTTPConnection] = queue.SimpleQueue()
        self._is_closed = threading.Event()
        self._listener: socket.socket | None = None
        if port is not None:
            self._listen(port)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | FileBody | None = None,
        *,
        deadline: float | None = None,
        into: str | None = None,
        waits_for_room: bool = True,
        ask_first: str = "",
        is_done: Callable[[], bool] | None = None,
    ) -> bytes:
        """Send a request, retrying until it succeeds, and return the response.

        `Refused` is raised if retrying would not help, and `Changed` if the file to upload has
        changed. `NoRoom` is raised if the server's disk is full and `waits_for_room` is false.
        `GivenUp` is raised after `deadline`, a `time.monotonic` time, or when the channel is
        closed.

        The path `ask_first` is requested before each attempt, because a response that arrives
        during the upload of a large body may be lost. `is_done` is called before each retry. It
        returns True if the server already executed the request and only the response was lost. With
        `into`, a response of any size is written to that file, and `NotWritten` is raised if this
        fails.
        """
        pause = _FIRST_PAUSE
        while True:
            self._check(deadline)
            try:
                if ask_first:
                    self._exchange(self._connection(deadline), "GET", ask_first, None, None)
                connection = self._connection(deadline)
                return self._exchange(connection, method, path, body, into)
            except NotWritten:
                raise  # retrying would not fix a local error
            except (OSError, http.client.HTTPException, NoRoom) as error:
                if isinstance(error, NoRoom) and not waits_for_room:
                    raise
                left = pause if deadline is None else deadline - time.monotonic()
                self._is_closed.wait(max(0.0, min(pause, left)))
                pause = min(pause * 2, _LONGEST_PAUSE)
                if is_done is not None and is_done():
                    return b""

    def send(
        self,
        base: str,
        where: str,
        body: FileBody,
        *,
        deadline: float | None = None,
        is_done: Callable[[], bool] | None = None,
    ) -> None:
        """Upload a file with a PUT request to `<base>/<where>`.

        Raise `NoRoom` if the server's disk is full, and `Refused` if the server permanently rejects
        the file.
        """
        room = f"{base}/room?size={body.size}" if body.size > _LARGE else ""
        self.ask(
            "PUT", f"{base}/{where}", body,
            deadline=deadline, waits_for_room=False, ask_first=room, is_done=is_done,
        )  # fmt: skip

    def rest(self, seconds: float) -> None:
        """Wait for this many seconds before another try.

        Raise `GivenUp` if the channel is closed.
        """
        if self._is_closed.wait(seconds):
            raise GivenUp

    def ask_json(
        self, method: str, path: str, value: object = None, *, deadline: float | None = None
    ) -> dict[str, Any]:
        """Send a request with a JSON body and return the JSON response."""
        body = None if value is None else json.dumps(value).encode()
        answer = json.loads(self.ask(method, path, body, deadline=deadline) or b"{}")
        return answer if isinstance(answer, dict) else {}

    def close(self) -> None:
        """Abort the requests that wait for the server, and send no new requests."""
        self._is_closed.set()
        if self._listener is not None:
            self._listener.close()

    def _check(self, deadline: float | None) -> None:
        if self._is_closed.is_set() or (deadline is not None and time.monotonic() >= deadline):
            raise GivenUp

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | FileBody | None,
        into: str | None,
    ) -> bytes:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/octet-stream",
        }
        try:
            if isinstance(body, FileBody):
                headers["Content-Length"] = str(body.size)
                with _opened(body.path) as file:
                    connection.request(method, path, _Cut(file, body.size), headers)
            else:
                connection.request(method, path, body, headers)
            connection.sock.settimeout(patience(body))
            response = connection.getresponse()
            if into is not None and response.status < 300:
                answer = b""
                _write_out(response, into)
            else:
                answer = response.read()
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            connection.sock.settimeout(_ANSWER)
            self._idle.put(connection)
        if response.status < 300:
            return answer
        if response.status == _FULL:
            raise NoRoom(str(_refusal(_FULL, answer)))
        if response.status in _AGAIN:
            raise ConnectionError(f"the server answers {response.status}")
        raise _refusal(response.status, answer)

    def _connection(self, deadline: float | None) -> http.client.HTTPConnection:
        """Return an idle connection, a new one, or one that the server has opened."""
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            pass
        for url in self._urls:
            try:
                return self._dial(url)
            except (OSError, ValueError, http.client.HTTPException):
                continue  # the URL is invalid, or nothing responds there
        if self._listener is None:
            raise ConnectionError("the server cannot be reached")
        wait = _LONGEST_PAUSE if deadline is None else deadline - time.monotonic()
        try:
            return self._idle.get(timeout=max(0.0, min(wait, _LONGEST_PAUSE)))
        except queue.Empty:
            raise ConnectionError("the server has not connected yet") from None

    def _dial(self, url: str) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        host = parts.hostname
        if not host:
            raise ValueError(f"{url!r} has no host")
        is_secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        connection = kind(host, parts.port, timeout=_DIAL)
        connection.connect()
        _patient(connection.sock)
        return connection

    def _listen(self, port: int) -> None:
        """Listen on a port for connections from the server, in a thread.

        If listening fails, the channel uses only the known server URLs.
        """
        try:
            # The loopback address suffices, because the server's tunnel ends on this machine.
            self._listener = socket.create_server(("127.0.0.1", port), backlog=_MOST_IDLE)
        except OSError:
            if not self._urls:
                raise
            return
        threading.Thread(target=self._accept, name="windlass-tunnels", daemon=True).start()

    def _accept(self) -> None:
        listener = self._listener
        while listener is not None:
            try:
                sock, _ = listener.accept()
            except OSError:
                return  # the listener was closed
            threading.Thread(target=self._receive_greeting, args=(sock,), daemon=True).start()

    def _receive_greeting(self, sock: socket.socket) -> None:
        """Keep an incoming connection for requests if the trial's token arrives first."""
        try:
            sock.settimeout(_DIAL)
            line = _read_line(sock)
            if not hmac.compare_digest(line, GREETING + self._token.encode()):
                sock.close()
                return
            _patient(sock)
        except OSError:
            sock.close()
            return
        # On the server's side, the tunnel ends at the server's loopback address.
        connection = http.client.HTTPConnection("127.0.0.1")
        connection.sock = sock
        connection.auto_open = 0  # the agent cannot reopen a connection from the server
        self._idle.put(connection)


class FileBody:
    """A request body with a file's current content.

    Bytes appended later are not sent.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = os.stat(path).st_size


def patience(body: bytes | FileBody | None) -> float:
    """Return how many seconds to wait for the response to a request that has this body.

    >>> patience(b"a few lines")
    60.0
    """
    is_large = isinstance(body, FileBody) and body.size > _LARGE
    return _SETTLED if is_large else _ANSWER


class _Cut:
    """Reads the first `size` bytes of a file in pieces. Raises `Changed` if the file is shorter."""

    def __init__(self, file: Any, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        if not self._left:
            return b""
        most = min(self._left, _PIECE if size < 0 else size)
        try:
            piece: bytes = retried(lambda: self._file.read(most), _READ_RETRIES)
        except OSError as error:
            raise Changed(str(error)) from None
        if not piece:
            raise Changed("it has become shorter")
        self._left -= len(piece)
        return piece


def _opened(path: str) -> Any:
    try:
        # Without a buffer, a failed read can be retried at the same position.
        return retried(lambda: open(path, "rb", buffering=0), _READ_RETRIES)
    except OSError as error:
        raise Changed(str(error)) from None


def _write_out(response: http.client.HTTPResponse, path: str) -> None:
    """Write a response to a file, piece by piece."""
    with _as_local_error(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        while piece := response.read(_PIECE):
            with _as_local_error(path):
                write_all(fd, piece)
    finally:
        with _as_local_error(path):
            os.close(fd)
    if response.length:
        raise ConnectionError("the response ended early")


@contextlib.contextmanager
def _as_local_error(path: str) -> Iterator[None]:
    """Convert a local file's error to `NotWritten`, to tell it apart from a connection error."""
    try:
        yield
    except OSError as error:
        raise NotWritten(error.errno, error.strerror, path) from None


def _read_line(sock: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = sock.recv(1)
        if not byte or len(line) > _LONGEST_GREETING:
            raise ConnectionError("no greeting")
        line += byte
    return line[:-1]


def _patient(sock: Any) -> None:
    sock.settimeout(_ANSWER)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        pass  # not a TCP socket


def _refusal(status: int, answer: bytes) -> Refused:
    try:
        problem = json.loads(answer)
        return Refused(status, str(problem.get("code", "")), str(problem.get("message", "")))
    except (ValueError, AttributeError):
        return Refused(status, "", f"the server answers {status}")
