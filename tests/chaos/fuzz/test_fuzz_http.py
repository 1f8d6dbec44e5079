"""Malformed HTTP requests: the server refuses or ignores them and serves other clients."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from chaos_seed import Chaos

import windlass as wl
from harness import eventually
from server_requests import API, Server

MEGABYTE = 1 << 20
_GROWTH = 80 * MEGABYTE  # more than any of these requests needs, less than any of them sends
_LIMIT = 30.0  # seconds for a response that takes milliseconds


class Line:
    """A raw connection to a server, and the growth of the server since then."""

    def __init__(self, home: Path) -> None:
        self.server = Server(home)
        described = json.loads((home / "server.json").read_text())
        self._address = urlsplit(self.server.url)
        self._process = psutil.Process(described["pid"])
        self._size = self._process.memory_info().rss
        self._log = home / "server.log"
        self._log_size = self._log.stat().st_size

    def connect(self) -> socket.socket:
        where = (str(self._address.hostname), self._address.port)
        connection = socket.create_connection(where, timeout=_LIMIT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    @property
    def open_files(self) -> int:
        return int(self._process.num_fds())

    def head(self, method: str, path: str, *more: str) -> bytes:
        """The head of an authorized request."""
        lines = [
            f"{method} {API}{path} HTTP/1.1",
            "Host: localhost",
            f"Authorization: Bearer {self.server.token}",
            *more,
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def exchange(self, *pieces: bytes) -> bytes:
        """Send bytes and return the server's response until the server stops sending."""
        answer = b""
        with self.connect() as connection:
            # The server may close the connection at any time.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                for piece in pieces:
                    connection.sendall(piece)
            self.assert_small()  # while the server still holds unread data
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                while chunk := connection.recv(65536):
                    answer += chunk
        return answer

    def assert_small(self) -> None:
        """Check that the server's memory has not grown with the size of the requests."""
        assert self._process.memory_info().rss - self._size < _GROWTH

    def assert_well(self) -> None:
        """Check that the server answers, has not grown, and logged no internal error."""
        began = time.monotonic()
        assert self.server.ask("GET", f"{API}/health")[0] == 200
        assert self.server.ask("GET", f"{API}/trials")[0] == 200
        assert time.monotonic() - began < _LIMIT
        self.assert_small()
        with open(self._log, "rb") as log:
            log.seek(self._log_size)
            assert b"Traceback" not in (server_log := log.read()), server_log.decode()


@pytest.fixture
def line(home: Path) -> Iterator[Line]:
    wl.Client().server_info()
    line = Line(home)
    yield line
    line.assert_well()


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n",
        b"\0" * 1000,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET  /api/v1/trials HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # the beginning of TLS
        b"GET /api/v1/trials HTTP/1.1\r\nHost: a\r\nHost: localhost\r\nX: \0\r\n\r\n",
        b"GET /api/v1/trials HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"GET /api/v1/trials HTTP/1.1\r\nHost: localhost\r\n folded: yes\r\n\r\n",
        b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1e9\r\n\r\n",
        b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999"
        b"\r\n\r\n",
        b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Content-Length: 6\r\n\r\nhello",
        b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\nx",
        b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz"
        b"\r\n",
        b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"ffffffffffffffffff\r\nx\r\n",
        b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"-1\r\nx\r\n",
        b"GET /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==\r\n"
        b"Sec-WebSocket-Version: 13\r\n\r\n",
        b"GET /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\n\r\nPRI * HTTP/2.0\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[:70])[2:-1],
)
def test_a_request_with_bad_framing_is_refused_and_reads_no_data(line: Line, sent: bytes) -> None:
    answer = line.exchange(sent)
    assert b" 200 " not in answer.split(b"\r\n", 1)[0]
    assert b'"items"' not in answer
    assert line.server.token.encode() not in answer


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"a" * MEGABYTE),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX", b"a" * MEGABYTE),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-Abc: y\r\n" * 100_000),
        (b"GET /", b"a" * MEGABYTE),
        (b"A", b"A" * MEGABYTE),
        (
            b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            b"\r\n1;",
            b"a" * MEGABYTE,
        ),
        (
            b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            b"\r\n0\r\nX: ",
            b"a" * MEGABYTE,
        ),
        (
            b"POST /api/v1/trials HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            b"\r\n",
            b"100000\r\n" + b"a" * MEGABYTE + b"\r\n",
        ),
    ],
    ids=["value", "name", "headers", "url", "method", "extension", "trailer", "body"],
)
def test_an_unauthenticated_client_cannot_fill_the_servers_memory(
    line: Line, first: bytes, piece: bytes
) -> None:
    """Before the token check any client may send data without an end."""
    answer = line.exchange(first, *[piece] * 100)
    assert b" 200 " not in answer.split(b"\r\n", 1)[0]


@pytest.mark.finding("A3")
@pytest.mark.parametrize(
    ("count", "width", "is_allowed"),
    [(98, 100, True), (99, 100, False), (40, 1500, True), (46, 1500, False)],
)
def test_a_head_has_at_most_100_lines_and_64_kilobytes(
    line: Line, count: int, width: int, is_allowed: bool
) -> None:
    more = [f"X-{number}: {'x' * width}" for number in range(count)]
    with line.connect() as connection:
        connection.sendall(line.head("GET", "/trials", *more))  # with two lines of its own
        try:
            answer = connection.recv(65536)
        except ConnectionResetError:  # the server closed the connection before it read the rest
            answer = b"HTTP/1.1 400 "
    assert answer.startswith(b"HTTP/1.1 200 " if is_allowed else b"HTTP/1.1 400 ")


