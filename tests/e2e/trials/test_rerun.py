"""Reruns of trials, unchanged or with some changes."""

from __future__ import annotations

import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from steps import double, tell

import windlass as wl
from harness import Project, kill_server
from windlass.client.client import default_client
from windlass.model.job import JobSpec, ProcessCall, Role
from windlass.model.records import Recipe, SearchSuggestion, TrialRecord
from windlass.model.requests import CreateTrial

SHARES_HOME = True

HALF = wl.Local(cpus=0.5)
TELL = "import os, sys; print(sys.argv[1:], os.environ.get('MOOD'), open('data.txt').read())"


def lines(trial: wl.Trial[Any]) -> list[str]:
    """Wait for the end of a trial and return its log lines."""
    return [str(line) for line in trial.wait().logs()]


def argv(trial: wl.Trial[Any], role: int = 0) -> tuple[str, ...]:
    """The command line of a role."""
    executable = trial.record.spec.roles[role].executable
    assert isinstance(executable, ProcessCall)
    return executable.argv


@pytest.fixture
def script_trial(home: Path, project: Project, monkeypatch: pytest.MonkeyPatch) -> wl.Trial[Any]:
    """A trial of a script, with arguments by name."""
    project.write("tell.py", TELL)
    project.write("data.txt", "first")
    monkeypatch.chdir(project.path)
    job = wl.Job(
        wl.PythonScript("tell.py"),
        args={"lr": 0.1, "model": {"depth": 3}, "amp": True, "raw": wl.Raw("-v 'a b'")},
        env={"MOOD": "fine"},
        executor=wl.Local(cpus=0.5, memory="10MB"),
        priority=3,
        name="teller",
        experiment="telling",
    )
    return job.submit().set_labels(["first"])


def test_exactly_the_same_code_and_arguments_run_again(
    script_trial: wl.Trial[Any], project: Project
) -> None:
    shutil.rmtree(project.path)  # the working directory is ignored
    os.mkdir(project.path)
    os.chdir(project.path)
    project.write("data.txt", "second")
    again = script_trial.rerun()
    assert lines(again) == lines(script_trial)
    assert lines(again) == ["['--lr=0.1', '--model.depth=3', '--amp', '-v', 'a b'] fine first"]
    assert again.id != script_trial.id
    for what in ("spec", "params", "experiment_id", "name"):
        assert getattr(again.record, what) == getattr(script_trial.record, what), what
    assert (script_trial.labels, again.labels) == (("first",), ())  # labels belong to one trial
    assert again.provenance.git == script_trial.provenance.git
    assert again.provenance.tree_files == script_trial.provenance.tree_files
    assert again.provenance.packages == script_trial.provenance.packages


def test_new_arguments_are_merged_into_the_old_ones(script_trial: wl.Trial[Any]) -> None:
    other = script_trial.rerun({"lr": 0.2, "model": {"width": 8}, "amp": False, "name": "x y"})
    assert argv(other)[2:] == (
        "--lr=0.2", "--model.depth=3", "--model.width=8", "--no-amp", "-v", "a b", "--name=x y",
    )  # fmt: skip
    assert other.params == {
        **script_trial.params,
        "lr": 0.2,
        "model": {"depth": 3, "width": 8},
        "amp": False,
        "name": "x y",
    }
    assert "--name=x y" in lines(other)[0]


def test_an_argument_is_found_by_any_spelling_of_its_name(script_trial: wl.Trial[Any]) -> None:
    other = script_trial.rerun({"model.depth": 4, "amp": None})
    assert argv(other)[2:] == ("--lr=0.1", "--model.depth=4", "-v", "a b")
    third = other.rerun({"batch-size": 1}).rerun({"batch_size": 2})
    assert argv(third)[2:] == ("--lr=0.1", "--model.depth=4", "-v", "a b", "--batch-size=2")


