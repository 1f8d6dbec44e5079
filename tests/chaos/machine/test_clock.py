"""Setting the clock while trials run makes nothing late, early, or out of order."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from chaos_seed import Chaos
from clocks import SettableClock

import windlass as wl
from harness import PATIENCE, Project, eventually
from windlass.worker.common.nudge import STATE, Nudger

pytestmark = pytest.mark.thorough

HOUR = 3600

WORK = """
import os, sys, time
import windlass as wl

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)

@wl.run(cpus=0.1, timeout="20m")
def patient(folder):
    for number in range(10**9):
        print(number, flush=True)
        if os.path.exists(f"{folder}/end"):
            return number
        time.sleep(0.02)

@wl.run(cpus=0.1, retries=1)
def flaky(folder):
    wait_for(f"{folder}/fail")
    if os.environ["WINDLASS_ATTEMPT"] == "1":
        raise OSError("the first time")

@wl.run(cpus=0.1, timeout="5s")
def late(folder):
    wait_for(f"{folder}/never")

@wl.run(cpus=0.8)
def turn(folder, number):
    wait_for(f"{folder}/turns")
    with open(f"{folder}/order", "a") as file:
        file.write(f"{number} ")

@wl.run(cpus=0.1)
def quick():
    print(time.time())
    return time.time()

if __name__ == "__main__":
    name, *args = sys.argv[1:]
    print(getattr(sys.modules["__main__"], name).submit(*args).id)
"""


class World:
    """A server and trials with a settable clock."""

    def __init__(self, project: Project, clock: SettableClock, folder: Path) -> None:
        project.write("work.py", WORK)
        self._project = project
        self.clock = clock
        self.folder = folder
        folder.mkdir()

    def submit(self, name: str, *args: str) -> wl.Trial[object]:
        env = {**self.clock.environ, "WINDLASS_CPUS": "1.2"}
        done = self._project.python("work.py", name, *args, env=env)
        assert done.returncode == 0, done.stderr
        return wl.get_trial(int(done.stdout))

    def runs(self, name: str) -> wl.Trial[object]:
        trial = self.submit(name, str(self.folder))
        eventually(lambda: trial.refresh().state == "RUNNING", f"{name} runs")
        return trial


@pytest.fixture
def world(project: Project, fresh_home: Path, tmp_path: Path) -> World:
    return World(project, SettableClock(tmp_path / "clock"), tmp_path / "files")


def look_again(home: Path, trial: wl.Trial[object]) -> None:
    """Make the server reconcile a trial, and other trials after it."""
    key = {"trial_id": trial.id, "uid": trial.record.uid, "role": "main", "index": 0, "attempt": 1}
    Nudger(str(home / "server.json"), key).nudge(STATE)


def check_times(trial: wl.Trial[object], began: float) -> None:
    """Check that recorded durations are correct, independent of the clock."""
    passed = time.monotonic() - began
    record = trial.record
    [attempt] = record.attempts
    assert record.started is not None
    assert record.ended is not None
    assert attempt.started is not None
    assert attempt.ended is not None
    assert 0 <= record.ended - record.started <= passed + 1
    assert 0 <= attempt.ended - attempt.started <= passed + 1


def test_setting_the_clock_stops_no_trial_and_keeps_the_order_of_events(
    world: World, fresh_home: Path, chaos: Chaos
) -> None:
    began = time.monotonic()
    late = world.submit("late", str(world.folder))
    patient, flaky = (world.runs(name) for name in ("patient", "flaky"))
    world.submit("turn", str(world.folder), "1")
    ahead = 0
    for number in range(2, chaos.pick(4, 12)):
        # Forward, back, and forward again: with a wrong clock, a deadline of 20 minutes would pass
        # at once or never.
        ahead = HOUR if ahead <= 0 else -HOUR
        ahead += chaos.random.randrange(-600, 600)
        world.clock.set_ahead(ahead)
        look_again(fresh_home, patient)
        world.submit("turn", str(world.folder), str(number))
        now = time.time() + ahead
        quick = world.submit("quick")
        assert abs(float(str(quick.result(timeout=PATIENCE))) - now) < PATIENCE
        check_times(quick, began)
        assert abs(quick.record.created - now) < PATIENCE
        assert patient.refresh().state == "RUNNING"

    # Deadlines and delays have their full length.
    late.wait(timeout=PATIENCE)
    assert (late.state, late.record.reason) == ("FAILED", "DeadlineExceeded")
    (world.folder / "fail").touch()
    eventually(lambda: flaky.refresh().record.restarts == 1, "it is to be restarted")
    world.clock.set_ahead(ahead - HOUR)
    assert flaky.wait(timeout=PATIENCE).state == "SUCCEEDED"

    (world.folder / "turns").touch()
    turns = list(wl.list_trials(name="turn"))
    for trial in turns:
        assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED"
    order = (world.folder / "order").read_text().split()
    assert order == [str(trial.params["number"]) for trial in turns]

    (world.folder / "end").touch()
    count = patient.result(timeout=PATIENCE)
    check_times(patient.refresh(), began)
    assert [int(line) for line in patient.logs()] == list(range(int(str(count)) + 1))
    assert [int(json.loads(line)) for line in patient.logs(tail=3)] == [
        int(str(count)) - 2, int(str(count)) - 1, int(str(count)),
    ]  # fmt: skip
