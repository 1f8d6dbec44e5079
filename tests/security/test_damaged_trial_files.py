"""Trials that damage their own files still end, and the server keeps serving others."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import PATIENCE
from server_requests import API, Server
from small_projects import import_copy

programs = import_copy(Path(__file__).with_name("damaging_functions.py"))

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


QUICK = ("exit record", "state of odd values", "launch", "pipe as value", "folder as log")


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id=name, marks=[] if name in QUICK else pytest.mark.thorough)
        for name, way in WAYS.items()
    ],
)
def test_a_trial_that_damages_its_own_files_harms_only_itself(home: Path, way: str) -> None:
    trial = programs.vandal.submit(way)
    assert programs.neighbour() == "fine"
    ended = trial.wait(timeout=PATIENCE)
    assert ended.state in ("SUCCEEDED", "FAILED")
    server = Server(home)
    for path in ("", "/logs", "/logs?tail=5", "/logs?search=after", "/events", "/stream"):
        assert server.ask("GET", f"{API}/trials/{trial.id}{path}")[0] == 200, path
    for path in ("/result", "/error"):
        assert server.ask("GET", f"{API}/trials/{trial.id}{path}")[0] in (200, 404), path
    assert programs.neighbour() == "fine"
