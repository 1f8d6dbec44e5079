"""Hostile trials harm neither the server nor other trials."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import psutil
import pytest
from chaos_seed import Chaos

import windlass as wl
from harness import PATIENCE, Project, eventually

MEGABYTE = 1 << 20
ROOM = 48 * MEGABYTE  # more than the server needs, less than the trials send

WORST = r"""
import os, resource, signal, sys, time
import windlass as wl

light = wl.run(cpus=0.05)

@light
def neighbour(gate):
    while not os.path.exists(gate):
        time.sleep(0.01)
    print("unharmed")
    return "well"

@light
def flood(megabytes):
    lines = (b"x" * 1023 + b"\n") * 1024
    for _ in range(int(megabytes)):
        write_all(lines)
    return "flooded"

def write_all(data):
    while data:
        data = data[os.write(1, data):]

@light
def endless_line(megabytes):
    for _ in range(int(megabytes)):
        write_all(b"x" * (1 << 20))
    write_all(b"needle\nlast\n")
    return "ended it"

@light
def rubbish(megabytes):
    for _ in range(int(megabytes)):
        write_all(os.urandom(1 << 20))
    write_all(b"\n\xff\xfe\x00\x07\x1b]0;title\x07\x1b[2J\xc3\n\xf0\x9f\x92\nlast\n")
    return "said"

@light
def daemons(count, note):
    for _ in range(int(count)):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                os.environ.clear()
                with open(note, "a") as file:
                    file.write(f"{os.getpid()}\n")
                if os.fork() == 0:
                    os.execve("/bin/sleep", ["sleep", "3600"], {})
                time.sleep(3600)
            os._exit(0)
        os.wait()
    while len(open(note).read().splitlines()) < int(count):
        time.sleep(0.01)
    time.sleep(3600 if note.endswith("stay") else 0)
    return "left them"

@light
def deaf(note):
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    open(note, "w").write(f"{os.getpid()}\n")
    time.sleep(3600)

@light
def mute():
    for stream in (0, 1, 2):
        os.close(stream)
    return "quietly"

@light
def crowd(note, limit, most):
    # The limit does not bind root: another user's processes fill it as well as ours.
    if os.fork() == 0:
        notes = open(note, "a", buffering=1)
        if os.getuid() == 0:
            os.setuid(65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (int(limit), int(limit)))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for _ in range(int(most)):
            try:
                if os.fork() == 0:
                    time.sleep(3600)
            except BlockingIOError:
                notes.write("full\n")
                time.sleep(3600)
        notes.write("no limit\n")
        time.sleep(3600)
    time.sleep(3600)

if __name__ == "__main__":
    name, *args = sys.argv[1:]
    print(getattr(sys.modules["__main__"], name).submit(*args).id)
