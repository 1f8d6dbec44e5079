"""The HTTP transport for all requests. It reuses connections and decodes responses and events."""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from windlass.client.connection.discovery import (
    Endpoint,
    describe_server,
    named_endpoint,
    running_endpoint,
    start_server,
)
from windlass.client.connection.http import (
    Connection,
    EventStream,
    LocalConnection,
    SecureConnection,
)
from windlass.client.connection.wait_reports import AnswerTimer, await_answer
from windlass.home import Home
from windlass.model.errors import (
    BY_CODE,
    InvalidArgument,
    ServerError,
    ServerUnreachable,
    WindlassError,
    shown,
)
from windlass.model.requests import API, API_LEVEL_HEADER, VERSION_HEADER, Fault
from windlass.model.thread_safe_types import learned
from windlass.model.versions import API_LEVEL
from windlass.version import __version__

T = TypeVar("T")
Body = bytes | msgspec.Struct | Iterable[bytes] | None

_TIMEOUT = 60.0  # seconds to wait for a response that is not a stream
_PIECE = 1 << 20
# The errors that msgspec raises for invalid data.
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


class MissingBlobs(WindlassError):
    """Raised if a request refers to blobs that the server lacks.

    The client then uploads the blobs and retries the request, so users never see this error.
    """

    code = "missing_blobs"
    missing: tuple[str, ...] = ()


