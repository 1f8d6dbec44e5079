"""Records of trials: arguments, environment, user and outcome."""

from __future__ import annotations

import getpass
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from steps import divide, double, newest, step

import windlass as wl
from harness import BIN, Project, eventually

SHARES_HOME = True

SCRIPT = """
    import sys
    from dataclasses import dataclass

    import numpy as np
    import windlass as wl


    @dataclass
    class Config:
        lr: float
        layers: tuple = (64, 32)


    @wl.run(cpus=0.5, memory="100MB", timeout="1h", retries=1, env={"MOOD": "fine"})
    def train(config, data, *extra, seed=7):
        return data.sum()


    print(train(Config(0.1), np.ones((2, 3)), "a", None))
    """


def git(project: Project, *args: str) -> str:
    settings = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = project.run("git", *settings, *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_everything_about_a_trial_is_in_its_record(home: Path, project: Project) -> None:
    project.write("train.py", SCRIPT)
    project.write("notes/todo.txt", "more data")
    git(project, "init", "-q", "-b", "trunk")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    commit = git(project, "rev-parse", "HEAD")
    before = time.time()
    done = project.python("train.py", "--fast")
    after = time.time()
    assert (done.returncode, done.stdout) == (0, "6.0\n"), done.stderr

    trial = wl.get_trial(newest())
    assert (trial.name, trial.experiment, trial.project) == ("train", "train", "project")
    assert trial.params == {
        "config": {"lr": 0.1, "layers": [64, 32]},
        "data": "ndarray float64 (2, 3)",
        "extra": ["a", None],
        "seed": 7,
    }
    assert (trial.state, trial.is_finished, trial.exit_code) == ("SUCCEEDED", True, 0)
    assert (trial.error, trial.restarts) == (None, 0)
    assert trial.started is not None and trial.ended is not None
    assert before <= trial.record.created and trial.record.ended <= after
    assert trial.created <= trial.started <= trial.ended
    [attempt] = trial.attempts
    assert (attempt.attempt, attempt.phase, attempt.exit_code) == (1, "Succeeded", 0)
    assert attempt.started is not None and attempt.ended is not None
    assert trial.started <= attempt.started <= attempt.ended <= trial.ended
    assert attempt.node == platform.node()

    resources = trial.resources
    assert (resources.cpus, resources.memory, resources.accelerator) == (0.5, 100_000_000, None)
    spec = trial.record.spec
    assert (spec.backend, spec.active_deadline, spec.backoff_limit) == ("local", 3600.0, 1)
    assert spec.roles[0].env == {"MOOD": "fine"}

    made = trial.provenance
    assert made.git is not None
    assert (made.git.commit, made.git.branch, made.git.dirty) == (commit, "trunk", False)
    assert (made.user, made.host) == (getpass.getuser(), platform.node())
    assert (made.python, made.executable) == (platform.python_version(), sys.executable)
    assert (made.argv, made.windlass) == (("train.py", "--fast"), wl.__version__)
    assert made.platform.startswith(platform.system())
    assert (made.tree_files, trial.code.root) == (2, str(project.path))
    assert trial.code.tree is not None and len(trial.code.tree) == 64
    assert Path(trial.directory).is_dir()
    assert trial.record.result is not None and "6.0" in trial.record.result.text

    shown = project.run(BIN / "windlass", "show", str(trial.id), "--json")
    assert shown.returncode == 0, shown.stderr
    packages = json.loads(shown.stdout)["packages"]
    assert {line.partition("==")[0] for line in packages} >= {"numpy", "windlass", "pytest"}


def test_the_code_tree_and_its_git_state_follow_the_files(home: Path, project: Project) -> None:
    project.write("train.py", "import windlass as wl\nprint(wl.run(lambda: 1).submit().id)\n")
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")

    def submit() -> wl.Trial[Any]:
        done = project.python("train.py")
        assert done.returncode == 0, done.stderr
        return wl.get_trial(int(done.stdout))

    clean, again = submit(), submit()
    project.write("helper.py", "x = 1\n")
    dirty = submit()
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "second")
    committed = submit()
    trials = [clean, again, dirty, committed]
    seen = [trial.provenance.git for trial in trials]
    assert [code is not None and code.dirty for code in seen] == [False, False, True, False]
    commits = [code.commit if code else "" for code in seen]
    assert commits[0] == commits[1] == commits[2] != commits[3]
    trees = [trial.code.tree for trial in trials]
    assert trees[0] == trees[1] != trees[2] == trees[3]
    for trial in trials:
        assert trial.result() == 1


def test_a_failure_is_recorded_with_its_type_text_and_position(home: Path) -> None:
    trial = divide.submit(1.0, 0.0)
    with pytest.raises(ZeroDivisionError) as caught:
        trial.result()
    assert (trial.state, trial.exit_code, trial.record.signal) == ("FAILED", 1, "")
    error = trial.error
    assert error is not None
    assert (error.type, error.message) == ("ZeroDivisionError", str(caught.value))
    assert "return a / b" in error.traceback
    if sys.version_info >= (3, 11):
        message = "\n".join(caught.value.__notes__)
    else:
        message = str(caught.value.__cause__)
    assert "return a / b" in message
    died = wl.run(lambda: os.kill(os.getpid(), signal.SIGKILL)).submit()
    assert died.wait().exit_code == 128 + signal.SIGKILL
    assert (died.record.signal, died.error, died.attempts[0].reason) == ("SIGKILL", None, "Signal")


