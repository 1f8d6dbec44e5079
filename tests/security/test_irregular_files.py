"""Pipes, links to devices and huge files in a home neither block Windlass nor stop a server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import BIN, PATIENCE, Project

pytestmark = pytest.mark.finding("A10")

PROGRAM = """
import windlass as wl

@wl.run(cpus=0.05)
def work(n):
    wl.report(0, loss=n)
    print("line", n)
    open("weights", "w").write("weights")
    wl.save_checkpoint("weights", step=0)
    return n

if __name__ == "__main__":
    import sys
    print(work(int(sys.argv[1])))
"""
OF_THE_HOME = ("server.lock", "start.lock", "server.log", "server.json", "token", "kubernetes.json")
OF_A_TRIAL = (
    "main-0/1/state.json", "main-0/1/exit.json", "main-0/1/launch.json", "main-0/1/log",
    "main-0/1/metrics", "main-0/1/metrics.names", "main-0/1/result.json", "main-0/1/stop.json",
    "main-0/1/lock", "checkpoints/1.json", "should_stop",
)  # fmt: skip


def make_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 << 30)


KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "huge": make_huge,
}

SOME = [pytest.param(kind, marks=[] if kind == "pipe" else pytest.mark.thorough) for kind in KINDS]


def replace(path: Path, make: Callable[[Path], None]) -> None:
    path.unlink(missing_ok=True)
    make(path)


def value(author: Project, number: int) -> str:
    done = author.python("work.py", str(number))
    return done.stdout.splitlines()[-1] if done.stdout else done.stderr


@pytest.fixture
def author(project: Project) -> Project:
    project.write("work.py", PROGRAM)
    return project


@pytest.mark.parametrize("kind", SOME)
def test_irregular_files_stop_neither_server_nor_commands(
    fresh_home: Path, author: Project, kind: str
) -> None:
    assert value(author, 1) == "1"
    assert author.run(BIN / "windlass", "server", "stop").returncode == 0
    launch = json.loads((fresh_home / "trials/1/main-0/1/launch.json").read_text())
    blobs = [Path(launch["tree"]), Path(launch["executable"]["payload"])]
    for path in (
        *(fresh_home / name for name in OF_THE_HOME),
        *(fresh_home / "trials/1" / name for name in OF_A_TRIAL),
        *(blobs if kind != "huge" else ()),  # a damaged blob fails one trial
    ):
        replace(path, KINDS[kind])
    commands = ["ls", "logs 1", "metrics 1", "show 1", "doctor", "server logs", "gc", "rm 1 --yes"]
    for name in commands:
        done = author.run(BIN / "windlass", *name.split())
        assert "Traceback" not in done.stderr, (name, done.stderr)
    assert value(author, 2) == "2"
    assert author.run(BIN / "windlass", "ls").returncode == 0
    assert author.run(BIN / "windlass", "server", "stop").returncode == 0


@pytest.mark.parametrize("kind", SOME)
def test_a_running_trial_with_irregular_files_ends(
    fresh_home: Path, author: Project, kind: str
) -> None:
    """The server reads the files of unfinished trials at its start."""
    gate = author.path / "gate"
    waiting = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    author.write("wait.py", waiting)
    done = author.run(BIN / "windlass", "run", "--detach", "wait.py")
    assert done.returncode == 0, done.stderr
    attempt = fresh_home / "trials/1/main-0/1"
    assert author.run(BIN / "windlass", "server", "stop").returncode == 0
    for name in ("state.json", "stop.json", "result.json", "error.json"):
        replace(attempt / name, KINDS[kind])
    if kind != "huge":  # all of a large metrics file is read
        replace(attempt / "metrics", KINDS[kind])
    listed = author.run(BIN / "windlass", "ls")
    assert listed.returncode == 0, listed.stderr
    gate.touch()
    ended = subprocess.run(
        [BIN / "windlass", "logs", "-f", "1"], capture_output=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode in (0, 1), ended.stderr
    assert "RUNNING" not in author.run(BIN / "windlass", "ls").stdout


@pytest.mark.finding("A15")
@pytest.mark.parametrize("content", [b"\xff\xfe\0", b"two words\n"])
def test_a_damaged_token_is_reported_and_replaced_by_the_next_server(
    fresh_home: Path, author: Project, content: bytes
) -> None:
    assert value(author, 1) == "1"
    token = (fresh_home / "token").read_text()
    (fresh_home / "token").write_bytes(content)
    refused = author.run(BIN / "windlass", "ls")
    assert refused.returncode == 1
    assert "The server's token cannot be used" in refused.stderr
    assert "windlass server stop" in refused.stderr and "Traceback" not in refused.stderr
    assert author.run(BIN / "windlass", "server", "stop").returncode == 0
    assert value(author, 2) == "2"
    assert (fresh_home / "token").read_text() not in ("", token)
