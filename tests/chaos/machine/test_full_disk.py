"""A full disk under the home: new trials are refused, and running trials are not lost."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from chaos_seed import Chaos

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually, stop_server
from job_requests import role
from job_requests import submit as submit_roles
from mounts import give_back, in_own_mounts, small_disk, take_inodes, take_space
from windlass.worker.common.process_identity import is_alive

WORK = """
import os, time
import windlass as wl

@wl.run(cpus=0.05)
def work(name, gate=""):
    print(name, "begins", flush=True)
    while gate and not os.path.exists(gate):
        print(name, "goes on with a line that takes some room", flush=True)
        time.sleep(0.01)
    print(name, "ends")
    return name * 1000
"""

SUBMIT = """
import json, sys
import windlass as wl
from work import work

gate, *names = sys.argv[1:]
for name in names:
    try:
        told = {"id": work.submit(name, gate).id}
    except wl.WindlassError as error:
        told = {"refused": str(error), "type": type(error).__name__}
    print(json.dumps({"name": name, **told}), flush=True)
"""


@pytest.fixture
def author(project: Project) -> Project:
    """A project that submits trials by name."""
    project.write("work.py", WORK)
    project.write("submit.py", SUBMIT)
    return project


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path at which a small disk with the home is mounted."""
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "disk" / "home"))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    return tmp_path / "disk"


@contextmanager
def home_on(disk: Path, **limits: str) -> Iterator[Path]:
    """A home on a small disk. At the end it is consistent, and nothing runs in it."""
    home = disk / "home"
    with small_disk(disk, **limits):
        try:
            yield home
        finally:
            give_back(disk)
            stop_server(home)
        with closing(sqlite3.connect(home / "windlass.db")) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert database.execute("PRAGMA foreign_key_check").fetchall() == []


def submit(author: Project, gate: Path | str, *names: str) -> tuple[dict[str, int], list[str]]:
    """Return the accepted trials by name, and the errors of the refused trials."""
    done = author.python("submit.py", str(gate), *names)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["name"] for record in records] == list(names)
    refused = [record["refused"] for record in records if "refused" in record]
    return {record["name"]: record["id"] for record in records if "id" in record}, refused


def check_is_clear(message: str, home: Path) -> None:
    """Check that the error names the problem, the path, and the remedy."""
    assert "disk is full" in message
    assert str(home) in message
    assert "Free some space" in message


@in_own_mounts
@pytest.mark.thorough
@pytest.mark.parametrize("lacks", ["space", "inodes"])
def test_a_full_disk_refuses_new_trials_and_running_trials_finish(
    author: Project, disk: Path, tmp_path: Path, lacks: str
) -> None:
    gate = tmp_path / "gate"
    with home_on(disk, size="16m", nr_inodes="400") as home:
        taken, _ = submit(author, gate, "a")
        trial = wl.get_trial(taken["a"])
        eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
        take = take_space if lacks == "space" else take_inodes
        take(disk)

        taken, [refused] = submit(author, gate, "b")
        assert not taken
        check_is_clear(refused, home)
        assert author.run(BIN / "windlass", "ls").stdout.count("RUNNING") == 1
        assert "Free some space" in author.run(BIN / "windlass", "doctor").stdout

        # A server that is replaced meanwhile cannot start. The trial is not affected.
        assert author.run(BIN / "windlass", "server", "stop").returncode == 0
        take(disk)  # the reserve of the server
        check_is_clear(author.run(BIN / "windlass", "ls").stderr, home)
        gate.touch()

        give_back(disk)
        assert wl.get_trial(1).result(timeout=PATIENCE) == "a" * 1000
        taken, refused_now = submit(author, gate, "c")
        assert not refused_now
        assert wl.get_trial(taken["c"]).result(timeout=PATIENCE) == "c" * 1000
        assert [trial.params["name"] for trial in wl.list_trials()] == ["a", "c"]


