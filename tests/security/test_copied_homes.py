"""A copy of a home changes nothing of the original; a renamed home stays the same home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually, kill_server

pytestmark = pytest.mark.finding("A4")

WORK = """
    import os, sys, time
    import windlass as wl


    @wl.run(cpus=1)
    def work(gate, starts):
        with open(starts, "a") as file:
            file.write(os.environ["WINDLASS_HOME"] + "\\n")
        while not os.path.exists(gate):
            time.sleep(0.01)
        return "done"


    first, second = (work.submit(*sys.argv[1:]) for _ in "ab")
    while first.refresh().state != "RUNNING":
        time.sleep(0.01)
    print(first.id, second.id)
"""


class LiveHome:
    """A home with a running and a queued trial, and a copy of it."""

    def __init__(self, home: Path, folder: Path, project: Project) -> None:
        self.path = home
        self.copy = folder / "copy"
        self._gate = folder / "gate"
        self._starts = folder / "starts"
        self._project = project
        project.write("work.py", WORK)
        done = project.python("work.py", self._gate, self._starts)
        self.running, self.queued = (wl.get_trial(int(text)) for text in done.stdout.split())

    def make_copy(self) -> None:
        subprocess.run(["cp", "-a", self.path, self.copy], check=True)

    def in_copy(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command with the copy as its home."""
        return self._project.run(BIN / "windlass", *words, env={"WINDLASS_HOME": str(self.copy)})

    def processes(self) -> list[psutil.Process]:
        """Return supervisor and process of the running trial."""
        state = json.loads(
            (self.path / f"trials/{self.running.id}/main-0/1/state.json").read_text()
        )
        return [psutil.Process(state[name]["pid"]) for name in ("supervisor", "process")]

    @property
    def starts(self) -> list[str]:
        """Return the home of each process that was started."""
        return self._starts.read_text().splitlines()

    def open_gate(self) -> None:
        self._gate.touch()

    def close(self) -> None:
        self.open_gate()
        if self.copy.exists():
            stop_server_only(self.copy)


@pytest.fixture
def live(
    fresh_home: Path, tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LiveHome]:
    monkeypatch.setenv("WINDLASS_CPUS", "1")
    live = LiveHome(fresh_home, tmp_path, project)
    yield live
    live.close()


def test_a_copy_shows_its_records_and_leaves_the_trials_of_the_original_alone(
    live: LiveHome,
) -> None:
    live.make_copy()
    before = live.processes()
    assert live.in_copy("server", "stop").stdout == "No server was running.\n"
    listed = live.in_copy("ls")
    assert "RUNNING" in listed.stdout
    assert "QUEUED" in listed.stdout
    assert f"{live.copy} is a copy of the home {live.path}" in listed.stderr
    assert "windlass server adopt" in listed.stderr
    for refused in (["stop", "1"], ["rm", "2", "--yes"], ["logs", "--follow", "1"], ["gc"]):
        done = live.in_copy(*refused)
        assert done.returncode != 0, refused
        assert "is a copy of the home" in done.stderr, refused
    assert "is a copy of the home" in live.in_copy("doctor").stdout
    assert f"copy of  {live.path}" in live.in_copy("server", "status").stdout
    stop_server_only(live.copy)
    kill_server(live.path)
    assert live.in_copy("ls").stdout.count("RUNNING") == 1, "also if the original has no server"
    assert live.processes() == before
    assert live.starts == [str(live.path)]
    live.open_gate()
    for trial in (live.running, live.queued):
        assert trial.result(timeout=PATIENCE) == "done"
        assert len(trial.refresh().attempts) == 1
    assert live.starts == [str(live.path)] * 2


