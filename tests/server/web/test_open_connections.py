"""Clients without a token hold few connections for a short time, and keep nobody out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import uvicorn

import windlass as wl
from harness import BIN, PATIENCE, eventually
from server_requests import API, Server
from windlass.server.web.auth import Guard, TokenAuthenticator
from windlass.server.web.http_protocol import Connection
from windlass.server.web.messages import Answer, send_answer
from windlass.server.web.open_connections import OpenConnections

TOKEN = "right"
SOON = 1.0  # seconds for the head of a request
FILES = 256  # the most open files of a server
STRANGERS = FILES // 4


@contextlib.contextmanager
def serving(connections: OpenConnections) -> Iterator[int]:
    """A server with these limits that answers each permitted request; its port."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send_answer(Answer(b"hello"), receive, send)

    config = uvicorn.Config(
        Guard(app, TokenAuthenticator(TOKEN)),
        http=partial(Connection, open_connections=connections),  # type: ignore[arg-type]
        lifespan="off",
        log_config=None,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    limits = OpenConnections(FILES, head_seconds=SOON, answer_seconds=SOON)
    with serving(limits) as port:
        yield port


@pytest.fixture
def line(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line:
        yield line


def request(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "\r\n"]).encode()


def read_body(line: socket.socket) -> None:
    received = b""
    while not received.endswith(b"hello"):
        received += (data := line.recv(65536))
        assert data, received


def read_to_end(line: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := line.recv(65536):
            received += data
    return received


@pytest.mark.finding("A2")
def test_a_connection_without_a_request_is_closed(line: socket.socket) -> None:
    assert read_to_end(line) == b""


@pytest.mark.finding("A2")
@pytest.mark.parametrize("sent", [b"G", request("/health")[:-2]], ids=["a byte", "all but the end"])
def test_a_request_head_that_does_not_end_is_refused(line: socket.socket, sent: bytes) -> None:
    line.sendall(sent)
    answer = read_to_end(line)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"took more than 1 s" in answer


@pytest.mark.finding("A2")
def test_a_request_without_a_token_does_not_keep_the_connection_open(line: socket.socket) -> None:
    line.sendall(request(f"{API}/health"))
    line.sendall(request(f"{API}/trials"))
    answer = read_to_end(line)
    assert b"hello" in answer
    assert b"HTTP/1.1 401 " in answer


@pytest.mark.finding("A2")
def test_a_stranger_that_reads_no_responses_is_disconnected(port: int) -> None:
    many = request(f"{API}/trials") * 1000
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # soon full
        line.settimeout(PATIENCE)
        line.connect(("127.0.0.1", port))
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while True:
                line.sendall(many)


@pytest.mark.finding("A2")
def test_a_connection_with_a_token_stays_open(line: socket.socket) -> None:
    with_token = request("/", f"Authorization: Bearer {TOKEN}")
    line.sendall(with_token)
    read_body(line)
    line.settimeout(3 * SOON)
    with pytest.raises(TimeoutError):  # the server sends nothing and does not close it
        line.recv(65536)
    line.sendall(with_token)
    read_body(line)


@pytest.mark.finding("A2")
def test_a_second_head_that_does_not_end_is_refused_despite_the_token(line: socket.socket) -> None:
    line.sendall(request("/", f"Authorization: Bearer {TOKEN}"))
    read_body(line)
    line.sendall(b"GET /")
    assert read_to_end(line).startswith(b"HTTP/1.1 408 ")


@pytest.fixture
def small_server(fresh_home: Path) -> Server:
    """A server that may open few files."""
    command = f"ulimit -n {FILES} && exec {BIN / 'windlass'} server start"
    subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=PATIENCE)
    return Server(fresh_home)


def connect(server: Server) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((str(address.hostname), address.port or 0), timeout=PATIENCE)


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.finding("A2")
def test_clients_get_in_while_strangers_open_more_connections_than_the_server_has_files(
    small_server: Server, fresh_home: Path
) -> None:
    with contextlib.ExitStack() as stack:
        strangers = []
        for _ in range(6):
            strangers += [stack.enter_context(connect(small_server)) for _ in range(STRANGERS)]
            assert small_server.ask("GET", f"{API}/trials")[0] == 200
            assert wl.Client().server_info().pid
        closed = strangers[:-STRANGERS]
        eventually(lambda: all(map(is_closed, closed)), "the oldest are closed")
        # The last ones stay open for some seconds.
        server = psutil.Process(wl.Client().server_info().pid)
        assert server.num_fds() < FILES - STRANGERS
    assert (fresh_home / "server.log").stat().st_size < 10_000


@pytest.mark.finding("A2")
def test_a_server_with_its_most_clients_refuses_one_more_and_can_still_open_files(
    small_server: Server,
) -> None:
    head = request(f"{API}/trials", f"Authorization: Bearer {small_server.token}")
    endless = request(f"{API}/experiments/1/stream", f"Authorization: Bearer {small_server.token}")

    @wl.run(cpus=0.1)
    def square(x: int) -> int:
        return x * x

    assert square(3) == 9
    with contextlib.ExitStack() as stack:
        lines, answers = [], []
        for _ in range(FILES):
            lines.append(line := stack.enter_context(connect(small_server)))
            line.sendall(endless)
            answers.append(line.recv(65536).split(b"\r\n", 1)[0])
        accepted = answers.count(b"HTTP/1.1 200 OK")
        assert FILES // 2 < accepted < FILES
        assert answers[accepted:] == [b"HTTP/1.1 503 Service Unavailable"] * (FILES - accepted)
        lines[0].close()
        eventually(lambda: _status(small_server, head) == 200, "a place is free")
    eventually(lambda: _status(small_server, head) == 200, "all places are free")
    assert square(4) == 16


def _status(server: Server, head: bytes) -> int:
    with connect(server) as line:
        line.sendall(head)
        return int(line.recv(65536).split(b" ")[1])


@pytest.mark.finding("A2")
def test_accept_errors_are_logged_a_few_times_and_idle_connections_give_way(
    fresh_home: Path,
) -> None:
    server = psutil.Process(wl.Client().server_info().pid)
    fresh_server = Server(fresh_home)
    log = fresh_home / "server.log"
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(fresh_server)) for _ in range(20)]
        eventually(lambda: fresh_server.ask("GET", f"{API}/trials")[0] == 200, "all are accepted")
        _, most = server.rlimit(psutil.RLIMIT_NOFILE)
        server.rlimit(psutil.RLIMIT_NOFILE, (server.num_fds() - 5, most))
        more = [stack.enter_context(connect(fresh_server)) for _ in range(20)]
        eventually(lambda: "cannot be accepted" in log.read_text(), "accepting fails")
        eventually(lambda: all(map(is_closed, idle)), "idle connections are closed")
        assert fresh_server.ask("GET", f"{API}/trials")[0] == 200
        assert not all(map(is_closed, more))
        server.rlimit(psutil.RLIMIT_NOFILE, (most, most))
    assert log.read_text().count("cannot be accepted") <= 20