def test_conditions_and_events_record_the_history_of_a_trial(home: Path, tmp_path: Path) -> None:
    trial = step.submit("x", before=str(tmp_path / "go"))
    eventually(lambda: trial.refresh().state == "RUNNING", "it is known to run")
    (tmp_path / "go").touch()
    trial.wait()
    held = {condition.type.value: condition.status for condition in trial.conditions}
    assert held["Succeeded"] is True
    assert held["Running"] is False
    times = [event.time for event in trial.events]
    assert times == sorted(times)
    assert [event.reason for event in trial.events][-1] == "Completed"


@pytest.mark.parametrize("way", ["returns", "is killed"])
def test_a_submitted_trial_continues_after_the_end_of_its_author(
    home: Path, project: Project, tmp_path: Path, way: str
) -> None:
    endings = {"returns": "", "is killed": "os.kill(os.getpid(), signal.SIGKILL)"}
    project.write(
        "train.py",
        f"""
        import os, signal, time
        import windlass as wl


        @wl.run(cpus=0.25)
        def train(path):
            while not os.path.exists(path):
                time.sleep(0.01)
            return "went on"


        print(train.submit({str(tmp_path / "go")!r}).id, flush=True)
        {endings[way]}
        """,
    )
    done = project.python("train.py")
    assert done.returncode == {"returns": 0, "is killed": -signal.SIGKILL}[way]
    trial = wl.get_trial(int(done.stdout))
    assert not trial.is_finished
    (tmp_path / "go").touch()
    assert trial.result() == "went on"


def test_refresh_loads_the_current_state(home: Path, tmp_path: Path) -> None:
    held = step.submit("x", before=str(tmp_path / "go"))
    (tmp_path / "go").touch()
    wl.get_trial(held.id).wait()
    assert not held.is_finished, "an object changes only when asked to"
    assert held.refresh() is held
    assert (held.state, held.is_finished) == ("SUCCEEDED", True)
    assert repr(held).startswith(f"<Trial {held.id} step: SUCCEEDED in ")


def test_a_value_can_be_read_again_by_any_program(home: Path, project: Project) -> None:
    trial = double.submit(21)
    trial.wait()
    code = f"import windlass as wl; print(wl.get_trial({trial.id}).result())"
    assert project.python("-c", code).stdout == "42\n"


@pytest.mark.parametrize("name", ["a/b", "/ü ?#%2F&x=y//..", "1"])
def test_an_experiment_is_found_by_any_name(home: Path, name: str) -> None:
    trial = double.options(experiment=name).submit(1)
    experiment = wl.get_experiment(name)
    assert (experiment.name, experiment.trial_count) == (name, 1)
    assert experiment.refresh().name == name
    assert [trial.id for trial in experiment.list_trials()] == [trial.id]
    assert [trial.id for trial in wl.list_trials(experiment=name)] == [trial.id]
    assert wl.get_experiment(experiment.id).name == name
    assert trial.result() == 2


def test_states_are_counted_as_they_change(home: Path) -> None:
    for a, b in ((1.0, 1.0), (1.0, 0.0)):
        divide.options(experiment="counted").submit(a, b).wait()
    counted = wl.get_experiment("counted")
    assert counted.states == {"SUCCEEDED": 1, "FAILED": 1}
    divide.options(experiment="counted").submit(4.0).wait()
    assert counted.states == {"SUCCEEDED": 1, "FAILED": 1}
    assert counted.refresh().states == {"SUCCEEDED": 2, "FAILED": 1}
    good = [trial.result() for trial in counted.list_trials(state="SUCCEEDED")]
    assert good == [1.0, 4.0]


def test_a_missing_trial_or_experiment_is_not_found_and_others_are_suggested(
    fresh_home: Path,
) -> None:
    with pytest.raises(wl.NotFound) as caught:
        wl.get_trial(1)
    assert "Nothing has run here yet." in str(caught.value)
    assert list(wl.list_trials()) == list(wl.list_experiments()) == []

    trial = double.submit(1)
    for missing in (trial.id + 1, 10**9, 2**63, 2**70, 0, -1):
        with pytest.raises(wl.NotFound) as caught:
            wl.get_trial(missing)
        assert f"There is no trial {missing}." in str(caught.value)
        assert f"The newest trial is {trial.id}." in str(caught.value)
    assert wl.get_trial(str(trial.id)).id == trial.id
    for wrong in ("one", 1.0, None, True):
        with pytest.raises(wl.InvalidArgument, match="is not a trial id"):
            wl.get_trial(wrong)  # type: ignore[arg-type]  # wrong on purpose

    with pytest.raises(wl.NotFound) as caught:
        wl.get_experiment("duoble")
    assert "There is no experiment 'duoble'." in str(caught.value)
    assert "Did you mean 'double'?" in str(caught.value)
    with pytest.raises(wl.InvalidArgument, match="cannot be empty"):
        wl.get_experiment("")
    for missing_name in ("zzz/ü?#", 999, 2**70, -1):
        with pytest.raises(wl.NotFound, match="There is no experiment"):
            wl.get_experiment(missing_name)
    assert trial.result() == 2


def test_a_finished_trial_can_be_read_after_a_restart_of_the_server(home: Path) -> None:
    trial = double.submit(4)
    assert trial.result() == 8
    stopped = subprocess.run([BIN / "windlass", "server", "stop"], capture_output=True, check=True)
    assert b"is stopped" in stopped.stdout
    again = wl.get_trial(trial.id)
    assert (again.record, again.result()) == (trial.refresh().record, 8)
