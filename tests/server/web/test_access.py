"""Access control of a real server, for every operation in its document."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import cast
from urllib.parse import quote, urlsplit

import pytest

import windlass as wl
from server_requests import API, Server
from windlass.model.versions import API_LEVEL
from windlass.server.app import create_app
from windlass.server.services import Services
from windlass.version import __version__


@pytest.fixture
def server(home: Path) -> Server:
    """The server of these tests, with one trial."""
    wl.Client().server_info()
    server = Server(home)
    key = "0" * 32  # a repeated submission gives the same trial
    role = {"executable": {"type": "process", "argv": ["true"]}}
    status, record = server.submit({"key": key, "experiment": "e", "spec": {"roles": [role]}})
    assert (status, record["id"]) == (201, 1)
    return server


BLANKS: dict[str, object] = defaultdict(lambda: 1, {"name": "train", "digest": "0" * 64})


def operations(server: Server) -> list[tuple[str, str]]:
    """Every method and path of the OpenAPI document and of the router, with parameters filled in.

    This includes routes that are missing from the document.
    """
    status, document = server.ask("GET", f"{API}/schema/openapi.json")
    assert status == 200
    responses = {
        (method.upper(), path.format_map(BLANKS))
        for path, methods in document["paths"].items()
        for method in methods
    }
    routes = create_app(cast("Services", None), "t")._app._routes
    routed = {
        (route.method, route.path.format_map(BLANKS))
        for route in (*itertools.chain(*routes._plain.values()), *routes._others)
    }
    assert len(responses) >= 12, responses
    assert responses < routed, "the document tells of routes that there are not"
    nowhere = {("GET", "/"), ("GET", "/x"), ("POST", "/"), ("DELETE", f"{API}/trials")}
    return sorted(routed | nowhere)


def test_every_operation_but_health_needs_the_token(server: Server) -> None:
    for method, path in operations(server):
        if path == f"{API}/health":
            continue
        for headers in (
            {"token": None},
            {"token": "wrong"},
            {"token": server.token[:-1]},
            {"token": None, "Authorization": f"Basic {server.token}"},
            {"token": None, "Authorization": server.token},
        ):
            status, fault = server.ask(method, path, b"{}", **headers)
            assert (status, fault["code"]) == (401, "unauthorized"), (method, path, headers)
            assert server.token not in json.dumps(fault)
            assert "token" in fault["hint"]


def test_every_operation_refuses_other_origins_and_host_names(server: Server) -> None:
    """Also with the correct token, which a tricked browser would send."""
    for method, path in operations(server):
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            status, fault = server.ask(method, path, b"{}", **headers)
            assert (status, fault["code"]) == (403, "unauthorized"), (method, path, headers)


def test_health_is_open_to_all(server: Server) -> None:
    response = (200, {"status": "ok", "version": __version__})
    assert server.ask("GET", f"{API}/health", token=None) == response
    assert server.ask("GET", f"{API}/health") == response


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:80", "", "[::1", "0.0.0.0"]
)
def test_a_host_name_rebound_to_this_machine_is_refused(server: Server, host: str) -> None:
    for path in ("/health", "/trials"):
        status, fault = server.ask("GET", API + path, Host=host)
        assert (status, fault["code"]) == (403, "unauthorized")


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://127.0.0.1.evil.example", "null", "file://", "http://["],
)
def test_a_page_of_another_site_is_refused_even_with_the_token(server: Server, origin: str) -> None:
    for path in ("/health", "/trials"):
        status, fault = server.ask("GET", API + path, Origin=origin)
        assert (status, fault["code"]) == (403, "unauthorized")


def test_names_of_this_machine_are_accepted(server: Server) -> None:
    port = urlsplit(server.url).port
    for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        assert server.ask("GET", f"{API}/trials", Host=host, Origin=f"http://{host}")[0] == 200


def test_a_client_of_another_api_level_gets_an_error_with_both_versions(server: Server) -> None:
    path = f"{API}/trials"
    for level, fix in (
        (API_LEVEL + 1, "Install Windlass 9.9 for the server"),
        (0, f"Install Windlass {__version__} for the client."),
        ("", f"Install Windlass {__version__} for the client."),
    ):
        headers = {"Windlass_Version": "9.9", "Windlass_Api_Level": str(level)}
        status, fault = server.ask("GET", path, **headers)
        assert (status, fault["code"]) == (426, "version_mismatch")
        assert f"The server is Windlass {__version__} (API level {API_LEVEL})" in fault["message"]
        shown = "unknown" if level == "" else level
        assert f"this client is Windlass 9.9 (API level {shown})" in fault["message"]
        assert fix in fault["hint"]
    own = {"Windlass_Version": "9.9", "Windlass_Api_Level": str(API_LEVEL)}
    assert server.ask("GET", path, **own)[0] == 200
    assert server.ask("GET", path)[0] == 200, "programs such as curl state no level"


DIGEST = "0" * 64


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nowhere", None, 404),
        ("GET", "/trials/1/nowhere", None, 404),
        ("DELETE", "/trials/1/logs", None, 405),
        ("GET", "/trials/0", None, 404),
        ("GET", "/trials/-1", None, 404),
        ("GET", "/trials/999999999", None, 404),
        ("GET", f"/trials/{2**63}", None, 404),
        ("GET", f"/trials/{'9' * 400}", None, 404),
        ("GET", f"/trials/{'9' * 5000}", None, 404),
        ("GET", "/trials/one", None, 404),
        ("GET", "/trials/1.5", None, 404),
        ("GET", "/trials/%00", None, 404),
        ("GET", "/trials/999999999/logs", None, 404),
        ("GET", "/trials/999999999/stream?tail=1", None, 404),
        ("GET", "/trials/999999999/stream", None, 404),
        ("GET", "/trials/999999999/events", None, 404),
        ("GET", "/trials/999999999/result", None, 404),
        ("GET", "/trials/999999999/error", None, 404),
        ("POST", "/trials/999999999/stop", b"{}", 404),
        ("POST", "/trials/999999999/stop", b'{"grace": -1}', 400),
        ("POST", "/trials/999999999/stop", b'{"grace": 1e999}', 400),
        ("POST", "/trials/999999999/stop", b'{"grace": "soon"}', 400),
        ("GET", "/trials?limit=0", None, 400),
        ("GET", "/trials?limit=-5", None, 400),
        ("GET", "/trials?limit=501", None, 400),
        ("GET", "/trials?limit=many", None, 400),
        ("GET", f"/trials?name={'x' * 200_000}", None, 400),
        ("GET", "/trials?cursor=nonsense", None, 400),
        ("GET", "/trials?cursor=%FF%FE", None, 400),
        ("GET", "/trials?cursor=W10", None, 400),  # []
        ("GET", "/trials?cursor=WzFlOTk5XQ", None, 400),  # [1e999]
        ("GET", "/trials?cursor=WzEsMl0", None, 400),  # [1,2]
        ("GET", "/trials?cursor=W3RydWVd", None, 400),  # [true]
        ("GET", "/trials?sort=nothing", None, 400),
        ("GET", "/trials?sort=--id", None, 400),
        ("GET", "/trials?state=ASLEEP", None, 400),
        ("GET", "/trials?experiment_id=-1", None, 404),
        ("GET", "/trials/1/logs?tail=-1", None, 400),
        ("GET", "/trials/1/logs?cursor=../../etc/passwd", None, 400),
        ("GET", "/trials/1/logs?cursor=main-0.1:-5", None, 400),
        ("GET", "/trials/1/logs?tail=1&cursor=main-0.1:0", None, 400),
        ("GET", "/trials/1/stream?cursor=nonsense", None, 400),
        ("GET", "/trials/1/stream?tail=1&cursor=main-0.1:0", None, 400),
        ("GET", "/trials/1/stream?stream=stdin", None, 400),
        ("GET", "/trials/1/stream?regex=true&search=(", None, 400),
        ("GET", "/trials/1/stream?role=nobody", None, 400),
        ("GET", "/trials/1/logs?stream=stdin", None, 400),
        ("GET", f"/trials/1/logs?regex=true&search={'a%7B0,1000%7D' * 100}", None, 400),
        ("GET", f"/logs?regex=true&search={'(a%7Cb)%7B9,900%7D' * 40}", None, 400),
        ("GET", "/logs?regex=true&search=" + quote(r"(\PN*){999}"), None, 400),
        ("GET", "/trials/1/logs?regex=true&search=" + quote(r"\w\pL" * 199), None, 400),
        ("GET", f"/trials/1/logs?regex=true&search={'(' * 499}a{')' * 499}", None, 400),
        ("GET", f"/models/{2**63}/versions/1", None, 404),
        ("PATCH", f"/models/1/versions/{2**63}", b"{}", 404),
        ("GET", "/experiments/nobody", None, 404),
        ("GET", f"/experiments/{'9' * 5000}", None, 404),
        ("GET", "/experiments?limit=-1", None, 400),
        ("GET", f"/blobs/{DIGEST}", None, 404),
        ("GET", "/blobs/..%2F..%2Ftoken", None, 404),
        ("GET", "/blobs/%2e%2e/%2e%2e/token", None, 404),
        ("POST", "/trials", None, 400),
        ("POST", "/trials", b"", 400),
        ("POST", "/trials", b"{", 400),
        ("POST", "/trials", b"[]", 400),
        ("POST", "/trials", b"null", 400),
        ("POST", "/trials", b"\xff\xfe", 400),
        ("POST", "/trials", b"[" * 100_000, 400),
        ("POST", "/trials", b'{"key": "short", "experiment": "e", "spec": {"roles": []}}', 400),
        ("POST", "/snapshots", b"", 400),
        ("POST", "/snapshots", b"[]", 400),
        ("POST", "/snapshots", b'{"version": 1, "files": [["../x", "f", "00", 1]]}', 400),
        ("POST", "/snapshots", b"[" * 100_000, 400),
        ("POST", "/blobs", b"torn", 400),
        ("POST", "/blobs", bytes(32) + (5).to_bytes(8, "big") + b"hello", 400),
        ("POST", "/blobs", bytes(32) + (1 << 60).to_bytes(8, "big"), 400),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_an_invalid_value_is_a_client_error_with_a_message(
    server: Server, method: str, path: str, body: bytes | None, status: int
) -> None:
    kind = "application/octet-stream" if path == "/blobs" else "application/json"
    answered, fault = server.ask(method, API + path, body, Content_Type=kind)
    assert answered == status, fault
    assert set(fault) <= {"code", "message", "hint"}
    assert fault["code"] in ("invalid_argument", "not_found")
    assert fault["message"].strip()


def test_an_impossible_id_is_not_found(server: Server) -> None:
    for number in (0, -1, 2**63, 10**29):
        assert server.ask("DELETE", f"{API}/models/1/versions/{number}")[0] == 200


def test_lists_sorted_by_long_names_can_be_read_to_their_end(server: Server) -> None:
    """The cursor contains the name, which has at most four bytes per character."""
    for noun in ("models", "workspaces", "templates"):
        names = [sign * 200 for sign in "\N{GRINNING FACE}\N{UNICORN FACE}"]
        for number, name in enumerate(names):
            body = {"key": f"{number:032x}", "name": name, "fields": {}}
            status, made = server.ask("POST", f"{API}/{noun}", json.dumps(body).encode())
            assert status == 201, made
        path = f"{API}/{noun}?sort=-name&limit=1"
        _, first = server.ask("GET", path)
        status, second = server.ask("GET", f"{path}&cursor={first['next']}")
        assert status == 200, second
        assert [first["items"][0]["name"], second["items"][0]["name"]] == sorted(names)[::-1]
