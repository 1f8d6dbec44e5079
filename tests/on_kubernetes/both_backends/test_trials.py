"""A trial behaves the same on this machine and in pods."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

import msgspec
import pytest

import windlass as wl
from harness import PATIENCE, Project, eventually, kill_server, traces
from on_kubernetes.both_backends.backends import Backend
from on_kubernetes.runtime.trial_functions import (
    confide,
    double,
    go_on,
    learn,
    leave_with,
    linger,
    refuse,
    save_in_parts,
    whoami,
)
from pseudo_terminal import WAITING, Terminal, stopped_by_ctrl_c


def test_a_value_is_returned_and_the_output_is_recorded(backend: Backend) -> None:
    trial = backend.run(double).submit(21)
    assert trial.result(timeout=PATIENCE) == 42
    assert list(trial.logs()) == ["doubling 21"]
    assert (trial.refresh().state, trial.exit_code) == ("SUCCEEDED", 0)
    eventually(lambda: not backend.leftovers(), "nothing of it is left")


def test_an_exception_is_raised_here_as_the_original(backend: Backend) -> None:
    with pytest.raises(ValueError, match="not today"):
        backend.run(refuse)("not today")


def test_metrics_and_outputs_belong_to_the_trial(backend: Backend, tmp_path: Path) -> None:
    trial = backend.run(learn).submit(5)
    assert trial.result(timeout=PATIENCE) == 0.2
    assert trial.refresh().summary_metrics["loss"].count == 5
    assert trial.progress == 1.0
    assert [point.value for point in trial.metrics("loss")] == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    trial.download_artifacts(tmp_path / "kept")
    assert [path.read_text() for path in (tmp_path / "kept").rglob("notes.txt")] == ["kept"]


def test_a_killed_trial_resumes_from_its_checkpoint(backend: Backend) -> None:
    trial = backend.run(go_on, retries=1).submit(4)
    assert trial.result(timeout=PATIENCE) == 2
    assert list(trial.logs()) == ["from 0", "from 2"]
    assert [attempt.exit_code for attempt in trial.refresh().attempts] == [137, 0]
    assert [checkpoint.step for checkpoint in trial.list_checkpoints(sort_by="step")] == [
        0,
        1,
        2,
        3,
    ]


def test_a_deadline_ends_the_trial(backend: Backend) -> None:
    trial = backend.run(linger, timeout="6s").submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "FAILED"
    assert trial.conditions[-1].reason == "DeadlineExceeded"


def test_stopping_a_trial_ends_it_and_leaves_nothing(backend: Backend) -> None:
    trial = backend.run(linger).submit()
    eventually(lambda: "lingering" in list(trial.logs()), "it runs")
    trial.stop(grace=1)
    trial.wait(timeout=PATIENCE)
    assert trial.state == "STOPPED"
    eventually(lambda: not backend.leftovers(), "nothing of it is left")


@pytest.mark.parametrize("code", [1, pytest.param(137, marks=pytest.mark.thorough)])
def test_the_exit_code_is_that_of_the_program(backend: Backend, code: int) -> None:
    trial = backend.run(leave_with).submit(code).wait(timeout=PATIENCE)
    assert (trial.state, trial.exit_code) == ("FAILED", code)


def test_a_suspended_trial_stops_and_starts_again(backend: Backend) -> None:
    trial = backend.run(linger).submit()
    eventually(lambda: len(list(trial.logs())) == 1, "it runs")
    trial.suspend()
    eventually(lambda: trial.refresh().state == "SUSPENDED", "it is suspended")
    trial.resume()
    eventually(lambda: len(list(trial.logs())) == 2, "it runs again")
    trial.stop(grace=0)
    trial.wait(timeout=PATIENCE)


def test_replicas_know_their_identity(backend: Backend) -> None:
    trial = backend.run(whoami, replicas=2).submit()
    assert trial.result(timeout=PATIENCE) == (0, 2, trial.id, "whoami main-0")
    replicas = [
        (replica.role, replica.index, replica.phase, replica.attempt, replica.exit_code)
        for replica in trial.refresh().replicas
    ]
    assert replicas == [("main", 0, "Succeeded", 1, 0), ("main", 1, "Succeeded", 1, 0)]


@pytest.mark.thorough
def test_a_killed_server_loses_nothing(backend: Backend) -> None:
    trial = backend.run(learn).submit(4)
    kill_server(backend.home)
    assert trial.result(timeout=PATIENCE) == 0.25
    assert trial.refresh().summary_metrics["loss"].count == 4
    assert len(trial.attempts) == 1


def test_a_program_can_be_a_command_line(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys; print('hello', *sys.argv[1:])\n")
    job = wl.Job(
        wl.PythonScript(tmp_path / "train.py"), args={"lr": 0.1}, executor=backend.executor()
    )
    trial = job.submit().wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert list(trial.logs()) == ["hello --lr=0.1"]


def test_secrets_and_variables_reach_only_the_program(
    backend: Backend,
) -> None:
    value = "s3cret-" + secrets.token_hex(8)
    trial = backend.run(confide, secrets={"TOKEN": value}, env={"MOOD": "fine"}).submit()
    masked_lines = ["halves: ***", "the token is ***", "to stderr ***"]
    eventually(lambda: sorted(trial.logs()) == masked_lines, "it has said all")
    assert value not in _object_texts(backend), "nobody who may look into the cluster sees it"
    trial.ask_to_stop("enough")
    assert trial.result(timeout=PATIENCE) == (len(value), "fine")
    assert (trial.refresh().state, trial.asked_to_stop) == ("SUCCEEDED", "enough")
    assert trial.record.spec.secret_names == ("TOKEN",)
    assert value not in msgspec.json.encode(trial.record).decode()
    eventually(lambda: not traces(backend.home, value), "nothing here has it")


def _object_texts(backend: Backend) -> str:
    """All readable data of the objects of trials in the cluster, with their Secrets."""
    message = ""
    for item in backend.objects():
        held = getattr(item, "data", None) or {}
        message += f"{item} {[base64.b64decode(text) for text in held.values()]}"
    return message


MODELS = """
class Model:
    def __init__(self, size):
        self.size = size