def test_all_other_options_can_be_changed(script_trial: wl.Trial[Any]) -> None:
    other = script_trial.rerun(
        env={"MOOD": "grim", "MORE": "1"},
        executor=wl.Local(cpus=0.25),
        name="other",
        experiment="elsewhere",
        labels=["a", "b"],
    )
    [role] = other.record.spec.roles
    assert role.env == {"MOOD": "grim", "MORE": "1"}
    assert (role.resources.cpus, role.resources.memory) == (0.25, 10_000_000)
    assert (other.name, other.experiment, other.labels) == ("other", "elsewhere", ("a", "b"))
    assert other.record.spec.priority == 3
    assert "grim" in lines(other)[0]
    there = script_trial.rerun(experiment=wl.get_experiment(other.record.experiment_id))
    assert there.record.experiment_id == other.record.experiment_id


def test_a_list_is_replaced_or_extended(home: Path, tmp_path: Path) -> None:
    job = wl.Job(wl.Command(["echo", "own"]), args=["--lr", 0.1, "data"], executor=HALF)
    trial = job.submit()
    assert lines(trial.rerun(["--lr", 0.3])) == ["own --lr 0.3"]
    more = trial.rerun({"seed": 1})
    assert lines(more) == ["own --lr 0.1 data --seed=1"]
    assert more.params == {"lr": 0.1, "seed": 1, "args": ["own", "data"]}
    assert lines(more.rerun([])) == ["own"]
    with pytest.raises(wl.InvalidArgument) as caught:
        trial.rerun({"lr": 0.3})
    message = str(caught.value)
    assert "as a list of words, which already has lr: --lr 0.1 data" in message
    assert f"windlass rerun {trial.id} -- --lr=0.3 data" in message


def test_a_flag_of_the_command_itself_is_not_an_argument(home: Path) -> None:
    trial = wl.Job(wl.Command(["echo", "--lr=1"]), args={"seed": 1}, executor=HALF).submit()
    with pytest.raises(wl.InvalidArgument, match="the command already has the flag --lr"):
        trial.rerun({"lr": 2})


def without_recipe(*words: str) -> wl.Trial[Any]:
    """A trial like older ones, without a record of how its arguments were passed."""
    spec = JobSpec(roles=(Role(executable=ProcessCall(argv=words)),))
    return create(spec)


def create(spec: JobSpec, **fields: Any) -> wl.Trial[Any]:
    """Create a trial as a client would."""
    transport = default_client().transport
    request = CreateTrial(key=os.urandom(16).hex(), experiment="made", spec=spec, **fields)
    return wl.Trial(transport, transport.ask("POST", "/trials", TrialRecord, body=request))


def test_the_arguments_of_an_older_script_are_a_list(home: Path) -> None:
    trial = without_recipe("python", "-c", "print(1)")
    with pytest.raises(wl.InvalidArgument, match="has no record of the words of its command"):
        trial.rerun({"lr": 1})
    assert lines(trial.rerun()) == ["1"]
    module = without_recipe("python", "-m", "json.tool", "--indent", "3", "none.json")
    assert argv(module.rerun(["--help"])) == ("python", "-m", "json.tool", "--help")
    assert argv(module.rerun({"tab": True}))[-1] == "--tab"
    with pytest.raises(wl.InvalidArgument, match=r"-- --indent=4 none\.json"):
        module.rerun({"indent": 4})


def test_arguments_of_a_function_change_by_name_and_accumulate(home: Path) -> None:
    trial = tell.submit(0.1, 7, depth=3)
    assert trial.rerun().result() == [0.1, (7,), 3, {"depth": 3}]
    once = trial.rerun({"lr": 0.2})
    twice = once.rerun({"epochs": 5, "depth": 4})
    thrice = twice.rerun({"lr": 0.4, "rest": [1, 2]})
    assert once.result() == [0.2, (7,), 3, {"depth": 3}]
    assert twice.result() == [0.2, (7,), 5, {"depth": 4}]
    assert thrice.result() == [0.4, (1, 2), 5, {"depth": 4}]
    assert thrice.params == {"lr": 0.4, "rest": [1, 2], "epochs": 5, "options": {"depth": 4}}
    assert trial.result() == [0.1, (7,), 3, {"depth": 3}]