@in_own_mounts
@pytest.mark.finding("A8")
@pytest.mark.thorough
@pytest.mark.parametrize("lacks", ["space", "inodes"])
def test_trials_can_be_listed_and_deleted_on_a_full_disk(
    author: Project, disk: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    def check(command: str) -> str:
        done = author.run(BIN / "windlass", *command.split())
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    monkeypatch.setenv("WINDLASS_SPACE_RESERVE", str(16 << 20))
    take = take_space if lacks == "space" else take_inodes
    with home_on(disk, size="64m", nr_inodes="400") as home:
        submit(author, "", "a", "b", "c")
        for trial_id in (1, 2, 3):
            wl.get_trial(trial_id).wait(timeout=PATIENCE)
        eventually((home / "reserve").exists, "the reserve is there")
        take(disk)
        assert "is deleted" in check("rm 1 --yes")
        assert (home / "reserve").exists() is (lacks == "inodes"), "a deletion needs no inode"
        check("gc")

        # The reserve is made again, and serves commands that find no running server.
        give_back(disk)
        eventually((home / "reserve").exists, "the reserve is there again")
        check("server stop")
        take(disk)
        assert check("ls").count("SUCCEEDED") == 2
        assert "b ends" in check("logs 2")
        assert "is deleted" in check("rm 2 --yes")
        check("gc")


@in_own_mounts
def test_a_trial_that_fills_the_disk_can_be_stopped(
    author: Project, disk: Path, tmp_path: Path
) -> None:
    with home_on(disk, size="16m") as home:
        submit(author, tmp_path / "never", "a")
        trial = wl.get_trial(1)
        eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
        take_space(disk)
        stopping = author.run(BIN / "windlass", "stop", "1")
        assert stopping.returncode == 1
        check_is_clear(stopping.stderr, home)
        assert "is being stopped" in stopping.stderr
        process = json.loads((home / "trials/1/main-0/1/state.json").read_text())["process"]
        eventually(lambda: not is_alive(process["pid"], process["identity"]), "it is gone")
        give_back(disk)
        trial.wait(timeout=PATIENCE)
        assert (trial.exit_code, trial.record.signal) == (143, "SIGTERM")
        assert trial.state in ("STOPPED", "FAILED")  # its end or the stop was recorded first


@in_own_mounts
@pytest.mark.thorough
def test_at_any_point_without_space_a_trial_is_accepted_whole_or_refused(
    author: Project, disk: Path, chaos: Chaos
) -> None:
    """A refused trial does not exist. An accepted trial ends with its value or names its missing
    resource.

    If there is no space for its code, the trial never starts.
    """
    expected: dict[int, str] = {}
    with home_on(disk, size="32m"):
        submit(author, "", "first")
        for turn in range(chaos.pick(4, 60)):
            take_space(disk, leave=chaos.random.randrange(1, 40) * 4096)
            taken, refused = submit(author, "", *(f"{turn}-{number}" for number in range(8)))
            for message in refused:
                check_is_clear(message, disk / "home")
            expected |= {trial_id: name for name, trial_id in taken.items()}
            give_back(disk)
        for trial_id, name in expected.items():
            trial = wl.get_trial(trial_id).wait(timeout=PATIENCE)
            if trial.state == "SUCCEEDED":
                assert trial.result() == name * 1000
            else:
                assert (trial.state, trial.attempts[0].reason) == ("FAILED", "StartFailed")
                assert "No space left on device" in trial.message
        names_by_id = {trial.id: trial.params["name"] for trial in wl.list_trials()}
        assert names_by_id == {1: "first", **expected}
        # After all ends, no environment or secret is left, least of all of refused trials.
        eventually(lambda: not os.listdir(disk / "home" / "private"), "private files are gone")


@in_own_mounts
@pytest.mark.thorough
def test_a_full_disk_does_not_end_a_program_and_buffered_metrics_are_written_later(
    disk: Path, tmp_path: Path
) -> None:
    program = f"""
import windlass as wl
FOLDER = {str(tmp_path)!r}
wl.report(0, n=0)
touch(os.path.join(FOLDER, "ready"))
wait_for(os.path.join(FOLDER, "full"))
for step in range(1, 500):
    wl.report(step, n=step)
touch(os.path.join(FOLDER, "reported"))
wait_for(os.path.join(FOLDER, "space"))
wl.report(500, n=500)
"""
    with home_on(disk, size="16m"):
        trial = submit_roles(role(program))
        eventually((tmp_path / "ready").exists, "it runs")
        take_space(disk)
        (tmp_path / "full").touch()
        eventually((tmp_path / "reported").exists, "it goes on")
        give_back(disk)
        (tmp_path / "space").touch()
        trial.wait(timeout=PATIENCE)
        assert trial.state == "SUCCEEDED"
        assert [point.value for point in trial.metrics("n")] == list(range(501))
        assert trial.summary_metrics["n"].count == 501
