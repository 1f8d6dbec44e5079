"""Commands beside the trials: run, read, stopped and listed, but not part of experiments."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, Project, eventually


@pytest.fixture(autouse=True)
def at_home(home: Path, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test uses the server of the file, from a project."""
    project.write("notes.txt", "of the project\n")
    monkeypatch.chdir(project.path)


def test_a_command_has_its_output_and_its_exit_code() -> None:
    run = wl.run_command(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert run.wait(timeout=PATIENCE).exit_code == 3
    assert sorted(run.output().splitlines()) == ["err", "out"]
    assert (run.state, run.name) == ("FAILED", "sh")
    assert repr(run).startswith(f"<CommandRun {run.id} sh: FAILED in")


def test_waiting_for_a_failed_command_raises_nothing() -> None:
    assert wl.run_command(["false"], wait=True).exit_code == 1


def test_a_text_runs_in_a_shell() -> None:
    run = wl.run_command("echo one two | wc -w", wait=True)
    assert run.output().strip() == "2"
    assert run.command[-1] == "echo one two | wc -w"
    assert run.name == "echo"


def test_a_command_runs_in_an_empty_folder_with_the_environment_of_its_author(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLAVOUR", "vanilla")
    run = wl.run_command("ls -A; echo $FLAVOUR $SIZE", env={"SIZE": "large"}, wait=True)
    assert run.output() == "vanilla large\n"


def test_a_command_can_run_in_a_snapshot_of_the_project() -> None:
    run = wl.run_command("cat notes.txt; echo changed > notes.txt", code=True, wait=True)
    assert run.output() == "of the project\n"
    assert Path("notes.txt").read_text() == "of the project\n"
    assert run.code.tree


def test_a_command_can_run_in_the_code_and_environment_of_a_trial(project: Project) -> None:
    job = wl.Job(wl.Command(["cat", "notes.txt"]), env={"FLAVOUR": "vanilla"}, experiment="tasting")
    trial = job.submit()
    trial.wait(timeout=PATIENCE)
    project.write("notes.txt", "edited since\n")
    for how in ({"trial": trial}, {"trial": trial.id}, {"experiment": "tasting"}):
        run = wl.run_command("cat notes.txt; echo $FLAVOUR", wait=True, **how)  # type: ignore[arg-type]
        assert run.output() == "of the project\nvanilla\n", how
        assert run.experiment == "tasting"


def test_a_command_without_resources_never_waits_for_capacity(project: Project) -> None:
    del project
    everything = wl.server_info().capacity.cpus
    taking = wl.Job(wl.Command(["sleep", "1000"]), executor=wl.Local(cpus=everything)).submit()
    eventually(lambda: taking.refresh().state == "RUNNING", "all CPUs are taken")
    assert wl.run_command(["true"], wait=True).exit_code == 0
    waiting = wl.run_command(["true"], cpus=1)
    assert waiting.refresh().state == "QUEUED"
    assert "CPU" in waiting.message
    taking.stop(grace=0)
    assert waiting.wait(timeout=PATIENCE).exit_code == 0


def test_a_command_can_be_stopped_and_has_a_deadline() -> None:
    run = wl.run_command(["sleep", "1000"])
    assert run.stop(grace=0).wait(timeout=PATIENCE).state == "STOPPED"
    late = wl.run_command(["sleep", "1000"], timeout=0.2).wait(timeout=PATIENCE)
    assert (late.state, late.record.reason) == ("FAILED", "DeadlineExceeded")


def test_commands_are_not_listed_as_trials_or_part_of_an_experiment() -> None:
    trial = wl.Job(wl.Command(["true"]), experiment="alone").submit()
    trial.wait(timeout=PATIENCE)
    alone, nowhere = wl.run_command(["false"], trial=trial), wl.run_command(["sleep", "1000"])
    alone.wait(timeout=PATIENCE)
    ids = {trial.id for trial in wl.list_trials()}
    assert trial.id in ids
    assert not {alone.id, nowhere.id} & ids
    experiment = wl.get_experiment("alone")
    assert (experiment.trial_count, experiment.state) == (1, "SUCCEEDED")
    assert [trial.id for trial in experiment.list_trials()] == [trial.id]
    names = [experiment.name for experiment in wl.list_experiments()]
    assert names.count("alone") == 1
    assert "" not in names
    for hidden in (0, "0", "command"):
        with pytest.raises(wl.NotFound):
            wl.get_experiment(hidden)
    nowhere.stop(grace=0).wait(timeout=PATIENCE)


def test_stopping_an_experiment_leaves_its_commands_alone() -> None:
    trial = wl.Job(wl.Command(["sleep", "1000"]), experiment="stopped").submit()
    beside = wl.run_command(["sleep", "1000"], trial=trial)
    wl.get_experiment("stopped").stop(grace=0)
    assert trial.wait(timeout=PATIENCE).state == "STOPPED"
    assert not beside.refresh().is_finished
    beside.stop(grace=0).wait(timeout=PATIENCE)


def test_commands_are_listed_and_found_by_id() -> None:
    first, second = wl.run_command(["true"], wait=True), wl.run_command(["false"], wait=True)
    listed = [command.id for command in wl.list_commands(sort_by="-id", limit=2)]
    assert listed == [second.id, first.id]
    failed = [command.id for command in wl.list_commands(state="FAILED", sort_by="-id", limit=1)]
    assert failed == [second.id]
    command = wl.get_command(first.id)
    assert isinstance(command, wl.CommandRun)
    assert command.command == ["true"]
    assert pickle.loads(pickle.dumps(command)).refresh().state == "SUCCEEDED"


def test_an_id_that_is_not_a_command_is_not_found_and_the_newest_is_suggested() -> None:
    run = wl.run_command(["true"], wait=True)
    trial = wl.Job(wl.Command(["true"]), name="training").submit()
    for wrong in (trial.id, 10_000):
        with pytest.raises(wl.NotFound, match=f"no command {wrong}") as caught:
            wl.get_command(wrong)
        assert f"newest is {run.id}" in str(caught.value)
    with pytest.raises(wl.NotFound, match="It is a trial: training"):
        wl.get_command(trial.id)
    with pytest.raises(wl.InvalidArgument, match="whole number"):
        wl.get_command("seven")


def test_an_invalid_command_is_refused_with_all_problems_before_a_run() -> None:
    with pytest.raises(wl.InvalidArgument) as caught:
        wl.run_command(["true"], trial=1, code=True, cpus=-1, timeout="soon", env={"A": 1})  # type: ignore[dict-item]
    for part in ("cpus", "timeout", "env", "trial and code: it runs in one place"):
        assert part in str(caught.value)
    for nothing in ([], "", "  ", [""], 7, ["a", 1]):
        with pytest.raises(wl.InvalidArgument, match="is not a command"):
            wl.run_command(nothing)  # type: ignore[arg-type]
    with pytest.raises(wl.InvalidArgument, match="did you mean 'cpus'"):
        wl.run_command(["true"], cpu=1)  # type: ignore[call-arg]
    with pytest.raises(wl.NotFound, match="no trial 9999"):
        wl.run_command(["true"], trial=9999)


def test_an_experiment_without_a_trial_has_no_code_to_run_in() -> None:
    empty = wl.create_experiment("empty")
    with pytest.raises(wl.InvalidArgument, match="has no trial with recorded code"):
        wl.run_command(["true"], experiment=empty)


def test_a_secret_reaches_a_command_and_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "open-sesame")
    run = wl.run_command("echo $KEY", secrets=["KEY"], wait=True)
    assert run.output() == "***\n"
    assert "sesame" not in str(run.record)
    with pytest.raises(wl.InvalidArgument, match="KEY is in the command"):
        wl.run_command(["echo", "open-sesame"], secrets=["KEY"])


def test_a_rerun_of_a_command_is_a_command() -> None:
    run = wl.run_command(["echo", "hello"], wait=True)
    again = run.rerun()
    again.wait(timeout=PATIENCE)
    assert wl.get_command(again.id).output() == "hello\n"