class Transport:
    """Sends requests to one server over connections that it keeps open. Thread-safe."""

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        timeout: float = _TIMEOUT,
        endpoint: Endpoint | None = None,
    ) -> None:
        # A server given as an explicit endpoint is never started.
        self._named = endpoint or named_endpoint(server, token)
        self._timeout = timeout
        self._home = None if self._named else Home.find()
        self._endpoint: Endpoint | None = None
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def named(self) -> tuple[str | None, str | None]:
        """The address and token of the server that the user selected.

        For the embedded server, both are None.
        """
        return (self._named.url, self._named.token) if self._named else (None, None)

    @property
    def server(self) -> str:
        """The server's address, or the path of an embedded server's home.

        The path is used because an embedded server's address changes when it restarts.
        """
        if self._named is not None and self._named.home is None:
            return self._named.url.rstrip("/")
        home = self._home or (self._named and self._named.home)
        return str(home.path) if home else ""

    @property
    def endpoint(self) -> Endpoint:
        """The server that receives the requests. The first access finds or starts the server."""
        if self._endpoint is None:
            self._endpoint = self._find()
        return self._endpoint

    @property
    def known_endpoint(self) -> Endpoint | None:
        """The server that has received requests, or None if no request was sent yet."""
        return self._endpoint

    def ask(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        body: Body = None,
        query: Mapping[str, Any] | None = None,
    ) -> T:
        """Send a request and decode the response as the type `answer`."""
        data = self.fetch(method, path, body=body, query=query)
        return decode(data, answer)

    def fetch(
        self,
        method: str,
        path: str,
        *,
        body: Body = None,
        query: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Send a request and return the response as bytes."""
        try:
            return self._fetch(method, path, body, query)
        except ServerUnreachable as error:
            # The server stopped while responding. `_send` explains why retrying is safe.
            is_repeatable = isinstance(body, (bytes, msgspec.Struct, type(None)))
            if self._home is None or not is_repeatable or isinstance(error.__cause__, TimeoutError):
                raise
            self.reconnect()
            return self._fetch(method, path, body, query)

    def reconnect(self) -> None:
        """Close idle connections, then find the embedded server again or restart it."""
        self.drop_idle()
        if self._home is not None:
            self._endpoint = start_server(self._home)

    def _fetch(self, method: str, path: str, body: Body, query: Mapping[str, Any] | None) -> bytes:
        connection, response = self._send(method, path, body, query, {})
        try:
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._broken(error) from error
        self._keep(connection, response)
        if response.status >= 400:
            raise self._fault(response.status, data)
        return data

    def download(
        self, path: str, write: Callable[[bytes], object], *, body: msgspec.Struct | None = None
    ) -> None:
        """Download a URL path in pieces, calling `write` with each piece.

        The content may be larger than the available memory.

        The request is a POST request if it has a body, and a GET request if not.
        """
        connection, response = self._send("POST" if body else "GET", path, body, None, {})
        left = response.length
        try:
            for piece in self._pieces(response):
                left = None if left is None else left - len(piece)
                write(piece)
        except BaseException:  # a connection with a partly read response cannot be reused
            connection.close()
            raise
        if left:
            connection.close()
            raise self._broken(http.client.IncompleteRead(b"", left))
        self._keep(connection, response)

    def _pieces(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            if response.status >= 400:
                raise self._fault(response.status, response.read())
            while piece := response.read(_PIECE):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(error) from error

    @contextlib.contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        body: Body = None,
        query: Mapping[str, Any] | None = None,
    ) -> Iterator[EventStream]:
        """Send a request and yield the event stream in the response."""
        headers = {"Accept": "text/event-stream"}
        connection, response = self._send(method, path, body, query, headers)
        if response.status >= 400:
            data = response.read()
            self._keep(connection, response)
            raise self._fault(response.status, data)
        if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
            connection.close()
            raise _not_ours(f"answered {response.status}")
        events = EventStream(connection, response)
        try:
            yield events
        finally:
            if events.is_complete:
                self._keep(connection, response)
            else:
                events.cut()
                connection.close()

    def _send(
        self,
        method: str,
        path: str,
        body: Body,
        query: Mapping[str, Any] | None,
        headers: dict[str, str],
    ) -> tuple[Connection, http.client.HTTPResponse]:
        try:
            target, content = _written(path, body, query)
        except UnicodeEncodeError as error:
            flaw = (
                f"{shown(error.object)} is not valid Unicode: it contains half of a surrogate pair."
            )
            raise InvalidArgument(flaw) from None
        is_json = isinstance(body, msgspec.Struct)
        if content is not None:
            headers["Content-Type"] = "application/json" if is_json else "application/octet-stream"
        if not isinstance(content, (bytes, type(None))):
            # A generated body cannot be sent twice, so do not risk an idle connection.
            self.drop_idle()
            try:
                return self._attempt(target, method, content, headers)
            except (OSError, http.client.HTTPException) as error:
                raise self._broken(error) from error
        try:
            return self._attempt(target, method, content, headers)
        except TimeoutError as error:  # a retry would take just as long
            raise self._broken(error) from error
        except (OSError, http.client.HTTPException) as error:
            # An idle connection may have expired, or an embedded server may have stopped. Requests
            # with effects contain a key, so the server executes a retried request only once.
            if self._home is None and isinstance(error, ConnectionRefusedError):
                raise self._broken(error) from error
            try:
                self.reconnect()
                return self._attempt(target, method, content, headers)
            except (OSError, http.client.HTTPException) as again:
                raise self._broken(again) from again

    def _attempt(
        self,
        target: str,
        method: str,
        content: bytes | Iterable[bytes] | None,
        headers: dict[str, str],
    ) -> tuple[Connection, http.client.HTTPResponse]:
        endpoint = self.endpoint
        if endpoint.is_embedded:
            return self._exchange(target, method, content, headers)
        with AnswerTimer(lambda: f"the server at {endpoint.url}", self._timeout):
            return self._exchange(target, method, content, headers)

    def _exchange(
        self,
        target: str,
        method: str,
        content: bytes | Iterable[bytes] | None,
        headers: dict[str, str],
    ) -> tuple[Connection, http.client.HTTPResponse]:
        connection = self._take()
        try:
            connection.buffers = isinstance(content, bytes)
            connection.request(
                method,
                target,
                body=content,
                headers={
                    "Authorization": f"Bearer {self.endpoint.token}",
                    VERSION_HEADER: __version__,
                    API_LEVEL_HEADER: str(API_LEVEL),
                    **headers,
                },
            )
            connection.send_held()
            if self.endpoint.is_embedded and connection.sock is not None:
                await_answer(connection.sock, self._describe_process, self._timeout)
            response = connection.getresponse()
        except BaseException:  # as in `download`
            connection.close()
            raise
        return connection, response

    def _take(self) -> Connection:
        if self._pid != os.getpid():  # after a fork, the connections belong to the parent
            self._pid, self._idle, self._lock = os.getpid(), [], threading.Lock()
        with self._lock:
            if self._idle:
                return self._idle.pop()
        endpoint = self.endpoint
        if endpoint.is_embedded:
            return LocalConnection(endpoint.socket, endpoint.check_owner, timeout=self._timeout)
        parts = urlsplit(endpoint.url)
        host = str(parts.hostname)
        if parts.scheme == "https":  # a certificate proves the server's identity
            return SecureConnection(host, parts.port, timeout=self._timeout)
        from windlass.client.connection.proven_connection import ProvenConnection

        return ProvenConnection(host, parts.port, endpoint.token, timeout=self._timeout)

    def _keep(self, connection: Connection, response: http.client.HTTPResponse) -> None:
        if response.will_close:
            connection.close()
            return
        if connection.sock is not None:
            connection.sock.settimeout(self._timeout)
        with self._lock:
            self._idle.append(connection)

    def drop_idle(self) -> None:
        """Close the idle connections."""
        with self._lock:
            dropped, self._idle = self._idle, []
        for connection in dropped:
            connection.close()

    def _find(self) -> Endpoint:
        if self._home is None:
            assert self._named is not None  # noqa: S101 -- `_named` is set if `_home` is not
            return self._named
        return running_endpoint(self._home) or start_server(self._home)

    def _fault(self, status: int, data: bytes) -> WindlassError:
        try:
            fault = msgspec.json.decode(data, type=learned(Fault))
        except _UNREADABLE:
            if status >= 500 and self._home is not None:  # the server stopped during the response
                return self._broken(ConnectionError(f"it answered {status}"))
            return _not_ours(f"answered {status}")
        if fault.code == MissingBlobs.code:
            error = MissingBlobs(fault.message)
            error.missing = fault.missing
            return error
        return BY_CODE.get(fault.code, ServerError)(fault.message, hint=fault.hint)

    def _broken(self, error: Exception) -> ServerUnreachable:
        what = str(error) or type(error).__name__
        if isinstance(error, TimeoutError) and error.errno is None:
            return self._silent()
        if self._home is None:
            return ServerUnreachable(
                f"The server at {self.endpoint.url} cannot be reached: {what}.",
                hint="Check that the server runs and that WINDLASS_SERVER is right. Unset "
                "WINDLASS_SERVER to use this machine.",
            )
        return ServerUnreachable(
            f"The server does not answer: {what}.",
            hint="Find the cause: windlass doctor. Its log: windlass server logs",
        )

    def _describe_process(self) -> str:
        described = None if self._home is None else describe_server(self._home)
        return f"the server (process {(described or {}).get('pid')})" if described else "the server"

    def _silent(self) -> ServerUnreachable:
        """Build the error for a server that did not respond within the timeout."""
        limit = f"within {self._timeout:g} seconds"
        if self._home is None:
            return ServerUnreachable(
                f"The server at {self.endpoint.url} did not answer {limit}.",
                hint="It may be overloaded, or not reachable from here. Try again later.",
            )
        pid = (describe_server(self._home) or {}).get("pid")
        return ServerUnreachable(
            f"The server (process {pid}) runs, but did not answer {limit}.",
            hint="It may be overloaded, or suspended. Find the cause: windlass doctor. Its log: "
            "windlass server logs\nTo restart it (running trials continue): windlass server stop",
        )


def decode(data: bytes, kind: type[T]) -> T:
    """Decode a response as the expected type.

    >>> decode(b"<html>", int)
    Traceback (most recent call last):
    ...
    windlass.ServerError: The server answered with data that is not from Windlass.
      Check WINDLASS_SERVER: another program may listen at this address.
    """
    try:
        return msgspec.json.decode(data, type=learned(kind))
    except _UNREADABLE as error:
        raise _not_ours("answered") from error


def _written(
    path: str, body: Body, query: Mapping[str, Any] | None
) -> tuple[str, bytes | Iterable[bytes] | None]:
    """Encode a request. Return its target and its body.

    The target is the path including the query.
    """
    parameters = {name: value for name, value in (query or {}).items() if value is not None}
    target = f"{API}{path}?{urlencode(parameters)}" if parameters else API + path
    if isinstance(body, msgspec.Struct):
        try:
            return target, msgspec.json.encode(body, enc_hook=_plain)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidArgument(
                f"The arguments cannot be sent: {error}.",
                hint="Use strings, numbers, booleans, None, and lists and dicts of these.",
            ) from error
    return target, body


def _plain(value: object) -> object:
    """Convert instances of str, int and float subclasses, such as numpy.float64, to plain types."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _not_ours(what: str) -> ServerError:
    return ServerError(
        f"The server {what} with data that is not from Windlass.",
        hint="Check WINDLASS_SERVER: another program may listen at this address.",
    )


def request_path(*parts: object) -> str:
    """Quote the segments of a URL path and join them.

    >>> request_path("experiments", "a b/c")
    '/experiments/a%20b%2Fc'
    """
    return "".join("/" + quote(str(part), safe="", errors="surrogatepass") for part in parts)


__all__ = ["MissingBlobs", "Transport", "decode", "request_path"]
