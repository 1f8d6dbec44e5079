"""Trials that spoil their own files: each still ends, and the server serves everyone else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import windlass as wl
from asking import API, Server
from harness import PATIENCE

WAYS = {
    "exit record": "write('exit.json', b'{')",
    "exit record of odd values": """write('exit.json', b'{"exit_code": "0", "ended": 1e999}')""",
    "deep exit record": "write('exit.json', b'[' * 100_000)",
    "state": "write('state.json', b'[]')",
    "state of odd values": """write('state.json', b'{"stage": 5, "supervisor": {"pid": "1"}}')""",
    "launch": "write('launch.json', b'null')",
    "launch without a key": "write('launch.json', b'{}')",
    "stop": """write('stop.json', b'{"grace": "soon"}')""",
    "holes in the log": "write('log', bytes(3 << 20))",
    "no log": "os.unlink('log')",
    "folder as log": "os.unlink('log'); os.mkdir('log')",
    "pipe as value": "os.mkfifo('result.pkl'); os.mkfifo('result.json')",
    "folder as value": "os.mkdir('result.pkl'); os.mkdir('result.json')",
    "device as value": "for n in ('pkl', 'json'): os.symlink('/dev/zero', 'result.' + n)",
    "pipe as error": "os.mkfifo('error.json'); os.mkfifo('error.pkl'); os._exit(1)",
    "odd error": r"""write('error.json', b'{"message": "\ud800", "pickled": 1}'); os._exit(1)""",
    "file as attempt": "write('../2', b''); write('../../main-7', b'')",
    "attempts out of nowhere": "os.makedirs('../../main-7/99999999999999999999'); os.mkdir('../0')",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_trial_that_spoils_its_own_files_harms_only_itself(home: Path, way: str) -> None:
    @wl.run(cpus=0.1)
    def vandal(way: str) -> None:
        trial = os.environ["WINDLASS_TRIAL_ID"]
        os.chdir(os.path.join(os.environ["WINDLASS_HOME"], "trials", trial, "main-0", "1"))

        def write(name: str, content: bytes) -> None:
            with open(name, "wb") as file:
                file.write(content)

        print("before")
        exec(way, {"os": os, "write": write})
        print("after")
        os._exit(0)  # without a value of our own in the way of what was left

    @wl.run(cpus=0.1)
    def neighbour() -> str:
        return "fine"

    trial = vandal.submit(way)
    assert neighbour() == "fine"
    ended = trial.wait(timeout=PATIENCE)
    assert ended.state in ("SUCCEEDED", "FAILED")
    server = Server(home)
    for path in ("", "/logs", "/logs?tail=5", "/logs?search=after", "/events", "/stream"):
        assert server.ask("GET", f"{API}/trials/{trial.id}{path}")[0] == 200, path
    for path in ("/result", "/error"):
        assert server.ask("GET", f"{API}/trials/{trial.id}{path}")[0] in (200, 404), path
    assert neighbour() == "fine"