def test_any_picklable_value_can_replace_an_argument(home: Path) -> None:
    trial = tell.submit(0.1)
    assert trial.rerun({"lr": {1, 2}}).result()[0] == {1, 2}
    with pytest.raises(wl.SerializationError, match="argument 'lr'"):
        trial.rerun({"lr": threading.Lock()})


def test_an_argument_that_a_function_does_not_have_is_refused(home: Path) -> None:
    trial = double.submit(1)
    wrong: Any
    for wrong, message in (
        ({"plsu": 1}, "there is no argument 'plsu'; did you mean 'plus'"),
        ({"x": 1, "y": 2, "z": 3}, "2 problems"),
        ([0.1], r"changed by name, not as \[0.1\]"),
    ):
        with pytest.raises(wl.InvalidArgument, match=message):
            trial.rerun(wrong)
    assert list(trial.reruns) == []


def test_each_of_several_roles_is_changed_by_name(home: Path) -> None:
    group = wl.JobGroup(
        learner=wl.Job(wl.Command(["echo", "learn"]), args={"lr": 1}, executor=HALF),
        actor=wl.Job(wl.PythonFunction(tell), args={"lr": 5}, executor=HALF, replicas=2),
        experiment="roles",
    )
    trial = group.submit()
    again = trial.rerun()
    assert (again.params, again.record.spec) == (trial.params, trial.record.spec)
    other = trial.rerun(
        {"learner": {"lr": 2}, "actor": {"epochs": 9}},
        env={"actor": {"MOOD": "fine"}},
        executor={"learner": wl.Local(cpus=0.25)},
    )
    assert other.wait().state == "SUCCEEDED"
    assert argv(other) == ("echo", "learn", "--lr=2")
    assert other.params["learner"] == {"args": ["learn"], "lr": 2}
    assert other.params["actor"] == {"lr": 5, "rest": [], "epochs": 9, "options": {}}
    learner, actor = other.record.spec.roles
    assert (learner.env, actor.env) == ({}, {"MOOD": "fine"})
    assert (learner.resources.cpus, actor.resources.cpus) == (0.25, 0.5)
    third = other.rerun({"actor": {"lr": 6}})
    assert third.params["actor"] == {"lr": 6, "rest": [], "epochs": 9, "options": {}}
    for wrong, message in (
        ({"args": {"lerner": {}}}, "there is no role 'lerner'; did you mean 'learner'?"),
        ({"args": ["x"]}, "args: the trial has several roles"),
        ({"executor": HALF}, "executor: the trial has several roles"),
    ):
        with pytest.raises(wl.InvalidArgument, match=re.escape(message)):
            trial.rerun(**wrong)  # type: ignore[arg-type]


def test_one_error_lists_all_problems_of_a_rerun(home: Path) -> None:
    trial = double.submit(1)
    with pytest.raises(wl.InvalidArgument) as caught:
        trial.rerun(
            env={"A": 1},  # type: ignore[dict-item]
            executor=wl.Local(cpus=-1),
            name="",
            labels="x",
            experiment=3,  # type: ignore[arg-type]
        )
    assert "5 problems" in str(caught.value)
    with pytest.raises(wl.InvalidArgument, match="Did you mean 'recorded'"):
        trial.rerun(environment="recoded")
    with pytest.raises(
        wl.InvalidArgument, match="is not an executor that Windlass can run trials on"
    ):
        trial.rerun(executor=wl.Ray(cluster="x"))  # type: ignore[arg-type]


def test_a_trial_links_to_its_origin_and_its_reruns(home: Path) -> None:
    first = double.submit(1)
    assert (first.origin, list(first.reruns)) == (None, [])
    second = first.rerun({"x": 2})
    third, fourth = second.rerun({"x": 3}), first.rerun()
    assert [rerun.id for rerun in first.reruns] == [second.id, fourth.id]
    origin = third.origin
    assert origin is not None and origin.id == second.id
    assert origin.origin is not None and origin.origin.id == first.id
    kill_server(home)
    assert [rerun.id for rerun in second.reruns] == [third.id]


