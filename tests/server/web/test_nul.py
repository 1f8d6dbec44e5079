r"""No text of a request may contain a NUL character."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import windlass as wl
from harness import PATIENCE, Project
from server_requests import API, Server

ROLE = {"executable": {"type": "process", "argv": ["true"]}}
TRIAL = {"experiment": "e", "spec": {"roles": [ROLE], "suspend": True}}


@pytest.fixture
def server(home: Path) -> Server:
    wl.Client().server_info()
    return Server(home)


def trial(**fields: Any) -> dict[str, Any]:
    return {"key": "0" * 32, **TRIAL, **fields}


@pytest.mark.parametrize(
    ("method", "path", "body", "where"),
    [
        ("POST", "/trials", trial(name="a\0b"), "name"),
        ("POST", "/trials", trial(experiment="\0"), "experiment"),
        ("POST", "/trials", trial(params={"lr": "0\0"}), "params.lr"),
        ("POST", "/trials", trial(params={"a": {"b": [1, {"c": "\0"}]}}), "params.a.b.1.c"),
        ("POST", "/trials", trial(params={"a\0b": 1}), "params.a␀b"),
        ("POST", "/trials", trial(params={"a": "\\\0"}), "params.a"),
        ("POST", "/trials", trial(labels=["fine", "x\0"]), "labels.1"),
        ("POST", "/trials", trial(private={"environ": {"A": "\0"}}), "private.environ.A"),
        ("PATCH", "/trials/1", {"notes": "see\0"}, "notes"),
        ("PATCH", "/trials/1", {"description": "\0"}, "description"),
        ("PATCH", "/experiments/1", {"put_links": {"paper": "http://x/\0"}}, "put_links.paper"),
        ("POST", "/models", {"key": "0" * 32, "name": "m\0"}, "name"),
        ("POST", "/models", {"key": "0" * 32, "name": "m", "metadata": {"k": "\0"}}, "metadata.k"),
        ("POST", "/trials/1/ask-to-stop", {"reason": "\0"}, "reason"),
        ("GET", "/trials?where=name%20%3D%20%27%00%27", None, "where"),
        ("GET", "/trials?name=%00", None, "name"),
        ("GET", "/trials?labels=a%00", None, "labels"),
        ("GET", "/trials?user=a%00", None, "user"),
        ("GET", "/trials/1/logs?search=a%00b", None, "search"),
        ("GET", "/trials/1/logs?search=a%00b&regex=true", None, "search"),
        ("GET", "/logs?search=%00", None, "search"),
        ("GET", "/experiments/a%00b", None, "name"),
        ("GET", "/models/named/a%00b", None, "name"),
    ],
)
def test_a_nul_character_is_refused_with_its_place(
    server: Server, method: str, path: str, body: Any, where: str
) -> None:
    data = None if body is None else json.dumps(body).encode()
    status, fault = server.ask(method, API + path, data, Content_Type="application/json")
    assert (status, fault["code"]) == (400, "invalid_argument")
    assert fault["message"] == f"{where}: the text contains a NUL character."
    assert fault["hint"] == "Remove the NUL character, which texts cannot contain."


def test_the_letters_of_its_escape_are_a_text_like_any_other(server: Server) -> None:
    texts = [r"\u0000", r"a\\u0000", r"\\\u0000 and \n", "\\"]
    status, record = server.submit(trial(params={"texts": texts, r"\u0000": 1}))
    assert (status, record["params"]) == (201, {"texts": texts, r"\u0000": 1})
    path = f"{API}/trials?where=" + quote("hparams.texts contains 'u0000'")
    assert [item["id"] for item in server.ask("GET", path)[1]["items"]] == [record["id"]]


def test_a_program_may_fail_with_a_nul_character_in_its_message(
    project: Project, home: Path
) -> None:
    project.write(
        "fail.py",
        r"""
        import windlass as wl

        @wl.run(cpus=0.1)
        def fail():
            raise ValueError("embedded \0 byte")

        if __name__ == "__main__":
            print(fail.submit().id)
        """,
    )
    done = project.python("fail.py")
    failed = wl.get_trial(int(done.stdout)).wait(timeout=PATIENCE)
    assert failed.state == "FAILED", done.stderr
    assert "\0" not in failed.message
    with pytest.raises(ValueError, match="embedded \0 byte"):
        failed.result()
