"""Port forwarding, which lets agents in pods talk to a server that they cannot reach.

Through the Kubernetes API, the server opens connections to a port in the pod and joins each of them
to its own HTTP port. The agent then sends requests as if it had opened the connection itself. One
thread serves the connections to all pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import PODS
from windlass.runtimes.kubernetes.objects.manifests import AGENT_PORT

GREETING = "WINDLASS-TUNNEL/1 {token}\n"  # tells the agent which job a connection belongs to
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERRORS = 0, 1  # each message starts with one of these channel numbers
_PIECE = 64 << 10
_LARGEST_MESSAGE = 64 << 20
_PULSE = 30.0  # seconds between keep-alive messages, because networks drop idle connections
_OPENING = 20.0  # seconds until an attempt to connect fails
_REPORTED = 10  # the number of failures after which a warning is logged

_log = logging.getLogger(__name__)


class _Way(msgspec.Struct, frozen=True):
    """The parameters for connections to one pod's agent."""

    connection: Connection
    namespace: str
    name: str
    token: str


class Tunnels:
    """Keeps a few connections open to each pod that was passed to `keep`.

    The bytes of each connection are copied to and from the server at `url`. All methods may be
    called from any thread.
    """

    def __init__(self, url: Callable[[], str], count: int = 4) -> None:
        self._url = url
        self._count = count
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # The tasks by pod uid. Only the event loop's thread uses this dict.
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        self._wanted: set[str] = set()
        self._session: Any = None
        # The newest connection and its TLS settings.
        self._trust: tuple[Connection, ssl.SSLContext | bool] | None = None

    def keep(
        self, pod_uid: str, connection: Connection, namespace: str, name: str, token: str
    ) -> None:
        """Open connections to the agent in a pod, and keep them open until `drop` is called."""
        with self._lock:
            if pod_uid in self._wanted:
                return
            self._wanted.add(pod_uid)
            loop = self._running_loop()
        way = _Way(connection, namespace, name, token)
        loop.call_soon_threadsafe(self._begin, pod_uid, way)

    def drop(self, pod_uid: str) -> None:
        """Close the connections to a pod that has ended."""
        with self._lock:
            if pod_uid not in self._wanted:
                return
            self._wanted.discard(pod_uid)
            loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._cease, pod_uid)

    def drop_all(self) -> None:
        """Close the connections to all pods. Call `keep` to open connections to a pod again."""
        with self._lock:
            wanted = list(self._wanted)
        for pod_uid in wanted:
            self.drop(pod_uid)

    def has(self, pod_uid: str) -> bool:
        """Return whether this object keeps connections to a pod open."""
        with self._lock:
            return pod_uid in self._wanted

    def close(self) -> None:
        """Close the connections to all pods and stop the thread that serves them."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._wanted.clear()
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5.0)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._run, args=(self._loop,), name="windlass-tunnels", daemon=True
            )
            self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._close_all())
        finally:
            loop.close()

    async def _close_all(self) -> None:
        tasks = [task for tasks_of_tunnel in self._tasks.values() for task in tasks_of_tunnel]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    # -- the methods below run in the event loop's thread --------------------------------

    def _begin(self, pod_uid: str, way: _Way) -> None:
        if pod_uid in self._wanted and pod_uid not in self._tasks:
            # Open a first connection and retry until the agent accepts it. Only then open the other
            # connections. Agents take time to start, and every failed attempt is work for the
            # cluster.
            is_reached = asyncio.Event()
            first = asyncio.ensure_future(self._keep_one(way, is_reached))
            others = (self._follow(way, is_reached) for _ in range(self._count - 1))
            self._tasks[pod_uid] = [first, *map(asyncio.ensure_future, others)]

    def _cease(self, pod_uid: str) -> None:
        for task in self._tasks.pop(pod_uid, ()):
            task.cancel()

    async def _follow(self, way: _Way, is_reached: asyncio.Event) -> None:
        await is_reached.wait()
        await self._keep_one(way, is_reached)

    async def _keep_one(self, way: _Way, is_reached: asyncio.Event) -> None:
        """Keep one connection to the pod open.

        Whenever the connection ends, open a new one.
        """
        failures = 0
        while True:
            try:
                was_used = await self._carry(way, is_reached)
                failures = 0 if was_used else failures + 1
            except Exception as error:  # noqa: BLE001 -- after any error, the next try may work
                failures += 1
                if failures == _REPORTED:
                    _log.warning("no connection to the agent in %s: %s", way.name, _reason(error))
            if failures:
                pause = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 16), LONGEST_PAUSE)
                await asyncio.sleep(pause)

    async def _carry(self, way: _Way, is_reached: asyncio.Event) -> bool:
        """Open a connection and copy data between the pod and the server until the connection ends.

        Return whether any data passed.
        """
        async with contextlib.AsyncExitStack() as stack:
            socket = await asyncio.wait_for(self._open(way, stack), _OPENING)
            await socket.send_bytes(bytes([_DATA]) + GREETING.format(token=way.token).encode())
            first = await self._first(socket)
            if first is None:
                return False
            is_reached.set()
            parts = urlsplit(self._url())
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(first)
                await _join(socket, reader, writer)
            finally:
                writer.close()
        return True

    async def _open(self, way: _Way, stack: contextlib.AsyncExitStack) -> Any:
        """Open a WebSocket to the agent's port.

        Also read the initial messages of the WebSocket's data channel and error channel.
        """
        # Creating the headers may run a login program, which must not block the thread that serves
        # all tunnels.
        url, headers = await asyncio.to_thread(_request, way)
        session = await self._own_session()
        configuration = way.connection.api.configuration
        named = configuration.tls_server_name
        socket = await stack.enter_async_context(
            session.ws_connect(
                url,
                headers=headers,
                protocols=(_PROTOCOL,),
                ssl=self._context(way.connection),
                proxy=configuration.proxy or None,
                max_msg_size=_LARGEST_MESSAGE,
                heartbeat=_PULSE,
                **({"server_hostname": named} if named else {}),
            )
        )
        marks: set[int] = set()
        # Each channel starts with a message that contains its port number.
        while marks != {_DATA, _ERRORS}:
            channel, _ = _split(await socket.receive())
            marks.add(channel)
        return socket

    async def _first(self, socket: Any) -> bytes | None:
        """Wait for the agent's request and return the request's first bytes.

        Returns None if the agent closes the connection.
        """
        while True:
            message = await socket.receive()
            if _is_end(message):
                return None
            channel, data = _split(message)
            if channel == _ERRORS and data:
                raise ConnectionError(data.decode(errors="replace"))
            if channel == _DATA and data:
                return data

    async def _own_session(self) -> Any:
        if self._session is None:
            import aiohttp

            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self._session

    def _context(self, connection: Connection) -> ssl.SSLContext | bool:
        """Return the TLS context for a connection. The context is created once per connection."""
        # Store the connection itself and compare with `is`. An `id()` would not identify a deleted
        # connection, because Python reuses ids.
        if self._trust is None or self._trust[0] is not connection:
            self._trust = (connection, _ssl_context(connection))
        return self._trust[1]


async def _join(socket: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes between an agent's WebSocket and the server's socket until either side closes."""
    ways = [
        asyncio.ensure_future(_to_server(socket, writer)),
        asyncio.ensure_future(_to_agent(socket, reader)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _to_server(socket: Any, writer: asyncio.StreamWriter) -> None:
    while True:
        message = await socket.receive()
        if _is_end(message):
            return
        channel, data = _split(message)
        if channel == _ERRORS and data:
            return
        if channel == _DATA and data:
            writer.write(data)
            await writer.drain()


async def _to_agent(socket: Any, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(_PIECE):
        await socket.send_bytes(bytes([_DATA]) + data)


def _split(message: Any) -> tuple[int, bytes]:
    """Split a WebSocket message into its channel number and data."""
    data = message.data
    if not isinstance(data, bytes) or not data:
        raise ConnectionError("the connection to the pod was closed")
    return data[0], data[1:]


def _is_end(message: Any) -> bool:
    import aiohttp

    return message.type in (
        aiohttp.WSMsgType.CLOSE,
        aiohttp.WSMsgType.CLOSING,
        aiohttp.WSMsgType.CLOSED,
        aiohttp.WSMsgType.ERROR,
    )


def _request(way: _Way) -> tuple[str, dict[str, str]]:
    """Return the URL for port forwarding to a pod and the headers that contain our credentials."""
    path = PODS.path(way.namespace, way.name, "portforward")
    request = way.connection.api.param_serialize(
        "GET", path, header_params={}, auth_settings=["BearerToken"]
    )
    url, headers = request[1], request[2]
    wanted = {name: text for name, text in headers.items() if name.lower() != "accept"}
    return f"{url}?{urlencode({'ports': AGENT_PORT})}", wanted


def _ssl_context(connection: Connection) -> ssl.SSLContext | bool:
    """Return a TLS context that uses the same certificates as the cluster's client."""
    configuration = connection.api.configuration
    if not connection.server.startswith("https"):
        return True
    data = configuration.ca_cert_data
    context = ssl.create_default_context(
        cafile=configuration.ssl_ca_cert or None,
        cadata=data.decode() if isinstance(data, bytes) else data or None,
    )
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif configuration.assert_hostname is False:
        context.check_hostname = False
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    return context


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
