"""Programs with unusual structures."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from steps import all_cpus, newest

import windlass as wl
from harness import BIN, Project, eventually

SHARES_HOME = True


def test_instances_of_a_class_with_slots_come_back(project: Project, home: Path) -> None:
    project.write(
        "train.py",
        """
        from dataclasses import dataclass

        import windlass as wl

        @dataclass(frozen=True, slots=True)
        class Point:
            x: int

        class Plain:
            __slots__ = ("x", "y")

        @wl.run
        def move(point):
            plain = Plain()
            plain.x = 5
            return Point(point.x + 1), plain

        point, plain = move(Point(1))
        assert isinstance(point, Point) and isinstance(plain, Plain), (point, plain)
        print(point, plain.x, hasattr(plain, "y"))
        """,
    )
    done = project.python("train.py")
    assert (done.stdout, done.stderr) == ("Point(x=2) 5 False\n", "")


def test_a_function_can_be_called_in_a_spawned_process(project: Project, home: Path) -> None:
    project.write(
        "train.py",
        """
        import multiprocessing

        import windlass as wl

        @wl.run
        def double(x):
            return 2 * x

        def task(x):
            return double(x)

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(task, [1, 2]))
        """,
    )
    done = project.python("train.py")
    assert done.stdout == "[2, 4]\n", done.stderr


def test_a_module_that_calls_during_its_import_calls_once(project: Project, home: Path) -> None:
    project.write(
        "job.py",
        """
        import windlass as wl

        @wl.run
        def train(x):
            print("trains", x)
            return x

        value = train(1)
        """,
    )
    done = project.python("-c", "import job; print(job.value)")
    assert (done.stdout, done.stderr) == ("trains 1\n1\n", "")


def test_a_function_of_a_module_loaded_by_path_runs(project: Project, home: Path) -> None:
    project.write(
        "plugins/one.py",
        """
        import windlass as wl

        def helper(x):
            return x + 1

        @wl.run
        def work(x):
            return helper(x)
        """,
    )
    project.write(
        "main.py",
        """
        import importlib.util, sys

        spec = importlib.util.spec_from_file_location("made_up", "plugins/one.py")
        module = sys.modules["made_up"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        print(module.work(1))
        """,
    )
    done = project.python("main.py")
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_trial_has_the_umask_of_its_author(project: Project, home: Path) -> None:
    project.write(
        "train.py",
        """
        import os, windlass as wl

        @wl.run
        def mask():
            return os.umask(0)

        print(oct(mask()))
        """,
    )
    done = project.run("sh", "-c", 'umask 027; exec "$0" train.py', sys.executable)
    assert (done.stdout, done.stderr) == ("0o27\n", "")


def test_a_program_without_output_streams_runs(project: Project, home: Path) -> None:
    project.write(
        "train.py",
        """
        import windlass as wl

        @wl.run
        def speak():
            print("to nobody")
            return 1

        open("value", "w").write(str(speak()))
        """,
    )
    done = project.run("sh", "-c", 'exec "$0" train.py >&- 2>&-', sys.executable)
    assert done.returncode == 0
    assert (project.path / "value").read_text() == "1"


def test_a_function_without_a_signature_can_be_run(home: Path) -> None:
    assert wl.run(max)(3, 1, 2) == 3


def test_modules_of_a_project_do_not_shadow_modules_of_the_server(
    project: Project, fresh_home: Path
) -> None:
    for name in ("httptools.py", "uvicorn.py"):
        project.write(f"own/{name}", "raise SystemExit('the wrong module')\n")
    project.write(
        "train.py",
        """
        import windlass as wl

        @wl.run
        def one():
            return 1

        print(one())
        """,
    )
    done = project.python("train.py", env={"PYTHONPATH": str(project.path / "own")})
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_processes_started_by_a_trial_die_with_its_supervisor(
    home: Path, tmp_path: Path, project: Project
) -> None:
    project.write(
        "train.py",
        """
        import subprocess, sys, time, windlass as wl

        @wl.run
        def leave(file):
            bare = subprocess.Popen(["sleep", "600"], env={})
            open(file, "w").write(str(bare.pid))
            time.sleep(600)

        print(leave.submit(sys.argv[1]).id)
        """,
    )
    note = tmp_path / "pid"
    trial = wl.get_trial(int(project.python("train.py", note).stdout))
    eventually(lambda: note.exists() and note.read_text() != "", "the trial runs")
    state = Path(trial.refresh().directory, "main-0", "1", "state.json")
    os.kill(json.loads(state.read_text())["supervisor"]["pid"], signal.SIGKILL)
    trial.wait(timeout=120)
    assert (trial.state, trial.exit_code) == ("FAILED", None)
    assert "its supervisor died" in trial.message
    eventually(lambda: not psutil.pid_exists(int(note.read_text())), "what it left is gone")


@pytest.mark.thorough
def test_a_timeout_applies_while_no_server_runs(
    project: Project, home: Path, tmp_path: Path
) -> None:
    project.write(
        "train.py",
        """
        import signal, sys, time, windlass as wl

        @wl.run(timeout="1s")
        def linger(file):
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            open(file, "w").close()
            time.sleep(600)

        print(linger.submit(sys.argv[1]).id)
        """,
    )
    note = tmp_path / "runs"
    trial_id = int(project.python("train.py", note).stdout)
    directory = wl.get_trial(trial_id).directory
    eventually(note.exists, "the trial runs")
    assert project.run(BIN / "windlass", "server", "stop").returncode == 0
    eventually(Path(directory, "main-0", "1", "exit.json").exists, "the supervisor ends it")
    trial = wl.get_trial(trial_id).wait(timeout=120)
    assert (trial.state, trial.record.reason) == ("FAILED", "DeadlineExceeded")


def test_a_trial_has_the_open_file_limit_of_its_author(project: Project, home: Path) -> None:
    project.write(
        "train.py",
        """
        import resource, windlass as wl

        @wl.run
        def limit():
            return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

        print(limit())
        """,
    )
    done = project.run("sh", "-c", 'ulimit -Sn 200; exec "$0" train.py', sys.executable)
    assert (done.stdout, done.stderr) == ("200\n", "")


@pytest.mark.finding("A1")
def test_a_function_that_leaves_all_its_files_open_returns_its_value(
    project: Project, home: Path
) -> None:
    project.write(
        "train.py",
        """
        import resource, windlass as wl

        @wl.run
        def leak(fails):
            global leaked
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
            leaked = []
            try:
                while True:
                    leaked.append(open("/dev/null"))
            except OSError:
                pass
            if fails:
                raise LookupError("own")
            return "kept"

        if __name__ == "__main__":
            print(leak(False))
            try:
                leak(True)
            except LookupError as error:
                print(error)
        """,
    )
    done = project.python("train.py")
    assert done.stdout == "kept\nown\n", done.stderr


def test_a_return_value_that_cannot_be_stored_is_explained(project: Project, home: Path) -> None:
    project.write(
        "train.py",
        """
        import resource, windlass as wl

        @wl.run
        def large():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
            return bytes(100_000)

        large()
        """,
    )
    done = project.python("train.py")
    assert "The function returned, but its return value cannot be stored" in done.stderr
    assert "File too large" in done.stderr


def test_a_sweep_inside_a_trial_runs_there(project: Project, home: Path) -> None:
    """The trial has all CPUs, so any trial that it submits would wait forever."""
    project.write(
        "train.py",
        """
        import windlass as wl

        @wl.run
        def train(lr):
            return 1 / lr

        print(list(train.map([1, 0, 2], return_exceptions=True)), train(4))
        """,
    )
    before = newest()
    run = ("run", "--cpus", str(all_cpus()), "train.py")
    done = project.run(BIN / "windlass", *run)
    message = "[1.0, ZeroDivisionError('division by zero'), 0.5] 0.25\n"
    assert (done.returncode, done.stdout) == (0, message), done.stderr
    assert [trial.name for trial in wl.list_trials(where=f"id > {before}")] == ["train"]


@pytest.mark.thorough
def test_a_server_without_its_file_is_found_again(project: Project, fresh_home: Path) -> None:
    before = wl.Client().server_info().pid
    (fresh_home / "server.json").unlink()
    assert wl.Client().server_info().pid == before
