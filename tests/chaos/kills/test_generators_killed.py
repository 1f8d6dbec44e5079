"""Servers and authors are killed while generators add trials. Each trial stays as generated."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from chaos_seed import Chaos
from home_processes import HomeWorld
from kill_sweep import Killer

import windlass as wl
from harness import PATIENCE, eventually

pytestmark = pytest.mark.thorough

BUILD = """
import sys
import windlass as wl

def build(trial, number, size):
    for place in range(size):
        script = f'echo $$ >> "{sys.argv[1]}/{number}.{place}"'
        job = wl.Job(wl.Command(["sh", "-c", script]), executor=wl.Local(cpus=0.1), name="mark")
        child = trial.add(job, args={"place": place})
        if place % 2:
            child.wait()

with wl.create_experiment("chaos") as exp:
    for number in range(int(sys.argv[2])):
        exp.add(build, args={"number": number, "size": 6}, name=f"built-{number}")
"""


def author(folder: Path, generators: int) -> subprocess.Popen[bytes]:
    script = folder.parent / "author.py"
    script.write_text(BUILD)
    return subprocess.Popen([sys.executable, str(script), str(folder), str(generators)])


def parents() -> list[wl.Trial[Any]]:
    return [trial for trial in wl.list_trials(where="experiment = 'chaos'") if trial.name != "mark"]


def marks(folder: Path, number: int) -> list[int]:
    """Count the runs of each trial of a generator."""
    return [len(path.read_text().split()) for path in sorted(folder.glob(f"{number}.*"))]


def test_a_killed_server_makes_generators_neither_lose_nor_repeat_trials(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    generators, kills = chaos.pick(3, 10), chaos.pick(3, 20)
    moments = iter([chaos.random.uniform(0, 1.5) for _ in range(kills)])

    def strike() -> int:
        eventually(lambda: world.server() is not None, "somebody started a server")
        time.sleep(next(moments))  # at a random moment
        return world.kill_server()

    building = author(folder, generators)
    eventually(lambda: len(parents()) == generators, "all are being built")
    killer = Killer(strike, chaos.random, longest=0, most=kills)
    killer.start()
    while killer.is_alive():  # a request starts the server for the next kill
        with contextlib.suppress(wl.ServerUnreachable):
            wl.Client().server_info()
        killer.join(0.05)
    assert building.wait(PATIENCE) == 0
    assert len(parents()) == generators
    for number, trial in enumerate(parents()):
        assert trial.wait(PATIENCE).state == "SUCCEEDED", trial.message
        assert [child.params["place"] for child in trial.children] == list(range(6))
        assert marks(folder, number) == [1] * 6


def test_the_trials_of_a_killed_author_end_and_record_the_kill(
    world: HomeWorld, folder: Path, chaos: Chaos
) -> None:
    wl.Client().server_info()  # the start of the server is not part of the kill
    building = author(folder, 3)
    eventually(lambda: bool(parents()) or building.poll() is not None, "one is being built")
    time.sleep(chaos.random.uniform(0, 0.5))
    if chaos.random.random() < 0.5:
        world.kill_server()
    with contextlib.suppress(ProcessLookupError):
        os.kill(building.pid, signal.SIGKILL)
    building.wait()
    for trial in parents():
        trial.wait(PATIENCE)
        children = [child.wait(PATIENCE) for child in trial.children]
        assert {child.state for child in children} <= {"SUCCEEDED"}
        if trial.state == "SUCCEEDED":  # the trial ended before
            assert len(children) == 6
        else:
            assert (trial.state, trial.record.reason) == ("FAILED", "GeneratorLost")
    assert wl.get_experiment("chaos").state in ("SUCCEEDED", "FAILED")
    assert all(count == 1 for number in range(3) for count in marks(folder, number))
