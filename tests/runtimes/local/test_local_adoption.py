"""A new runtime adopts the processes of an earlier one, and no other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_runtime import FIRST, World, is_running

from windlass.model.job import Assignment
from windlass.model.status import Phase
from windlass.runtimes.launch_file import build_launch
from windlass.runtimes.local import stray_processes
from windlass.worker.common.atomic_files import is_locked, write_json
from windlass.worker.common.process_identity import process_identity

UNTIL_TOLD = """
    import os, time
    print("ready")
    while not os.path.exists("go"):
        time.sleep(0.01)
    raise SystemExit(5)
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    yield world
    world.close()


def test_running_attempts_are_adopted_and_end_normally(world: World) -> None:
    job = world.start(world.script(UNTIL_TOLD))
    world.wait_for_text(job, "ready")
    world.runtime.close()
    world.restart().adopt([job])
    [seen] = world.runtime.list(job)
    assert seen.phase is Phase.RUNNING
    world.changes.clear()
    (world.path(job).parent / "work" / "go").touch()
    world.eventually(lambda: job.uid in world.changes, "the new runtime hears of the end")
    assert world.end_of(job).exit_code == 5


def test_an_attempt_with_a_recorded_stop_but_no_signal_is_stopped(world: World) -> None:
    """A server that is killed between the two leaves an attempt that seems to be stopping."""
    job = world.start(world.script(UNTIL_TOLD))
    world.wait_for_text(job, "ready")
    world.runtime.close()
    write_json(str(world.path(job, "stop.json")), {"grace": 5.0, "reason": ""})
    world.restart().adopt([job])
    assert world.end_of(job).reason == "Stopped"


def test_ends_from_the_meantime_are_detected(world: World) -> None:
    job = world.start(world.script(UNTIL_TOLD))
    world.wait_for_text(job, "ready")
    world.runtime.close()
    (world.path(job).parent / "work" / "go").touch()
    world.eventually(lambda: world.path(job, "exit.json").exists(), "it ended")
    world.restart().adopt([job])
    assert world.end_of(job).exit_code == 5


def test_an_interrupted_creation_of_an_attempt_is_completed(world: World) -> None:
    """The server was killed, or the disk was full, between the folder and the launch file."""
    job = world.script("raise SystemExit(7)")
    world.path(job).mkdir(parents=True)
    world.restart().adopt([job])
    assert world.runtime.list(job) == []
    assert world.run(job).exit_code == 7


def test_a_supervisor_killed_after_adoption_is_noticed(world: World) -> None:
    job = world.start(world.script(UNTIL_TOLD))
    world.wait_for_text(job, "ready")
    world.runtime.close()
    world.restart().adopt([job])
    world.changes.clear()
    os.kill(world.json(job, "state.json")["supervisor"]["pid"], signal.SIGKILL)
    world.eventually(lambda: job.uid in world.changes, "its end is reported")
    assert world.end_of(job).reason == "Lost"


def test_an_end_is_detected_without_process_descriptors(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    job = world.start(world.script(UNTIL_TOLD))
    world.wait_for_text(job, "ready")
    world.changes.clear()
    os.kill(world.json(job, "state.json")["supervisor"]["pid"], signal.SIGKILL)
    world.eventually(lambda: job.uid in world.changes, "its end is reported")
    assert world.end_of(job).reason == "Lost"
    job = world.start(world.script(UNTIL_TOLD))
    world.wait_for_text(job, "ready")
    world.runtime.delete(job, FIRST, 0)
    assert world.end_of(job).reason == "Stopped"


def test_a_requested_attempt_that_never_started_is_started_by_the_next_runtime(
    world: World,
) -> None:
    job = world.script("print('ran')")
    path = world.path(job)
    path.mkdir(parents=True)
    launch = build_launch(world.home, job, FIRST, Assignment(), has_devices=False)
    write_json(str(path / "launch.json"), launch)
    [seen] = world.runtime.list(job)
    assert seen.phase is Phase.PENDING
    world.runtime.close()
    world.restart().adopt([job])
    assert world.end_of(job).exit_code == 0


def test_an_attempt_that_never_started_is_lost_after_a_while(world: World) -> None:
    job = world.script("print('ran')")
    path = world.path(job)
    path.mkdir(parents=True)
    launch = build_launch(world.home, job, FIRST, Assignment(), has_devices=False)
    write_json(str(path / "launch.json"), launch)
    os.utime(path / "launch.json", (1e9, 1e9))
    [seen] = world.runtime.list(job)
    assert (seen.phase, seen.reason) == (Phase.FAILED, "Lost")


def test_an_attempt_stopped_before_its_start_never_starts(world: World) -> None:
    job = world.script("open('ran', 'w')")
    path = world.path(job)
    path.mkdir(parents=True)
    launch = build_launch(world.home, job, FIRST, Assignment(), has_devices=False)
    write_json(str(path / "launch.json"), launch)
    world.runtime.delete(job, FIRST, 10)
    ended = world.end_of(job)
    assert (ended.reason, ended.exit_code) == ("Stopped", None)
    world.start(job)
    assert world.end_of(job) == ended
    assert not (path.parent / "work").exists()


def test_deleting_an_unknown_attempt_does_nothing(world: World) -> None:
    job = world.script("print('ran')")
    world.runtime.delete(job, FIRST, 1)
    assert world.run(job).exit_code == 0


def test_a_reused_pid_is_never_adopted(world: World) -> None:
    job = world.start(world.script(UNTIL_TOLD))
    world.wait_for_text(job, "ready")
    state = world.json(job, "state.json")
    os.kill(state["supervisor"]["pid"], signal.SIGKILL)
    world.eventually(lambda: not is_running(state["process"]["pid"]), "all are dead")
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        # As after a reboot: other processes have the same pids.
        for which in ("supervisor", "process"):
            state[which]["pid"] = stranger.pid
        write_json(str(world.path(job, "state.json")), state)
        world.runtime.close()
        world.restart().adopt([job])
        world.runtime.delete(job, FIRST, 0)
        assert world.end_of(job).phase is Phase.FAILED
        identity = state["process"]["identity"]
        assert not stray_processes.send_signal(stranger.pid, identity, signal.SIGKILL)
        assert stranger.poll() is None
        own = process_identity(stranger.pid)
        assert stray_processes.send_signal(stranger.pid, own, signal.SIGKILL)
        assert stranger.wait() == -signal.SIGKILL
    finally:
        stranger.kill()
        stranger.communicate()


def test_files_of_a_lost_database_are_moved_away(world: World) -> None:
    old = world.script("print('old')")
    world.run(old)
    world._next_trial = old.trial_id
    new = world.script("print('new')")
    new = type(new)(uid="another", trial_id=new.trial_id, spec=new.spec)
    assert world.runtime.list(new) == []
    assert world.run(new).exit_code == 0
    assert world.lines(new) == [("stdout", "new")]
    assert (world.home / "trials" / f"{old.trial_id}.old-1").is_dir()


def test_the_lock_shows_whether_the_supervisor_lives(world: World) -> None:
    job = world.start(world.script(UNTIL_TOLD))
    world.wait_for_text(job, "ready")
    assert is_locked(str(world.path(job, "lock")))
    (world.path(job).parent / "work" / "go").touch()
    world.end_of(job)
    world.eventually(lambda: not is_locked(str(world.path(job, "lock"))), "it is let go")
