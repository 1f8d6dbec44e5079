"""Trials of generators at the command line: their child trials and their output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import BIN, Project, eventually, stop_trials

LITTLE = wl.Local(cpus=0.1)


@pytest.fixture(autouse=True)
def tidy(home: Path) -> Iterator[None]:
    yield
    stop_trials(home)


def windlass(project: Project, *words: object) -> str:
    done = project.run(BIN / "windlass", *map(str, words))
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(trial: wl.Trial[Any], lr: float) -> None:
    for seed in (1, 2):
        job = wl.Job(wl.Command(["echo", "seed"]), executor=LITTLE, name="echo")
        trial.add(job, args=[str(seed)], identity=f"{trial.id}/{seed}").wait()


def built(name: str) -> wl.Trial[Any]:
    with wl.create_experiment(name) as exp:
        trial = exp.add(build, args={"lr": 0.1})
    return trial.wait()


def test_show_lists_the_children_of_a_trial(home: Path, project: Project) -> None:
    trial = built("shown")
    first, second = trial.children
    shown = windlass(project, "show", trial.id)
    section = shown.partition("Trials\n")[2].partition("\n\n")[0].splitlines()
    assert section[0].split() == ["ID", "NAME", "STATE", "PARAMETERS", "TOOK", "OUTCOME"]
    assert [line.split()[:3] for line in section[1:]] == [
        [str(child.id), "echo", "SUCCEEDED"] for child in (first, second)
    ]
    assert "generator    build(…)" in shown
    assert "its generator added 2 trials" in shown
    assert "resources" not in shown  # it runs nothing itself
    assert f"part of      trial {trial.id}" in windlass(project, "show", first.id)
    record = json.loads(windlass(project, "show", first.id, "--json"))
    assert record["parent_id"] == trial.id


def test_show_prints_the_exception_of_a_generator(home: Path, project: Project) -> None:
    def flawed(trial: wl.Trial[Any]) -> None:
        raise ValueError("no such data")

    exp = wl.create_experiment("raised")
    with pytest.raises(wl.LaunchFailed), exp:
        trial = exp.add(flawed)
    shown = windlass(project, "show", trial.id)
    assert "failed: ValueError: no such data" in shown
    assert 'raise ValueError("no such data")' in shown
    assert "  none\n" in shown


def test_logs_show_the_lines_of_child_trials_with_their_names(home: Path, project: Project) -> None:
    trial = built("logged")
    first, second = trial.children
    lines = [f"echo-{first.id} | seed 1", f"echo-{second.id} | seed 2"]
    assert windlass(project, "logs", trial.id).splitlines() == lines
    assert windlass(project, "logs", trial.id, "-f").splitlines() == lines
    assert windlass(project, "logs", trial.id, "-n", 1).splitlines() == lines[1:]
    assert windlass(project, "logs", trial.id, "--search", "d 1").splitlines() == lines[:1]
    records = [
        json.loads(line) for line in windlass(project, "logs", trial.id, "--json").splitlines()
    ]
    assert [(line["role"], line["index"], line["text"]) for line in records] == [
        ("echo", first.id, "seed 1"), ("echo", second.id, "seed 2"),
    ]  # fmt: skip
    assert list(trial.logs()) == ["seed 1", "seed 2"]


def test_logs_follow_trials_that_are_added_later(
    home: Path, project: Project, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def grow(trial: wl.Trial[Any]) -> None:
        script = f'echo begun; until [ -e "{gate}" ]; do sleep 0.01; done; echo done'
        trial.add(wl.Job(wl.Command(["sh", "-c", script]), executor=LITTLE)).wait()
        trial.add(wl.Job(wl.Command(["echo", "later"]), executor=LITTLE))

    with wl.create_experiment("growing") as exp:
        trial = exp.add(grow)
        lines = trial.logs(follow=True)
        assert next(lines) == "begun"
        gate.touch()
        assert list(lines) == ["done", "later"]
    assert trial.wait().state == "SUCCEEDED"


def test_ls_lists_parents_and_children_and_stopping_a_parent_stops_its_children(
    home: Path, project: Project
) -> None:
    def wait(trial: wl.Trial[Any], long: bool) -> None:
        trial.add(wl.Job(wl.Command(["sleep", "600"]), executor=LITTLE, name="sleep"))

    with wl.create_experiment("listed") as exp:
        trial = exp.add(wait, args={"long": True})
    [child] = trial.children
    eventually(lambda: child.refresh().state == "RUNNING", "it runs")
    rows = windlass(project, "ls", "-e", "listed").splitlines()[1:]
    assert [row.split()[:4] for row in rows] == [
        [str(child.id), "listed/sleep", "RUNNING", "long=True"],
        [str(trial.id), "listed/wait", "RUNNING", "long=True"],
    ]
    assert "is stopped" in windlass(project, "stop", trial.id)
    assert child.refresh().state == "STOPPED"


def test_trials_added_by_a_failed_generator_are_stopped(home: Path, project: Project) -> None:
    def flawed(trial: wl.Trial[Any]) -> None:
        trial.add(wl.Job(wl.Command(["sleep", "600"]), executor=LITTLE, name="sleep"))
        raise ValueError("too late")

    exp = wl.create_experiment("leftovers")
    with pytest.raises(wl.LaunchFailed), exp:
        trial = exp.add(flawed)
    [child] = trial.children
    output = windlass(project, "stop", trial.id)
    assert "had already ended: it failed: ValueError: too late." in output
    assert f"Also stopping: trial {child.id}." in output
    assert child.wait(60).state == "STOPPED"
    assert trial.refresh().state == "FAILED"