"""


class World:
    """A server with a normal trial, beside hostile trials."""

    def __init__(self, project: Project, home: Path, folder: Path) -> None:
        project.write("worst.py", WORST)
        self._project = project
        self._home = home
        self._gate = folder / "gate"
        self._neighbour = self.submit("neighbour", str(self._gate))
        eventually(lambda: self._neighbour.refresh().state == "RUNNING", "the neighbour runs")
        self.server = psutil.Process(wl.Client().server_info().pid)
        self._before = self.server.memory_info().rss

    def submit(self, name: str, *args: object) -> wl.Trial[Any]:
        done = self._project.python("worst.py", name, *map(str, args))
        assert done.returncode == 0, done.stderr
        return wl.get_trial(int(done.stdout))

    def directory(self, trial: wl.Trial[Any]) -> Path:
        return Path(trial.refresh().directory) / "main-0" / "1"

    def check_unharmed(self) -> None:
        """Check that the server did not restart or grow, and that the normal trial succeeds."""
        assert wl.Client().server_info().pid == self.server.pid
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.server.pid}/status").read_text())
        if peak is not None:
            print("server:", self._before >> 20, "MB before,", int(peak[1]) >> 10, "MB at most")
            assert int(peak[1]) * 1024 < self._before + ROOM
        self._gate.touch()
        assert self._neighbour.result(timeout=PATIENCE) == "well"
        assert list(self._neighbour.logs()) == ["unharmed"]


@pytest.fixture
def world(project: Project, home: Path, tmp_path: Path) -> World:
    return World(project, home, tmp_path)


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.thorough
def test_floods_of_output_are_stored_whole_without_server_memory(
    world: World, chaos: Chaos
) -> None:
    megabytes = chaos.pick(50, 1000)
    flood = world.submit("flood", megabytes)
    seen = 0
    for line in flood.logs(follow=True):
        assert len(line) == 1023
        seen += 1
    assert seen == megabytes * 1024
    assert flood.result(timeout=PATIENCE) == "flooded"
    assert list(flood.logs(tail=2)) == ["x" * 1023] * 2

    long = chaos.pick(5, 50)
    line_of_all = world.submit("endless_line", long)
    first, last = line_of_all.logs(follow=True)
    assert (len(first), first[-6:], last) == (long * MEGABYTE + 6, "needle", "last")
    assert line_of_all.result(timeout=PATIENCE) == "ended it"
    assert list(line_of_all.logs(tail=1)) == ["last"]
    assert list(line_of_all.logs(search="last")) == ["last"]
    world.check_unharmed()


@pytest.mark.thorough
def test_log_lines_with_invalid_utf_8_are_shown_with_replacement_characters(
    world: World, chaos: Chaos
) -> None:
    rubbish = world.submit("rubbish", chaos.pick(5, 100))
    assert rubbish.result(timeout=PATIENCE) == "said"
    *_, odd, half, last = rubbish.logs()
    assert odd == "\ufffd\ufffd\x00\x07\x1b]0;title\x07\x1b[2J\ufffd"
    assert (half, last) == ("\ufffd", "last")
    assert list(rubbish.logs(search="title")) == [odd]
    world.check_unharmed()


def test_daemons_and_processes_that_ignore_signals_end_with_their_trial(
    world: World, tmp_path: Path, chaos: Chaos
) -> None:
    count = chaos.pick(5, 100)
    left = world.submit("daemons", count, tmp_path / "left")
    stay = world.submit("daemons", count, tmp_path / "stay")
    deaf = world.submit("deaf", tmp_path / "deaf")
    eventually(lambda: len(pids(tmp_path / "stay")) == count, "the daemons are there")
    eventually(lambda: len(pids(tmp_path / "deaf")) == 1, "the deaf one is there")
    family = family_of(world, stay)
    for trial in (stay, deaf):
        trial.stop(grace=0.2)
        assert trial.wait(timeout=PATIENCE).state == "STOPPED"
    assert deaf.exit_code == 137
    assert left.result(timeout=PATIENCE) == "left them"
    for pid in (*pids(tmp_path / "left"), *pids(tmp_path / "stay"), *pids(tmp_path / "deaf")):
        assert not is_running(pid)
    assert not [process for process in family if is_running(process.pid)]
    world.check_unharmed()


def test_a_function_without_output_streams_returns_its_value(world: World) -> None:
    mute = world.submit("mute")
    assert mute.result(timeout=PATIENCE) == "quietly"
    assert list(mute.logs()) == []
    world.check_unharmed()


@pytest.mark.thorough
def test_a_fork_bomb_can_be_stopped(world: World, tmp_path: Path, chaos: Chaos) -> None:
    note = tmp_path / "note"
    mine = tasks_of(os.getuid() or 65534)  # each counts, and there may be more by then
    more = chaos.pick(40, 400)
    crowd = world.submit("crowd", note, mine + more, more + 100)
    eventually(lambda: note.exists() and note.read_text() != "", "it has forked all it may")
    family = family_of(world, crowd)
    if note.read_text() == "no limit\n":  # as for root under another name
        print("this system does not hold the limit: a crowd, but no fork failed")
        assert len(family) > more
    assert len(family) > 2, "it forked"
    beside = world.submit("mute")
    assert beside.result(timeout=PATIENCE) == "quietly"
    crowd.stop(grace=0.2)
    assert crowd.wait(timeout=PATIENCE).state == "STOPPED"
    assert not [process for process in family if is_running(process.pid)]
    world.check_unharmed()


def tasks_of(uid: int) -> int:
    """Count the threads of all processes of a user, which is the number that the process limit
    counts.
    """
    count = 0
    for process in psutil.process_iter():
        try:
            if process.uids().real == uid:
                count += process.num_threads()
        except psutil.NoSuchProcess:
            pass
    return count


def pids(note: Path) -> list[int]:
    return [int(word) for word in note.read_text().split()] if note.exists() else []


def family_of(world: World, trial: wl.Trial[Any]) -> list[psutil.Process]:
    """Return all processes of a trial, including orphans."""
    state = json.loads((world.directory(trial) / "state.json").read_text())
    return list(psutil.Process(state["supervisor"]["pid"]).children(recursive=True))
