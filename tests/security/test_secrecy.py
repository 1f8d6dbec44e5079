"""The token of the server and the secrets of trials appear only where they are needed."""

from __future__ import annotations

import ast
import inspect
import json
import os
import secrets
import time
from pathlib import Path

import psutil

import windlass as wl
from harness import eventually
from server_requests import API, Server
from windlass.server.web import auth
from windlass.worker.common.atomic_files import is_locked


def test_the_token_appears_only_in_its_file(home: Path) -> None:
    """Not in logs, records, command lines or environments, also not those of clients."""

    @wl.run(cpus=0.1)
    def look() -> list[str]:
        import psutil

        return [
            *os.environ.values(),
            *psutil.Process().cmdline(),
            *psutil.Process(os.getppid()).cmdline(),
        ]

    seen = look()
    server = Server(home)
    server.ask("GET", f"{API}/trials", token="wrong-" + server.token)
    server.ask("GET", f"{API}/trials?name={server.token[:5]}", Authorization=server.token)
    assert not [text for text in seen if server.token in text]
    process = psutil.Process(json.loads((home / "server.json").read_text())["pid"])
    family = [process, *process.children(recursive=True)]
    assert len(family) > 1, "there is a launcher"
    for member in family:
        try:
            words = [*member.cmdline(), *member.environ().values()]
        except psutil.NoSuchProcess:
            continue  # the trial's own supervisor, which is about to exit
        assert not [text for text in words if server.token in text]
    # The supervisor deletes the code after the end, so files may disappear while they are read.
    attempt = home / "trials" / "1" / "main-0" / "1"
    eventually(lambda: not is_locked(str(attempt / "lock")), "the supervisor has gone")
    holders = [
        path.relative_to(home)
        for path in home.rglob("*")
        if path.is_file() and server.token.encode() in path.read_bytes()
    ]
    assert holders == [Path("token")]


def test_secrets_appear_only_in_the_environment_of_their_trial(home: Path) -> None:
    value = "s3cret-" + secrets.token_hex(8)

    @wl.run(secrets={"KEY": value}, cpus=0.1)
    def work() -> None:
        time.sleep(10**6)

    trial = work.submit()
    try:
        eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
        state = home / "trials" / str(trial.id) / "main-0" / "1" / "state.json"
        own = json.loads(state.read_text())["process"]["pid"]
        server = psutil.Process(json.loads((home / "server.json").read_text())["pid"])
        others = [server, *server.children(recursive=True)]
        others += [psutil.Process(json.loads(state.read_text())["supervisor"]["pid"])]
        for process in others:
            if process.pid != own:
                readable = known_to(process.pid)
                assert value not in readable["cmdline"] and value not in readable["environ"], (
                    process
                )
        assert value not in known_to(own)["cmdline"]
    finally:
        trial.stop(grace=0).wait()


def known_to(pid: int) -> dict[str, str]:
    """The information about a process that its owner can read."""
    process = psutil.Process(pid)
    return {
        "cmdline": "\0".join(process.cmdline()),
        "environ": "\0".join(process.environ().values()),
    }


def test_tokens_are_compared_in_constant_time() -> None:
    """Timing is unreliable on a busy machine.

    The test checks that one constant-time comparison runs.
    """
    tree = ast.parse(inspect.getsource(auth))
    calls = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hmac.compare_digest"
    ]  # fmt: skip
    [call] = calls
    # The expected token is read once, only for that comparison.
    [assignment] = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "self._expected_for(" in ast.unparse(node.value)
    ]  # fmt: skip
    [name] = [ast.unparse(target) for target in assignment.targets]
    uses = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]  # fmt: skip
    assert len(uses) == 1 and any(argument is uses[0] for argument in call.args)
    [kept] = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "_expected"
        and isinstance(node.ctx, ast.Load)
    ]  # fmt: skip
    [answer] = [
        node for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is kept
    ]
    assert answer