def test_an_adopted_copy_continues_on_its_own_and_signals_no_process_of_the_original(
    live: LiveHome,
) -> None:
    live.make_copy()
    # A request to stop that had not reached its supervisor when the home was copied.
    attempt = live.copy / f"trials/{live.running.id}/main-0/1"
    (attempt / "stop.json").write_text('{"grace": 0, "reason": ""}')
    before = live.processes()
    adopted = live.in_copy("server", "adopt")
    assert adopted.returncode == 0, adopted.stderr
    assert "is a home of its own" in adopted.stdout
    token = (live.copy / "token").read_text()
    assert token != (live.path / "token").read_text()
    eventually(lambda: len(live.starts) == 2, "the queued trial starts in the copy")
    assert sorted(live.starts) == sorted([str(live.path), str(live.copy)])
    shown = json.loads(live.in_copy("show", "--json", str(live.running.id)).stdout)
    assert shown["state"] == "FAILED"
    assert "it ran in the home of which this home is a copy" in json.dumps(shown)
    assert live.processes() == before, "the processes of the original live"
    assert live.running.refresh().state == "RUNNING"
    assert "a home of its own already" in live.in_copy("server", "adopt").stderr
    live.open_gate()
    for trial in (live.running, live.queued):
        assert trial.result(timeout=PATIENCE) == "done"
    assert sorted(live.starts) == sorted([str(live.path)] * 2 + [str(live.copy)])


def test_a_renamed_home_continues_with_its_trials(
    live: LiveHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = live.processes()[1]
    live.path.rename(live.copy)
    listed = live.in_copy("ls")
    assert "RUNNING" in listed.stdout
    assert "is a copy of" not in listed.stderr
    live.open_gate()
    monkeypatch.setenv("WINDLASS_HOME", str(live.copy))
    assert wl.get_trial(live.queued.id).result(timeout=PATIENCE) == "done"
    ended = wl.get_trial(live.running.id)
    assert ended.result(timeout=PATIENCE) == "done"
    assert not process.is_running()
    assert live.starts == [str(live.path), str(live.copy)]


def test_a_home_with_a_damaged_identity_is_treated_as_a_copy(
    live: LiveHome, project: Project
) -> None:
    kill_server(live.path)
    (live.path / "home.json").write_text("[]")
    before = live.processes()
    with pytest.raises(wl.Conflict, match="windlass server adopt"):
        live.running.refresh().stop()
    assert live.processes() == before
    done = project.run(BIN / "windlass", "server", "adopt")
    assert done.returncode == 0, done.stderr
    eventually(lambda: live.running.refresh().state == "FAILED", "its process is of another home")


def test_a_copy_on_another_file_system_is_recognized(tmp_path: Path, home: Path) -> None:
    wl.Client().server_info()
    other = next(
        (
            Path(folder)
            for folder in ("/dev/shm", "/var/tmp", "/tmp")
            if os.path.isdir(folder) and os.stat(folder).st_dev != os.stat(home).st_dev
        ),
        None,
    )
    if other is None:
        pytest.skip("there is one file system")
    copy = other / f"windlass-copy-{os.getpid()}"
    shutil.copytree(home, copy, ignore=shutil.ignore_patterns("*.sock"))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WINDLASS_HOME", str(copy))
            assert wl.Client().server_info().copy_of == str(home)
    finally:
        stop_server_only(copy)
        shutil.rmtree(copy)


def test_a_copy_of_hard_links_names_the_server_that_uses_its_files(live: LiveHome) -> None:
    subprocess.run(["cp", "-al", live.path, live.copy], check=True)
    listed = live.in_copy("ls")
    shutil.rmtree(live.copy)
    assert listed.returncode != 0
    assert "are hard links to the files of another home" in listed.stderr
    assert "cp -a HOME COPY" in listed.stderr
    assert live.running.refresh().state == "RUNNING"


def stop_server_only(home: Path) -> None:
    """Stop the server of a home. Its trials continue."""
    environ = {**os.environ, "WINDLASS_HOME": str(home)}
    subprocess.run([BIN / "windlass", "server", "stop"], env=environ, check=True)