def test_a_rerun_does_not_inherit_the_identity_or_search_of_its_origin(home: Path) -> None:
    place = SearchSuggestion(search="s", number=0, params={"lr": 1})
    spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("echo", "x"))),), suspend=True)
    recipe = Recipe(identity="one", search=place, arguments={"main": {}})
    trial = create(spec, recipe=recipe, auxiliary=True, labels=("l",))
    again = trial.rerun()
    assert again.record.recipe == Recipe(origin_id=trial.id, arguments={"main": {}})
    assert again.record.auxiliary  # it stays outside the outcome of the experiment
    assert again.labels == ()
    assert again.wait().state == "SUCCEEDED"  # not suspended, unlike its origin
    assert trial.refresh().state == "SUSPENDED"
    trial.stop()


def test_the_trials_of_a_generator_are_rerun_one_by_one(home: Path) -> None:
    def sweep(trial: wl.Trial[Any], lr: float) -> None:
        for seed in (1, 2):
            trial.add(wl.Job(wl.Command(["echo"]), executor=HALF), args={"seed": seed})

    with wl.create_experiment("generated") as experiment:
        parent = experiment.add(sweep, {"lr": 0.1})
    parent.wait()
    with pytest.raises(wl.Unsupported, match="is a generator"):
        parent.rerun()
    child = next(trial for trial in experiment.list_trials() if trial.params.get("seed") == 2)
    again = child.rerun()
    assert (again.params, again.record.parent_id) == ({"lr": 0.1, "seed": 2}, None)
    other = child.rerun({"seed": 3})
    assert other.params == {"lr": 0.1, "seed": 3}
    assert lines(other) == ["--seed=3"]


SECRET = "correct-horse"


def test_secrets_come_from_this_process_and_are_never_recorded(
    home: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("show.py", "import os; print(len(os.environ['KEY']), os.environ['KEY'])")
    monkeypatch.chdir(project.path)
    job = wl.Job(wl.PythonScript("show.py"), secrets={"KEY": SECRET}, executor=HALF)
    trial = job.submit()
    with pytest.raises(wl.InvalidArgument, match="the secret KEY is not set in this environment"):
        trial.rerun()
    assert lines(trial.rerun(secrets={"KEY": "other-horse"})) == ["11 ***"]
    monkeypatch.setenv("KEY", SECRET)
    again = trial.rerun()
    assert lines(again) == ["13 ***"]
    assert again.record.spec.secret_names == ("KEY",)
    for wrong in ({"env": {"X": f"a{SECRET}"}}, {"args": [SECRET]}, {"labels": [SECRET]}):
        with pytest.raises(wl.InvalidArgument, match="The value of the secret KEY is in"):
            trial.rerun(**wrong)  # type: ignore[arg-type]


def test_a_rerun_with_a_deleted_volume_is_refused(home: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "x").write_text("volume\n")
    job = wl.Job(wl.Command(["cat", "in/x"]), volumes={"in": data}, executor=HALF)
    trial = job.submit()
    assert lines(trial.rerun()) == ["volume"]
    shutil.rmtree(data)
    with pytest.raises(
        wl.InvalidArgument, match=rf"its volume in was {data}, which no longer exists"
    ):
        trial.rerun()


def test_a_dry_trial_cannot_be_rerun(home: Path) -> None:
    trial = wl.Job(wl.Command(["echo"])).submit(dry_run=True)
    with pytest.raises(wl.Unsupported):
        trial.rerun()


def test_a_rerun_without_its_code_is_refused(
    home: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("only.txt", "code of no other trial")
    monkeypatch.chdir(project.path)
    trial = wl.Job(wl.Command(["true"]), executor=HALF).submit().wait()
    tree = trial.record.spec.code.tree
    assert tree is not None
    (home / "blobs" / tree[:2] / tree).unlink()
    with pytest.raises(wl.WindlassError, match="no longer has"):
        trial.rerun()
