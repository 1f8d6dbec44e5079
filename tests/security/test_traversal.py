"""Path traversal in every field that is a name, a path or a digest."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import windlass as wl
from harness import PATIENCE
from server_requests import API, Server

EVIL = [
    "..", "../", "../../token", "/etc/passwd", "a/../../../b", "./../x", "..%2f..%2ftoken",
    "token\0", "\0", "a\\..\\b", "~/x", "file:///etc/passwd", "%00", "../" * 30 + "etc/passwd",
]  # fmt: skip
BAD_PATHS = ["..", "../", "../../token", "/etc/passwd", "a/../../../b", "./../x", "x\0y"]
BAD_DIGESTS = [
    *EVIL,
    "",
    "0" * 63,
    "0" * 65,
    "A" * 64,
    "0" * 64 + "\n",
    "0" * 62 + "/.",
    "../" * 21 + "a",
]


@pytest.fixture
def server(home: Path) -> Server:
    wl.Client().server_info()
    return Server(home)


def request(role: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    plain = {"executable": {"type": "process", "argv": ["true"]}, **(role or {})}
    return {
        "key": uuid.uuid4().hex,
        "experiment": "e",
        "spec": {"roles": [plain], "backoff_limit": 0, **spec},
    }


def surroundings(home: Path) -> set[str]:
    """Everything beside the home."""
    return {str(path) for path in home.parent.rglob("*") if home not in (path, *path.parents)}


def refused(server: Server, trial: dict[str, Any]) -> None:
    status, fault = server.submit(trial)
    assert status == 400, (trial, fault)
    assert fault["code"] == "invalid_argument"


@pytest.mark.parametrize("path", BAD_PATHS, ids=repr)
def test_a_path_outside_the_tree_is_refused(server: Server, path: str) -> None:
    refused(server, request(code={"workdir": path}))
    refused(server, request(code={"import_paths": [path]}))


BAD_TARGETS = [*BAD_PATHS[:5], "x\0y", "../../x", "../outputs", "../work/x", "../1/launch.json"]


@pytest.mark.parametrize("path", BAD_TARGETS, ids=repr)
def test_a_volume_outside_the_trials_folder_is_refused(server: Server, path: str) -> None:
    refused(server, request(volumes=[{"target": path, "source": "/"}]))


@pytest.mark.parametrize("digest", BAD_DIGESTS, ids=repr)
def test_an_invalid_digest_is_refused(server: Server, digest: str) -> None:
    refused(server, request({"executable": {"type": "function", "payload": digest}}))
    refused(server, request(code={"tree": digest}))
    refused(server, request(python={"lock": digest}))
    refused(server, {**request(), "provenance": {"packages": digest}})
    refused(server, {**request(), "attachments": {digest: "aGVsbG8="}})
    if digest:
        expected = 400 if "\x00" in digest else 404
        assert server.ask("GET", f"{API}/blobs/{quote(digest, safe='')}")[0] == expected
    files = [["a", "f", digest, 5]]
    manifest = json.dumps({"files": files, "version": 1}, separators=(",", ":")).encode()
    assert server.ask("POST", f"{API}/snapshots", manifest)[0] == 400


@pytest.mark.parametrize("name", EVIL, ids=repr)
def test_a_name_is_never_a_path(server: Server, home: Path, name: str) -> None:
    """Free-form names never name files. Other names are refused."""
    before = surroundings(home)
    refused(server, request({"name": name}))
    refused(server, request(secret_names=[name]))
    refused(server, request({"env": {name: "x"}}))
    refused(server, {**request(), "key": name})
    for cursor in (name, f"main-0.1:0,{name}", f"{name}-0.1:0"):
        path = f"{API}/trials/1/logs?cursor={quote(cursor, safe='')}"
        assert server.ask("GET", path)[0] in (400, 404)
    for path in (f"/trials/{quote(name, safe='')}", f"/trials/{quote(name, safe='')}/logs"):
        assert server.ask("GET", API + path)[0] in (400, 404)
    # A slash separates a workspace from a project, so neither may contain one.
    assert server.submit({**request(), "project": name})[0] in (201, 400, 404)
    free = {**request(), "experiment": name, "name": name, "params": {name: name}}
    status, answer = server.submit(free)
    if "\0" in name:
        assert status == 400
    else:
        assert status == 201
        wl.get_trial(answer["id"]).wait(timeout=PATIENCE)
        experiments = server.ask("GET", f"{API}/experiments?name={quote(name, safe='')}")[1][
            "items"
        ]
        assert [experiment["name"] for experiment in experiments] == [name]
    assert surroundings(home) == before


BLOB = b"hello"
DIGEST = hashlib.sha256(BLOB).hexdigest()
TREES: dict[str, list[list[Any]]] = {
    "up": [["../evil", "f", DIGEST, 5]],
    "far up": [["../../../../evil", "f", DIGEST, 5]],
    "inside up": [["a/../../evil", "f", DIGEST, 5]],
    "absolute": [["/tmp/evil", "f", DIGEST, 5]],
    "nul": [["a\0b", "f", DIGEST, 5]],
    "through a link": [["d", "l", "../..", 0], ["d/evil", "f", DIGEST, 5]],
    "link up": [["d", "l", "../../..", 0]],
    "link to the root": [["d", "l", "/", 0]],
    "link out and up": [["d", "l", "/data/../etc", 0]],
    "through a link out": [["d", "l", "/tmp", 0], ["d/evil", "f", DIGEST, 5]],
    "as a folder": [["d", "l", "/tmp", 0], ["d", "f", DIGEST, 5]],
    "links together": [["a/b/up", "l", "../..", 0], ["out", "l", "a/b/up/../..", 0]],
    "a blob elsewhere": [["a", "f", "../../token", 5]],
}


@pytest.mark.parametrize("files", TREES.values(), ids=TREES)
def test_a_tree_that_leads_outside_is_refused_and_never_restored(
    server: Server, home: Path, files: list[list[Any]]
) -> None:
    """It is refused as a snapshot.

    As a blob, which may hold anything, it is not a tree to run in.
    """
    before = surroundings(home)
    manifest = json.dumps({"files": files, "version": 1}, separators=(",", ":")).encode()
    status, fault = server.ask("POST", f"{API}/snapshots", manifest)
    assert (status, fault["code"]) == (400, "invalid_argument")
    pack = b"".join(
        hashlib.sha256(digest).digest() + len(digest).to_bytes(8, "big") + digest
        for digest in (BLOB, manifest)
    )
    kind = {"Content_Type": "application/octet-stream"}
    assert server.ask("POST", f"{API}/blobs", pack, **kind) == (200, {"stored": 2})
    tree = hashlib.sha256(manifest).hexdigest()
    status, answer = server.submit(request(code={"tree": tree}))
    assert status == 201, answer
    ended = wl.get_trial(answer["id"]).wait(timeout=PATIENCE)
    [attempt] = ended.record.attempts
    assert (ended.state, attempt.reason) == ("FAILED", "StartFailed"), ended.record
    assert os.listdir(home / "trials" / str(answer["id"]) / "main-0" / "work") == []
    assert surroundings(home) == before
    assert not list(home.rglob("evil"))


@pytest.mark.thorough
def test_links_in_a_work_directory_are_replaced_and_not_followed(
    home: Path, tmp_path: Path
) -> None:
    """Links that an attempt leaves in its folder must not redirect the code of the next one."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")

    @wl.run(retries=1, cpus=0.1)
    def work(outside: str) -> int:
        import shutil

        attempt = int(os.environ["WINDLASS_ATTEMPT"])
        if attempt == 1:
            here = os.getcwd()
            for name in os.listdir(here):
                path = os.path.join(here, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                os.symlink(outside, path)
            os._exit(3)
        return attempt

    assert work(str(outside)) == 2
    assert os.listdir(outside) == ["precious"]
    assert (outside / "precious").read_text() == "kept"