class TooLarge(Exception):
    pass
"""
BUILD = """
import json, os
import models
import windlass as wl


@wl.run(**json.loads(os.environ["OPTIONS"]))
def build(size):
    print("building", size, open("units.txt").read())
    if size == 2:
        raise models.TooLarge("at most 1", size)
    return models.Model(size)


first, second, third = build.map([1, 2, 3], return_exceptions=True)
print(type(first) is models.Model, first.size, third.size)
print(type(second) is models.TooLarge, second.args)
build(2)
"""


def test_values_and_errors_have_the_classes_of_the_project(
    backend: Backend, project: Project
) -> None:
    project.write("models.py", MODELS)
    project.write("build.py", BUILD)
    project.write("units.txt", "metres")
    done = project.python("build.py", env={"OPTIONS": json.dumps(backend.options)})
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("building")]
    assert lines == ["True 1 3", "True ('at most 1', 2)"], done.stderr
    assert "building 2 metres" in done.stdout, "what the call waits for is shown"
    assert "models.TooLarge: ('at most 1', 2)\nRaised in trial " in done.stderr
    assert 'raise models.TooLarge("at most 1", size)' in done.stderr


def test_parts_are_one_checkpoint_and_only_the_newest_are_kept(
    backend: Backend, tmp_path: Path
) -> None:
    trial = backend.run(save_in_parts, replicas=2, keep_last=2).submit(4)
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    kept = list(trial.list_checkpoints(sort_by="step"))
    assert [(checkpoint.step, checkpoint.shards) for checkpoint in kept] == [(2, 2), (3, 2)]
    assert kept[0].list_files() == ["shard-0", "shard-1"]
    folder = kept[0].download(tmp_path / "saved")
    assert (folder / "shard-1").read_text() == "1 at 2"
    left = [(artifact.index, artifact.name) for artifact in trial.list_artifacts()]
    assert sorted(left) == [
        (0, "notes.txt"), (0, "tensorboard/events.out.tfevents.1"),
        (1, "notes.txt"), (1, "tensorboard/events.out.tfevents.1"),
    ]  # fmt: skip
    trial.download_artifacts(tmp_path / "left")
    texts = sorted(path.read_text() for path in (tmp_path / "left").rglob("*") if path.is_file())
    assert texts == ["events of 0", "events of 1", "notes of 0", "notes of 1"]
    assert trial.continue_().result(timeout=PATIENCE) == ["0 at 3", "1 at 3"]


@pytest.mark.thorough
def test_ctrl_c_stops_the_awaited_trial_and_reports_it(backend: Backend, project: Project) -> None:
    project.write("train.py", WAITING)
    terminal = Terminal(project, "train.py", OPTIONS=json.dumps(backend.options))
    try:
        terminal.wait_for_number("pid")
        stopped_by_ctrl_c(terminal)
    finally:
        terminal.process.kill()
    eventually(lambda: not backend.leftovers(), "nothing of it is left")