@pytest.mark.finding("A3")
@pytest.mark.parametrize(
    "sent",
    [
        b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n" + b"a:\r\n" * 31_000,
        b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2_500,
        b"GET /api/v1/trials HTTP/1.1\r\n\r\n" * 4_000,
    ],
    ids=["header lines", "requests", "requests without a host"],
)
def test_hundreds_of_strangers_with_costly_requests_fill_no_memory(line: Line, sent: bytes) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            connection = stack.enter_context(line.connect())
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError, ConnectionResetError, BrokenPipeError):
                connection.send(sent)
        line.assert_well()


@pytest.mark.parametrize("path", ["/trials", "/snapshots", "/trials/1/stop"])
def test_a_body_without_an_end_is_refused(line: Line, path: str) -> None:
    chunk = b"100000\r\n" + b"a" * MEGABYTE + b"\r\n"
    head = line.head("POST", path, "Transfer-Encoding: chunked")
    answer = line.exchange(head, *[chunk] * 100)
    assert not answer or b" 4" in answer.split(b"\r\n", 1)[0]


def test_a_blob_that_never_arrives_leaves_nothing_behind(line: Line, home: Path) -> None:
    size = 3 << 20  # more than is read at once
    pack = bytes(32) + size.to_bytes(8, "big") + b"x" * (size // 2)
    with line.connect() as connection:
        connection.sendall(line.head("POST", "/blobs", f"Content-Length: {size + 40}") + pack)
        eventually(lambda: bool(unfinished(home)), "the blob is being written")
    eventually(lambda: not unfinished(home), "the torn blob is gone")


def unfinished(home: Path) -> list[str]:
    return [name for name in os.listdir(home / "blobs") if name.startswith(".")]


@pytest.mark.thorough
def test_hundreds_of_unfinished_requests_do_not_block_other_clients(
    chaos: Chaos, line: Line
) -> None:
    before = line.open_files
    request = line.head("GET", "/trials")
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(line.connect()) for _ in range(chaos.pick(200, 700))]
        for connection in slow:
            connection.sendall(request[: chaos.random.randrange(len(request) - 4)])
        line.assert_well()
        for connection in slow[::7]:  # and some continue, a byte at a time
            connection.sendall(b"x")
        line.assert_well()
    eventually(lambda: line.open_files <= before + 10, "the connections are let go")


def test_a_request_in_single_bytes_gets_a_normal_response(line: Line) -> None:
    with line.connect() as connection:
        for byte in line.head("GET", "/trials"):
            connection.sendall(bytes([byte]))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_many_requests_at_once_on_one_connection_are_answered_in_order(line: Line) -> None:
    count = 200
    with line.connect() as connection, connection.makefile("rb") as answers:
        requests = [line.head("GET", f"/trials/{number + 1000}") for number in range(count)]
        connection.sendall(b"".join(requests))
        for number in range(count):
            assert answers.readline() == b"HTTP/1.1 404 Not Found\r\n"
            length = 0
            while (header := answers.readline()) != b"\r\n":
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            assert f"{number + 1000}".encode() in answers.read(length)


@pytest.mark.thorough
def test_a_client_that_never_reads_blocks_only_itself(line: Line) -> None:
    with line.connect() as connection:
        connection.setblocking(False)
        sent = line.head("GET", "/schema/openapi.json") * 100
        with contextlib.suppress(BlockingIOError):
            for _ in range(1000):
                connection.send(sent)
        line.assert_well()


@pytest.mark.thorough
def test_the_server_closes_abandoned_streams(chaos: Chaos, line: Line) -> None:
    @wl.run(cpus=0.1)
    def wait() -> None:
        time.sleep(10**6)

    trial = wait.submit()
    try:
        before = line.open_files
        with contextlib.ExitStack() as stack:
            for _ in range(chaos.pick(30, 200)):
                connection = stack.enter_context(line.connect())
                connection.sendall(line.head("GET", f"/trials/{trial.id}/stream"))
                assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
            line.assert_well()
        eventually(lambda: line.open_files <= before + 10, "the streams are let go")
    finally:
        trial.stop(grace=0).wait()


def test_a_request_with_any_defect_does_no_harm(chaos: Chaos, line: Line) -> None:
    body = json.dumps({"key": "0" * 32, "experiment": "e", "spec": {"roles": []}}).encode()
    whole = [
        line.head("GET", "/trials?limit=5"),
        line.head("POST", "/trials", f"Content-Length: {len(body)}") + body,
        line.head("POST", "/blobs", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n",
        line.head("GET", "/blobs/" + "0" * 64),
    ]
    for _ in range(chaos.pick(150, 5000)):
        sent = bytearray(chaos.random.choice(whole))
        for _ in range(chaos.random.randint(1, 6)):
            spoil(sent, chaos.random)
        with line.connect() as connection:
            connection.settimeout(0.02)
            with contextlib.suppress(OSError):  # no response to half a request is correct
                connection.sendall(sent)
                first = connection.recv(65536).split(b"\r\n", 1)[0]
                assert b" 5" not in first, bytes(sent)


def spoil(sent: bytearray, random: random.Random) -> None:
    at = random.randrange(len(sent) + 1)
    kind = random.randrange(4)
    if kind == 0:
        sent[at : at + 1] = bytes([random.randrange(256)])
    elif kind == 1:
        del sent[at : at + random.randrange(30)]
    elif kind == 2:
        sent[at:at] = sent[at : at + random.randrange(60)]
    else:
        sent[at:at] = random.choice([b"\r\n", b"\n", b"\0", b":", b" ", b"\r\n\r\n", b"%", b"\xff"])
