"""HTTP channel to the server, over a connection that either side may open.

If the agent cannot reach the server, the server connects to the agent's port and identifies itself.
From then on both sides use that connection as if the agent had opened it, with the same requests.

Every request may be repeated and takes effect once. So a broken connection or an unavailable server
only delays the agent.
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

GREETING = b"WINDLASS-TUNNEL/1 "  # then the token, and the end of the line
_LONGEST_GREETING = 512
_DIAL = 5.0  # seconds to reach the server in
_ANSWER = 60.0  # seconds without a byte until a connection is given up
_SETTLED = 600.0  # the same once a large file was sent: it is answered when it is on the disk
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_PIECE = 1 << 20
_MOST_IDLE = 16  # connections that wait to be used
_LARGE = 8 << 20  # a file that is not sent before it is known that there is room for it
_FULL = 507
# It may do better later: also one that does not know our token is not the one we mean.
_AGAIN = frozenset({401, 403, 408, 425, 429, 500, 502, 503, 504})


class Refused(Exception):
    """The server has understood, and will not have it however often it is asked."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class GivenUp(Exception):
    """The caller of a request need not wait any longer."""


class NoRoom(Exception):
    """The disk of the server has no room for a file, for now."""


class Changed(Exception):
    """The file that was to be sent is not what it was, or gone."""


class NotWritten(OSError):
    """An answer came, and the file that it was for could not be written."""


class Channel:
    """Requests to the server, from any thread."""

    def __init__(self, urls: Sequence[str], token: str, port: int | None) -> None:
        """OSError if the server is nowhere to be found, and the port is another's."""
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
        """The answer to a request, however long it takes; `Refused` if there will be none.

        `Changed` if it is about a file that cannot be sent as it was.
        `NoRoom` if the disk of the server is full, unless that is waited for. `ask_first` is asked
        for before each try: an answer that comes while much is still being sent may never be seen.
        `is_done` is asked before it is tried again: true where only the answer was lost.
        `deadline` is by `time.monotonic`: `GivenUp` after it, and when the channel is closed.
        With `into`, the path of a file, the answer is written there, however large; `NotWritten`
        if it cannot be.
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
                raise  # it comes from here: however often it was asked for, it would be the same
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
        """Have the server take in a file; `NoRoom` if its disk is full, `Refused` for good."""
        room = f"{base}/room?size={body.size}" if body.size > _LARGE else ""
        self.ask(
            "PUT", f"{base}/{where}", body,
            deadline=deadline, waits_for_room=False, ask_first=room, is_done=is_done,
        )  # fmt: skip

    def rest(self, seconds: float) -> None:
        """Wait for that long; `GivenUp` when the channel is closed."""
        if self._is_closed.wait(seconds):
            raise GivenUp

    def ask_json(
        self, method: str, path: str, value: object = None, *, deadline: float | None = None
    ) -> dict[str, Any]:
        """The same with a value for a body, and one for an answer."""
        body = None if value is None else json.dumps(value).encode()
        answer = json.loads(self.ask(method, path, body, deadline=deadline) or b"{}")
        return answer if isinstance(answer, dict) else {}

    def close(self) -> None:
        """End what waits, and wait for nothing more."""
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
        """One that is there, or a new one; whichever can be had first."""
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            pass
        for url in self._urls:
            try:
                return self._dial(url)
            except (OSError, ValueError, http.client.HTTPException):
                continue  # nobody answers there, or it makes no sense
        if self._listener is None:
            raise ConnectionError("the server cannot be reached")
        wait = _LONGEST_PAUSE if deadline is None else deadline - time.monotonic()
        try:
            return self._idle.get(timeout=max(0.0, min(wait, _LONGEST_PAUSE)))
        except queue.Empty:
            raise ConnectionError("the server has not come yet") from None

    def _dial(self, url: str) -> http.client.HTTPConnection:
        parts = urlsplit(url)
        host = parts.hostname
        if not host:
            raise ValueError(f"{url!r} names no host")
        is_secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        connection = kind(host, parts.port, timeout=_DIAL)
        connection.connect()
        _patient(connection.sock)
        return connection

    def _listen(self, port: int) -> None:
        """Have the server come to us; where that cannot be, we go to it if we know where it is."""
        try:
            # For this machine alone: what leads here from outside ends on it.
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
                return  # closed
            threading.Thread(target=self._greet, args=(sock,), daemon=True).start()

    def _greet(self, sock: socket.socket) -> None:
        """Use a connection that somebody made to us, if it is the server's."""
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
        # It ends where the server listens for itself alone.
        connection = http.client.HTTPConnection("127.0.0.1")
        connection.sock = sock
        connection.auto_open = 0  # one that was closed cannot be had again by dialling
        self._idle.put(connection)


class FileBody:
    """A body that is a file as it is now: what is added to it meanwhile is not sent."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = os.stat(path).st_size


def patience(body: bytes | FileBody | None) -> float:
    """The number of seconds that the response to a request may take.

    >>> patience(b"a few lines")
    60.0
    """
    is_large = isinstance(body, FileBody) and body.size > _LARGE
    return _SETTLED if is_large else _ANSWER


class _Cut:
    """So much of a file, read a piece at a time; what is missing breaks the connection."""

    def __init__(self, file: Any, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1) -> bytes:
        if not self._left:
            return b""
        most = min(self._left, _PIECE if size < 0 else size)
        try:
            piece: bytes = self._file.read(most)
        except OSError as error:
            raise Changed(str(error)) from None
        if not piece:
            raise Changed("it has become shorter")
        self._left -= len(piece)
        return piece


def _opened(path: str) -> Any:
    try:
        return open(path, "rb")
    except OSError as error:
        raise Changed(str(error)) from None


def _write_out(response: http.client.HTTPResponse, path: str) -> None:
    """Write an answer to a file, a piece at a time."""
    with _here(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        while piece := response.read(_PIECE):
            with _here(path):
                write_all(fd, piece)
    finally:
        with _here(path):
            os.close(fd)
    if response.length:
        raise ConnectionError("the answer was cut")


@contextlib.contextmanager
def _here(path: str) -> Iterator[None]:
    """Tell what is wrong with a file of this place apart from what is wrong with a connection."""
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
        pass  # it is no TCP


def _refusal(status: int, answer: bytes) -> Refused:
    try:
        problem = json.loads(answer)
        return Refused(status, str(problem.get("code", "")), str(problem.get("message", "")))
    except (ValueError, AttributeError):
        return Refused(status, "", f"the server answers {status}")
