"""The server unpickles nothing, although tests plant payloads in all files that it reads."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass
import windlass as wl
from harness import stop_server
from server_requests import API, Server

# Both the C and the Python unpickler raise this audit event before they call anything.
WATCH = """
import sys

told = sys.argv.pop(1)

def watch(event, arguments):
    if event == "pickle.find_class":
        with open(told, "a") as file:
            file.write(f"{arguments!r}\\n")

sys.addaudithook(watch)
"""
SERVE = """
import runpy

sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
MAIN = Path(windlass.__file__).parent / "server" / "__main__.py"


class Bomb:
    """Creates a folder wherever it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = str(mark)

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self._mark,))


class WatchedServer:
    """The server of a home, started with a hook that reports what it unpickles."""

    def __init__(self, home: Path, marker: Path) -> None:
        self._home = home
        self._marker = marker
        self._process: subprocess.Popen[bytes] | None = None
        marker.touch()

    def start(self) -> Server:
        reader, writer = os.pipe()
        command = [sys.executable, "-c", WATCH + SERVE, self._marker, MAIN, self._home, str(writer)]
        self._process = subprocess.Popen(command, pass_fds=[writer], start_new_session=True)
        os.close(writer)
        with open(reader, "rb") as pipe:
            assert pipe.read() == b"ready"
        return Server(self._home)

    def stop(self) -> None:
        stop_server(self._home)
        if self._process is not None:
            self._process.wait()

    @property
    def unpickled(self) -> str:
        return self._marker.read_text()


@pytest.fixture
def watched(fresh_home: Path, tmp_path: Path) -> Iterator[WatchedServer]:
    watched = WatchedServer(fresh_home, tmp_path / "unpickled")
    yield watched
    watched.stop()


def test_the_hook_reports_unpickling(tmp_path: Path) -> None:
    """Otherwise the test below could not fail."""
    marker = tmp_path / "told"
    load = "import pickle, collections\npickle.loads(pickle.dumps(collections.Counter()))\n"
    subprocess.run([sys.executable, "-c", WATCH + load, marker], check=True)
    assert "('collections', 'Counter')" in marker.read_text()


# Files that a trial's process may leave in its own folder, in place of a value or an exception.
LEAVE = """
import json, os, sys
trial = os.environ["WINDLASS_TRIAL_ID"]
folder = os.path.join(os.environ["WINDLASS_HOME"], "trials", trial, "main-0", "1")
bomb = bytes.fromhex(sys.argv[1])
sys.stdout.buffer.write(bomb + b"\\n")
sys.stderr.buffer.write(bomb + b"\\n")
for name in ("result.pkl", "error.pkl"):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(bomb)
for name in ("result.json", "error.json"):
    with open(os.path.join(folder, name), "w") as file:
        text = bomb.decode("latin-1")
        json.dump({"text": text, "type": text, "message": text, "pickled": True}, file)
sys.exit(int(sys.argv[2]))
"""


@pytest.mark.thorough
def test_the_server_unpickles_no_file_of_a_user(
    fresh_home: Path, watched: WatchedServer, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    bomb = pickle.dumps(Bomb(mark))
    digest = hashlib.sha256(bomb).hexdigest()
    server = watched.start()

    def submit(role: dict[str, Any], **more: Any) -> int:
        spec = {"roles": [role], "backoff_limit": 0, **more.pop("spec", {})}
        text = base64.b64encode(bomb).decode()
        request = {
            "key": uuid.uuid4().hex, "experiment": "e", "spec": spec,
            "params": {"bomb": text}, "attachments": {digest: text}, **more,
        }  # fmt: skip
        status, answer = server.submit(request)
        assert status == 201, answer
        return int(answer["id"])

    leave = ["python", "-c", LEAVE, bomb.hex()]
    left = [
        submit({"executable": {"type": "process", "argv": [*leave, code]}}) for code in ("0", "1")
    ]
    # Calls and trees are stored, not run. Only the process that runs a call unpickles it.
    waiting = {"suspend": True, "code": {"tree": digest}, "python": {"lock": digest}}
    call = {"executable": {"type": "function", "payload": digest}}
    kept = submit(call, spec=waiting, provenance={"packages": digest})
    assert [wl.get_trial(trial_id).wait().state for trial_id in left] == ["SUCCEEDED", "FAILED"]
    for _ in range(2):  # and again by a new server that finds all files
        server.ask("POST", f"{API}/snapshots", bomb)
        for trial in (*left, kept):
            read_everything(server, trial)
        for path in ("/trials", "/experiments", "/experiments/e", "/server", f"/blobs/{digest}"):
            assert server.ask("GET", API + path)[0] == 200
        watched.stop()
        server = watched.start()
    assert watched.unpickled == ""
    assert not mark.exists()
    for trial, what in zip(left, ("result", "error"), strict=True):
        assert server.ask("GET", f"{API}/trials/{trial}/{what}") == (200, bomb), "it was there"
    pickle.loads(bomb)
    assert mark.exists(), "it would have been seen"


def read_everything(server: Server, trial: int) -> None:
    """Every read-only operation on a trial in the OpenAPI document."""
    _, document = server.ask("GET", f"{API}/schema/openapi.json")
    paths = [path for path, methods in document["paths"].items() if "get" in methods]
    for path in paths:
        if "{trial_id}" in path and not (path.endswith("/stream") and is_suspended(server, trial)):
            status, _ = server.ask("GET", path.format(trial_id=trial))
            assert status in (200, 404, 409), path
    for query in ("tail=5", "search=mkdir", "stream=stderr"):
        assert server.ask("GET", f"{API}/trials/{trial}/logs?{query}")[0] == 200


def is_suspended(server: Server, trial: int) -> bool:
    """Return whether its stream has no end."""
    return server.ask("GET", f"{API}/trials/{trial}")[1]["state"] == "SUSPENDED"


UNPICKLERS = {"pickle", "_pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib"}


def test_no_windlass_module_in_the_server_can_unpickle() -> None:
    """Checks all modules that a server has loaded, directly or indirectly."""
    program = (
        "import json, sys, windlass.server.startup, windlass.runtimes.local.warm_launchers\n"
        "print(json.dumps([module.__file__ for name, module in sys.modules.items()"
        " if name.partition('.')[0] == 'windlass']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    files = json.loads(done.stdout)
    assert len(files) > 30, files
    for file in files:
        tree = ast.parse(Path(file).read_bytes())
        imported = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names] if isinstance(node, ast.Import)
                else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            )
        }  # fmt: skip
        assert not imported & UNPICKLERS, file
