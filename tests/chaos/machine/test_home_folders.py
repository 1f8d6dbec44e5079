"""Home folders: many clients at the first start, and read-only disks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import psutil
import pytest
from chaos_seed import Chaos

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually, stop_server
from mounts import in_own_mounts, read_only

SQUARE = """
import sys, windlass as wl

@wl.run(cpus=0.1)
def square(x):
    return x * x

print(square(int(sys.argv[1])), wl.Client().server_info().pid)
"""

WORK = """
import os, sys, time, windlass as wl

@wl.run(cpus=0.1)
def work(gate):
    while not os.path.exists(gate):
        time.sleep(0.01)
    return "done"

print(work.submit(sys.argv[1]).id)
"""


@pytest.mark.thorough
def test_many_clients_starting_at_once_share_one_server_and_all_get_values(
    project: Project, fresh_home: Path, chaos: Chaos
) -> None:
    project.write("square.py", SQUARE)
    for _ in range(chaos.pick(1, 10)):
        clients = [project.start("square.py", str(number)) for number in range(10)]
        output = [client.communicate(timeout=PATIENCE) for client in clients]
        pid = json.loads((fresh_home / "server.json").read_text())["pid"]
        assert output == [(f"{number * number} {pid}\n", "") for number in range(10)]
        assert servers_of(fresh_home) == [pid]
        stop_server(fresh_home)
        assert servers_of(fresh_home) == []


def servers_of(home: Path) -> list[int]:
    """The server processes of a home."""
    serving = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        is_server = any(word.endswith("windlass/server/__main__.py") for word in words)
        if is_server and str(home) in words:
            serving.append(process.pid)
    return serving


@in_own_mounts
@pytest.mark.thorough
def test_a_read_only_home_refuses_new_trials_and_recovers_later(
    project: Project, fresh_home: Path, tmp_path: Path
) -> None:
    """Unlike file permissions, a read-only mount also applies to root."""
    project.write("work.py", WORK)
    gate = tmp_path / "gate"
    fresh_home.mkdir()
    with read_only(fresh_home):
        done = project.python("work.py", gate)
        check_refusal(done.stderr, fresh_home, "Set WINDLASS_HOME")
        assert os.listdir(fresh_home) == []
    trial = wl.get_trial(int(project.python("work.py", gate).stdout))
    eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
    with read_only(fresh_home):
        check_refusal(project.python("work.py", gate).stderr, fresh_home, "Make it writable")
        listed = project.run(BIN / "windlass", "ls")
        assert listed.stdout.count("RUNNING") == 1
    gate.touch()
    assert trial.result(timeout=PATIENCE) == "done"
    assert wl.get_trial(int(project.python("work.py", gate).stdout)).result(timeout=PATIENCE)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process can be set on Linux")
def test_a_server_without_free_file_descriptors_recovers(
    project: Project, fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the home is writable again, the server records missed ends and starts queued trials."""
    monkeypatch.setenv("WINDLASS_CPUS", "0.1")  # one at a time
    project.write("work.py", WORK)
    gate = tmp_path / "gate"
    first, second = (wl.get_trial(int(project.python("work.py", gate).stdout)) for _ in "ab")
    eventually(lambda: first.refresh().state == "RUNNING", "the first runs")
    server = psutil.Process(wl.Client().server_info().pid)
    _, most = server.rlimit(psutil.RLIMIT_NOFILE)
    server.rlimit(psutil.RLIMIT_NOFILE, (3, most))
    gate.touch()
    log = fresh_home / "server.log"
    eventually(lambda: "Too many open files" in log.read_text(), "the server has tried")
    server.rlimit(psutil.RLIMIT_NOFILE, (most, most))
    for trial in (first, second):
        assert trial.result(timeout=PATIENCE) == "done"
        assert len(trial.refresh().attempts) == 1
    assert wl.Client().server_info().pid == server.pid


def check_refusal(message: str, home: Path, remedy: str) -> None:
    last = message[message.rindex("windlass.") :]
    assert "ead-only" in last
    assert str(home) in last
    assert remedy in last
