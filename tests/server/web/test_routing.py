"""Routing of requests to operations, and refusals before an operation runs."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import windlass as wl
from harness import PATIENCE
from server_requests import API, Server
from windlass.server.web.messages import Answer, Refused, Request
from windlass.server.web.routing import Route, Routes


@pytest.fixture
def server(home: Path) -> Server:
    wl.Client().server_info()
    return Server(home)


def submit(server: Server, number: int, **fields: Any) -> tuple[int, Any]:
    role = {"executable": {"type": "process", "argv": ["true"]}}
    trial = {"key": f"{number:032x}", "experiment": "e", "spec": {"roles": [role]}, **fields}
    return server.submit(trial)


def test_an_unknown_path_differs_from_a_method_that_is_not_allowed(server: Server) -> None:
    status, fault = server.ask("GET", f"{API}/nothing")
    assert (status, fault["code"]) == (404, "not_found")
    for method in ("DELETE", "PUT", "HEAD", "OPTIONS"):
        assert server.ask(method, f"{API}/trials")[0] == 405


def test_a_trailing_slash_changes_nothing(server: Server) -> None:
    assert server.ask("GET", f"{API}/trials/")[0] == 200
    assert server.ask("GET", f"{API}/experiments/")[0] == 200


def test_an_experiment_may_have_any_name_in_its_path(server: Server) -> None:
    names = ["a/b", "a/", "/a", "été ☃", "..", "a%2Fb", "a?b#c", " "]
    for number, name in enumerate(names):
        status, record = submit(server, number, experiment=name)
        assert status == 201, record
    for name in names:
        status, response = server.ask("GET", f"{API}/experiments/{quote(name, safe='')}")
        assert (status, response["name"]) == (200, name)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=0", "limit: Expected `int` >= 1"),
        ("limit=501", "limit: Expected `int` <= 500"),
        ("limit=many", "limit: Expected `int`, got `str`"),
        ("experiment_id=many", "experiment_id"),
        ("name=" + "x" * 1001, "name"),
        ("state=GONE", "There is no state 'GONE'"),
        ("sort=size", "Cannot sort by 'size'"),
        ("cursor=!", "cursor"),
    ],
)
def test_an_invalid_query_is_refused_with_the_reason(
    server: Server, query: str, message: str
) -> None:
    status, fault = server.ask("GET", f"{API}/trials?{query}")
    assert status == 400, fault
    assert fault["code"] == "invalid_argument"
    assert message in fault["message"]


def test_a_cursor_is_valid_only_for_its_own_query(server: Server) -> None:
    """In another query it would be a position in a list whose beginning was never read."""
    for number in range(3):
        assert submit(server, 100 + number, experiment="walked")[0] == 201
        template = json.dumps({"key": f"{number:032x}", "name": f"t{number}", "fields": {}})
        assert server.ask("POST", f"{API}/templates", template.encode())[0] == 201
    question = f"{API}/trials?experiment=walked&sort=created"
    _, first = server.ask("GET", f"{question}&limit=1")
    cursor = first["next"]
    status, second = server.ask("GET", f"{question}&limit=2&cursor={cursor}")
    assert (status, second["next"], len(second["items"])) == (200, None, 2)
    for other in (
        "trials?sort=created",
        "trials?experiment=walked&sort=-created",
        "trials?experiment=walked&sort=id",
        "trials?experiment=walked&sort=created&state=FAILED",
        "trials?experiment=other&sort=created",
        "trials?experiment=walked&sort=created&where=hparams.lr+%3C+1",
        "experiments?sort=created",
        "templates?sort=created",
        "checkpoints?sort=created",
        "queue?limit=1",
        f"trials/{first['items'][0]['id']}/tasks?limit=1",
        f"trials/{first['items'][0]['id']}/artifacts?limit=1",
        "logs?search=a",
    ):
        status, fault = server.ask("GET", f"{API}/{other}&cursor={cursor}")
        assert status == 400, (other, fault)
        assert fault["message"].startswith("The cursor belongs to another request")
        assert "start again without a cursor" in fault["hint"]
    _, walked = server.ask("GET", f"{API}/templates?sort=name&limit=1")
    status, fault = server.ask("GET", f"{API}/workspaces?sort=name&limit=1&cursor={walked['next']}")
    assert (status, fault["code"]) == (400, "invalid_argument")


def test_an_invalid_body_is_refused_with_the_reason(server: Server) -> None:
    for body, message in (
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"key": "x"}', "key"),
        (b'{"params": {"a": ' + b"[" * 100_000, "nested too deeply"),
    ):
        status, fault = server.ask("POST", f"{API}/trials", body)
        assert (status, fault["code"]) == (400, "invalid_argument"), body[:20]
        assert message in fault["message"], fault


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Server) -> None:
    path, content_length = f"{API}/trials/1/stop", str(2 << 20)
    status, fault = server.ask("POST", path, b"", Content_Length=content_length)
    assert (status, fault["code"]) == (413, "invalid_argument")


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
def test_a_client_that_sends_too_much_gets_a_response_instead_of_a_reset(
    server: Server, connection: str
) -> None:
    """For every operation with a body, every reason, and every behaviour of the client."""
    _, document = server.ask("GET", f"{API}/schema/openapi.json")
    operations = [
        (method.upper(), re.sub(r"\{\w+\}", "1", path))
        for path, methods in document["paths"].items()
        for method in methods
        if method not in ("get", "delete")
    ]
    assert len(operations) > 30
    refused = set()
    for method, path in operations:
        message = "?writer=0011223344556677" if path.endswith("/input") else ""
        status, fault = server.ask(method, path + message, bytes(5 << 20), Connection=connection)
        assert 400 <= status < 500, (method, path, status)
        assert fault["code"] and fault["message"].strip(), (method, path)
        refused.add(status)
    assert 413 in refused
    status, fault = server.ask("POST", f"{API}/trials", bytes(5 << 20), token="wrong")
    assert (status, fault["code"]) == (401, "unauthorized")


def test_a_body_without_a_length_is_refused_once_it_is_too_large(server: Server) -> None:
    """The server reads such a body up to the limit, and the response names the limit."""
    pieces = (bytes(1 << 16) for _ in range(80))
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=PATIENCE)
    headers = {"Authorization": f"Bearer {server.token}"}
    connection.request("POST", f"{API}/trials/1/stop", pieces, headers, encode_chunked=True)
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Connection"]) == (413, "close")
    assert "larger than 1.0 MB" in json.loads(answer.read())["message"]


def test_the_document_has_every_operation_with_its_parameters(server: Server) -> None:
    status, document = server.ask("GET", f"{API}/schema/openapi.json")
    assert status == 200
    listing = document["paths"][f"{API}/trials"]["get"]
    limit = next(parameter for parameter in listing["parameters"] if parameter["name"] == "limit")
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}
    [digests, _] = document["paths"][f"{API}/blobs"]["get"]["parameters"]
    assert (digests["name"], digests["required"]) == ("digests", True)
    content = document["paths"][f"{API}/trials"]["post"]["requestBody"]["content"]
    assert content["application/json"]["schema"] == {"$ref": "#/components/schemas/CreateTrial"}
    assert "\\\\Z" not in json.dumps(document)


def test_a_parameter_without_a_default_is_required(server: Server) -> None:
    digest = "0" * 64
    status, answer = server.ask("GET", f"{API}/blobs?digests={digest}")
    assert (status, answer) == (200, {"missing": [digest]})
    for query in ("", "?digests=", "?digests=x", f"?digests={digest},"):
        status, fault = server.ask("GET", f"{API}/blobs{query}")
        assert (status, fault["code"]) == (400, "invalid_argument"), fault


async def _nothing(name: str) -> Answer:
    return Answer(name.encode())


async def _echo(path: str) -> dict[str, str]:
    return {"path": path}


def path_argument(raw: bytes) -> str:
    """The arguments of an operation for a query with these bytes."""
    route = Route("GET", "/echo", _echo)
    request = Request({"headers": []}, None, None)
    answer = asyncio.run(route.answer(request, None, {}, f"path={quote(raw, safe='')}"))
    assert isinstance(answer.body, bytes)
    record: str = json.loads(answer.body)["path"]
    return record


def test_bytes_that_are_not_text_are_distinguished() -> None:
    odd = [b"caf\xe9", b"caf\xe8", b"caf\xe9%E9", b"caf%E9\xe9", b"\xed\xb3\xa9", b"\xff\xfe"]
    assert len({path_argument(query) for query in odd}) == len(odd)
    assert path_argument(b"caf\xe9 100%") == "caf%E9 100%25"
    for text in ("café", "caf%E9", "100% &x=1+1", "\ufffd"):
        assert path_argument(text.encode()) == text, "the text stays as it is"


def test_fixed_paths_come_before_those_with_parameters() -> None:
    plain = Route("GET", "/a/b", _nothing)
    blank = Route("GET", "/a/{name}", _nothing)
    rest = Route("GET", "/r/{name:path}", _nothing)
    routes = Routes([blank, plain, rest])
    assert routes.find("GET", "/a/b").route is plain
    assert routes.find("GET", "/a/c") == (blank, {"name": "c"})
    assert routes.find("GET", "/r/x/y/") == (rest, {"name": "x/y/"})
    with pytest.raises(Refused) as refused:
        routes.find("POST", "/a/b")
    assert (refused.value.status, refused.value.headers) == (405, {"Allow": "GET"})
