"""The health server of the operator, and its limits for slow clients."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from harness import PATIENCE, eventually
from windlass.operator import health_server
from windlass.operator.health_server import HealthServer


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HealthServer]:
    monkeypatch.setattr(health_server, "_LONGEST", 1.0)
    try:
        with HealthServer(request.param, 0, {"/healthz": lambda: (200, "ok")}) as server_at_address:
            yield server_at_address
    except OSError:
        pytest.skip(f"this machine has no {request.param}")


def test_the_server_answers_on_any_kind_of_address(server: HealthServer) -> None:
    assert _ask(server) == "ok"


def test_silent_connections_are_closed(server: HealthServer) -> None:
    before = threading.active_count()
    with ExitStack() as opened:
        for _ in range(health_server._MOST + 20):
            opened.enter_context(_silent(server))
        eventually(lambda: threading.active_count() > before, "they are listened to")
        eventually(lambda: threading.active_count() <= before, "they are let go")
        assert _ask(server) == "ok"


def test_silent_connections_block_no_others_and_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health_server, "_LONGEST", 10 * PATIENCE)
    with HealthServer("127.0.0.1", 0, {"/healthz": lambda: (200, "ok")}) as server:
        before = threading.active_count()
        with ExitStack() as opened:
            for _ in range(3 * health_server._MOST):
                opened.enter_context(_silent(server))
            assert _ask(server) == "ok"
            eventually(
                lambda: threading.active_count() <= before + health_server._MOST,
                "the first are let go",
            )


def _silent(server: HealthServer) -> socket.socket:
    return socket.create_connection((_host(server), server.port))


def _ask(server: HealthServer) -> str:
    url = f"http://[{_host(server)}]" if ":" in _host(server) else f"http://{_host(server)}"
    with urllib.request.urlopen(f"{url}:{server.port}/healthz", timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def _host(server: HealthServer) -> str:
    return str(server._server.server_address[0])
