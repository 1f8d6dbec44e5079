"""Lists of an experiment, a project, a workspace or a trial, by object, id or name."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import BIN, stop_server


@pytest.fixture(scope="module")
def named_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Experiments 1 `rates` (default), 2 `rates` (vision), 3 `rates` (lab/vision), 4 `a/b`."""
    home = tmp_path_factory.mktemp("named") / "wl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINDLASS_HOME", str(home))
        wl.create_workspace("lab")
        for project in ("default", "vision", "lab/vision"):
            experiment = wl.create_experiment("rates", project=project)
            with wl.start_trial(f"one-of-{project}", experiment=experiment):
                print("a line of", project)
        wl.create_experiment("a/b")
        wl.create_model("net", project="vision")
    yield home
    stop_server(home)


@pytest.fixture
def named(named_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_HOME", str(named_home))


def ids(rows: Any) -> list[int]:
    return [row.id for row in rows]


def windlass(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / "windlass", *words], capture_output=True, text=True, check=False)


def test_a_list_accepts_an_object_an_id_or_a_name(named: None) -> None:
    second = wl.get_experiment(2)
    for experiment in (second, 2, "2", "vision/rates", "default/vision/rates"):
        assert ids(wl.list_trials(experiment=experiment)) == [2]
    assert ids(wl.list_trials(experiment="lab/vision/rates")) == [3]
    assert ids(wl.list_trials(experiment="default/rates")) == [1]
    assert ids(wl.list_trials(experiment="rates")) == [1, 2, 3]  # a name is a filter by name
    assert ids(wl.list_trials(experiment="rates", project="vision")) == [2]
    vision = wl.get_project("vision")
    for project in (vision, vision.id, str(vision.id), "vision", "default/vision"):
        assert ids(wl.list_trials(project=project)) == [2]
        assert ids(wl.list_experiments(project=project)) == [2]
        assert [model.name for model in wl.list_models(project=project)] == ["net"]
    lab = wl.get_workspace("lab")
    for workspace in (lab, lab.id, str(lab.id), "lab"):
        assert [project.place for project in wl.list_projects(workspace=workspace)] == [
            "lab/vision"
        ]
    assert [project.place for project in lab.list_projects()] == ["lab/vision"]
    assert ids(vision.list_experiments()) == [2]
    trial = wl.get_trial(2)
    for one in (trial, 2, "2"):
        assert list(wl.list_checkpoints(trial=one)) == []


LISTS: list[Callable[..., Any]] = [
    wl.list_trials,
    lambda **options: wl.search_logs("line", **options),
]


@pytest.mark.parametrize("listed", LISTS)
def test_a_list_of_an_unknown_experiment_raises_not_found(
    named: None, listed: Callable[..., Any]
) -> None:
    for experiment, message in (
        ("rate", "There is no experiment 'rate'.\n  Did you mean 'rates'?"),
        ("vision/rate", "Did you mean 'vision/rates'?"),
        (999, "There is no experiment 999."),
        (0, "There is no experiment 0."),
        ("999", "There is no experiment 999."),
    ):
        with pytest.raises(wl.NotFound) as refused:
            list(listed(experiment=experiment))
        assert message in str(refused.value)
    for wrong in (1.5, True, ["rates"], wl.get_project("vision")):
        with pytest.raises(wl.InvalidArgument, match="an experiment, its id or its name"):
            listed(experiment=wrong)
    with pytest.raises(wl.InvalidArgument, match="limit=-1: write a whole number"):
        listed(limit=-1)
    with pytest.raises(wl.NotFound, match="no experiment 'a/b' in the project 'vision'"):
        list(listed(experiment="a/b", project="vision"))


@pytest.mark.parametrize("listed", [*LISTS, wl.list_experiments, wl.list_models])
def test_a_list_of_an_unknown_project_raises_not_found(
    named: None, listed: Callable[..., Any]
) -> None:
    with pytest.raises(wl.NotFound, match=r"There is no project 'visio'.\n  Did you mean 'vision'"):
        list(listed(project="visio"))
    with pytest.raises(wl.NotFound, match="There is no project 999"):
        list(listed(project=999))
    for wrong in (1.5, True, wl.get_experiment(1)):
        with pytest.raises(wl.InvalidArgument, match="a project, its id or its name"):
            listed(project=wrong)


def test_a_list_of_an_unknown_workspace_or_trial_raises_not_found(named: None) -> None:
    with pytest.raises(wl.NotFound, match="There is no workspace 'la'"):
        list(wl.list_projects(workspace="la"))
    with pytest.raises(wl.NotFound, match="There is no workspace 99"):
        list(wl.list_projects(workspace=99))
    with pytest.raises(wl.NotFound, match="There is no trial 99"):
        list(wl.list_checkpoints(trial=99))
    with pytest.raises(wl.InvalidArgument, match="trial='x': write a trial, its id"):
        wl.list_checkpoints(trial="x")


def test_an_experiment_is_found_by_its_path(named: None) -> None:
    assert wl.get_experiment("vision/rates").id == 2
    assert wl.get_experiment("lab/vision/rates").id == 3
    assert wl.get_experiment("rates", project="vision").id == 2
    assert wl.get_experiment("rates", project=wl.get_project("lab/vision")).id == 3
    assert wl.get_experiment("a/b").id == 4  # a plain name first
    assert wl.get_experiment("3").id == wl.get_experiment(3).id == 3
    with pytest.raises(wl.Conflict) as refused:
        wl.get_experiment("rates")
    for line in ("1: 1 trial in default, made", "2: 1 trial in vision", "3: 1 trial in lab/vision"):
        assert line in str(refused.value)
    with pytest.raises(wl.NotFound, match="no experiment 'nope' in the project 'vision'"):
        wl.get_experiment("nope", project="vision")


def test_the_command_line_accepts_the_paths_that_it_prints(named: None) -> None:
    printed = windlass("ls", "--experiments").stdout
    for place, trial in (("vision/rates", "2"), ("lab/vision/rates", "3")):
        assert place in printed
        [row] = windlass("ls", "-e", place).stdout.splitlines()[1:]
        assert row.split()[0] == trial
        assert f"Experiment {trial}" in windlass("show", "-e", place).stdout
    done = windlass("ls", "-e", "nope")
    assert done.returncode == 1 and "There is no experiment 'nope'." in done.stderr
    assert "There is no project 'nope'." in windlass("ls", "-p", "nope").stderr
    [row] = windlass("ls", "-e", "2").stdout.splitlines()[1:]
    assert row.split()[0] == "2"
    assert windlass("ls", "-e", "a/b").stderr.startswith("No trial matches.")


def test_an_id_may_be_a_text_in_every_call(named: None) -> None:
    assert wl.get_trial("2").id == 2
    assert wl.get_project("1").place == "default"
    assert wl.get_workspace("1").name == "default"
    assert wl.get_model("1").name == "net"
    run = wl.run_command(["true"], wait=True)
    assert wl.get_command(str(run.id)).id == run.id
    for wrong in ("x", "", "1.5", "-1", True, None, "²"):
        with pytest.raises(wl.InvalidArgument, match="is not a trial id"):
            wl.get_trial(wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_the_suggested_newest_trial_is_in_the_list(named: None) -> None:
    wl.run_command(["true"], wait=True)  # in no list
    with pytest.raises(wl.NotFound, match=r"There is no trial 9999.\n  The newest trial is 3\."):
        wl.get_trial(9999)
    wl.get_experiment(3).archive()
    try:
        with pytest.raises(wl.NotFound, match=r"The newest trial is 2\."):
            wl.get_trial(9999)
    finally:
        wl.get_experiment(3).unarchive()
