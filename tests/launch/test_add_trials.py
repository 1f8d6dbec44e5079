"""`exp.add` creates a trial at once, with arguments over those of the job, once per identity."""

from __future__ import annotations

import json
import threading
import warnings
from typing import Any

import pytest
from launched_program import LITTLE, TELL, reports

import windlass as wl
from harness import Project

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def exp(project: Project, monkeypatch: pytest.MonkeyPatch) -> wl.Experiment:
    """An experiment, in a project with a program that reports its arguments."""
    project.write("tell.py", TELL)
    monkeypatch.chdir(project.path)
    return wl.create_experiment("adding")


@pytest.fixture
def tell(exp: wl.Experiment) -> wl.Packaged:
    return exp.package([wl.PythonScript("tell.py")])[0]


@pytest.fixture
def group(tell: wl.Packaged) -> wl.JobGroup:
    return wl.JobGroup(
        learner=wl.Job(tell, args={"lr": 1, "net": {"depth": 2}}, executor=LITTLE),
        actor=wl.Job(tell, args=["play"], env={"GREETING": "hi"}, executor=LITTLE),
    )


def words(trial: wl.Trial[Any]) -> list[str]:
    [[_, argv, *_]] = reports(trial)
    return list(argv)


def test_arguments_override_those_of_the_job(exp: wl.Experiment, tell: wl.Packaged) -> None:
    own = {"epochs": 3, "net": {"depth": 2, "width": 8}}
    job = wl.Job(tell, args=own, executor=LITTLE)
    trials = [
        exp.add(job),
        exp.add(job, args={"lr": 0.1, "net": {"depth": 4}}),
        exp.add(job, args={"epochs": [1, 2], "net": {"depth": True}}),
        exp.add(job, args=["as", "it stands"]),
        exp.add(wl.Job(tell, args=["a"], executor=LITTLE), args=["b"]),
        exp.add(wl.Job(tell, args=["a"], executor=LITTLE), args={"lr": 0.1}),
    ]
    assert [words(trial) for trial in trials] == [
        ["--epochs=3", "--net.depth=2", "--net.width=8"],
        ["--epochs=3", "--net.depth=4", "--net.width=8", "--lr=0.1"],
        ["--epochs=1", "--epochs=2", "--net.depth", "--net.width=8"],
        ["--epochs=3", "--net.depth=2", "--net.width=8", "as", "it stands"],
        ["b"],
        ["a", "--lr=0.1"],
    ]
    assert trials[1].params == {"epochs": 3, "net": {"depth": 4, "width": 8}, "lr": 0.1}
    assert trials[5].params == {"args": ["a"], "lr": 0.1}
    assert job.args == own == {"epochs": 3, "net": {"depth": 2, "width": 8}}


def test_the_arguments_of_a_trial_are_stored_for_a_rerun(
    exp: wl.Experiment, tell: wl.Packaged
) -> None:
    job = wl.Job(tell, args={"epochs": 3}, executor=LITTLE)
    values = {"x": wl.Raw("-v 'a b'"), "best": float("inf")}
    trial = exp.add(job, args=values, identity="one")
    recipe = wl.get_trial(trial.id).record.recipe
    assert recipe.arguments == {"main": {"epochs": 3, "x": {"wl.Raw": "-v 'a b'"}, "best": "inf"}}
    assert (recipe.identity, recipe.origin_id) == ("one", None)
    assert words(trial) == ["--epochs=3", "-v", "a b", "--best=inf"]
    assert trial.params == {"epochs": 3, "x": "-v 'a b'", "best": "inf"}


def test_every_value_except_raw_words_is_one_word(exp: wl.Experiment, tell: wl.Packaged) -> None:
    odd = ["a b", "$HOME", "`x`", "--", "*", "'\"", "ä\n", ""]
    trials = [
        exp.add(wl.Job(tell, executor=LITTLE), args=odd),
        exp.add(wl.Job(tell, executor=LITTLE), args={f"f{n}": odd[n] for n in range(len(odd))}),
        exp.add(wl.Job(tell, executor=LITTLE), args=["a", wl.Raw("$HOME 'b c' d\\ e")]),
    ]
    assert words(trials[0]) == odd
    assert words(trials[1]) == [f"--f{number}={word}" for number, word in enumerate(odd)]
    assert words(trials[2]) == ["a", "$HOME", "b c", "d e"]


def test_none_is_dropped_with_a_warning_that_points_to_the_call(
    exp: wl.Experiment, tell: wl.Packaged
) -> None:
    job = wl.Job(tell, args={"seed": 7}, executor=LITTLE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trial = exp.add(job, args={"seed": None, "lr": 1})
    assert [(str(warning.message), warning.filename) for warning in caught] == [
        ("args: seed is None and was omitted", __file__)
    ]
    assert words(trial) == ["--lr=1"]


def test_a_group_gets_arguments_and_variables_by_role(
    exp: wl.Experiment, group: wl.JobGroup
) -> None:
    trial = exp.add(
        group,
        args={"learner": {"net": {"depth": 5}}, "actor": {"n": 2}},
        env={"learner": {"GREETING": "hello"}},
    )
    assert reports(trial) == [
        ["actor", ["play", "--n=2"], "hi", ""],
        ["learner", ["--lr=1", "--net.depth=5"], "hello", ""],
    ]
    assert trial.record.recipe.arguments == {
        "learner": {"lr": 1, "net": {"depth": 5}},
        "actor": ["play", "--n=2"],
    }
    assert trial.params == {
        "learner": {"lr": 1, "net": {"depth": 5}},
        "actor": {"args": ["play"], "n": 2},
    }


@pytest.mark.parametrize(
    ("args", "flaw"),
    [
        ({"args": {"lerner": {"lr": 1}}}, "args: no role 'lerner'; did you mean 'learner'?"),
        ({"args": {"lr": 1}}, "args: no role 'lr'; a group takes them by role: learner, actor"),
        ({"args": ["--lr"]}, r"args: a group takes them by role \(learner, actor\), not"),
        ({"env": {"acter": {"A": "1"}}}, "env: no role 'acter'; did you mean 'actor'?"),
        ({"env": {"actor": {"1A": "1"}}}, "actor: env: '1A' is not a valid variable name"),
        ({"args": {"actor": 5}}, "actor: args: 5 is neither a mapping of flags nor a list"),
        ({"label": ["a"]}, "exp.add: there is no option 'label'; did you mean 'labels'?"),
    ],
)
def test_invalid_arguments_of_a_group_are_refused_with_a_suggestion(
    exp: wl.Experiment, group: wl.JobGroup, args: dict[str, Any], flaw: str
) -> None:
    with pytest.raises(wl.InvalidArgument, match=flaw.replace("?", r"\?")):
        exp.add(group, **args)
    assert exp.refresh().trial_count == 0


def test_variables_override_those_of_the_job(exp: wl.Experiment, tell: wl.Packaged) -> None:
    job = wl.Job(tell, env={"GREETING": "hi", "OTHER": "1"}, executor=LITTLE)
    trial = exp.add(job, env={"GREETING": "hello"})
    assert reports(trial)[0][2] == "hello"
    assert trial.record.spec.roles[0].env == {"GREETING": "hello", "OTHER": "1"}


@pytest.mark.parametrize(
    ("own", "args", "flaw"),
    [
        ({"a": {"b": 1}}, {"a.b": 2}, "args: a.b is given twice"),
        ({"a": 1}, {"no-a": True}, "args: no-a and a are the same flag; keep one"),
        ({"x-y": 1}, {"x_y": 2}, "args: x_y and x-y are the same flag; keep one"),
        (None, {"lr": 1}, "args: lr: the command already has the flag --lr"),
    ],
)
def test_conflicting_arguments_are_refused(
    exp: wl.Experiment, own: Any, args: dict[str, Any], flaw: str
) -> None:
    command = ["python", "tell.py", "--lr", "2"] if own is None else ["python", "tell.py"]
    with pytest.raises(wl.InvalidArgument, match=flaw):
        exp.add(wl.Job(wl.Command(command), args=own), args=args)
    assert exp.refresh().trial_count == 0


def test_the_flags_of_an_interpreter_are_not_those_of_the_script(exp: wl.Experiment) -> None:
    command = wl.Command(["env", "--unset=HOME", "python", "tell.py"])
    trial = exp.add(wl.Job(command, executor=LITTLE), args={"unset": 1})
    assert words(trial) == ["--unset=1"]


def test_name_and_labels_belong_to_the_trial(exp: wl.Experiment, tell: wl.Packaged) -> None:
    job = wl.Job(tell, name="plain", executor=LITTLE)
    trials = [exp.add(job), exp.add(job, name="special", labels=["a", "b"])]
    assert [(trial.name, trial.record.labels) for trial in trials] == [
        ("plain", ()), ("special", ("a", "b")),
    ]  # fmt: skip
    assert {trial.record.experiment_id for trial in trials} == {exp.id}
    for trial in trials:
        trial.wait()


def test_an_auxiliary_trial_does_not_count(exp: wl.Experiment, tell: wl.Packaged) -> None:
    trial = exp.add(wl.Job(tell, executor=LITTLE), auxiliary=True)
    assert trial.record.auxiliary
    exp.refresh()
    assert (exp.trial_count, exp.record.auxiliary) == (0, 1)
    trial.wait()


def test_all_problems_are_reported_at_once_and_nothing_is_added(
    exp: wl.Experiment, tell: wl.Packaged
) -> None:
    with pytest.raises(wl.InvalidArgument) as caught:
        exp.add(wl.Job(tell), name="", labels="x", identity="", auxiliary=1)  # type: ignore[arg-type]
    for what in ("name: ''", "labels: write a list", "identity: ''", "auxiliary: write True"):
        assert what in str(caught.value)
    for what in ("tell.py", tell, None, 7):
        with pytest.raises(wl.InvalidArgument, match="is not a job") as no_job:
            exp.add(what)  # type: ignore[arg-type]
        assert "exp.add(wl.Job(...), args={...})" in (no_job.value.hint or "")
    with pytest.raises(wl.InvalidArgument, match="but an executable"):
        exp.add(tell)  # type: ignore[arg-type]
    with pytest.raises(wl.InvalidArgument, match=r"\[train\] = exp.package\(\[...\]\)"):
        exp.add(wl.Job([tell]))  # type: ignore[arg-type]
    with pytest.raises(wl.InvalidArgument, match="the job has experiment='other'"):
        exp.add(wl.Job(tell, experiment="other"))
    for identity in ("\ud800", "x" * 1001, 7):
        with pytest.raises(wl.InvalidArgument, match="identity: "):
            exp.add(wl.Job(tell), identity=identity)  # type: ignore[arg-type]
    assert exp.refresh().trial_count == 0


def test_a_secret_is_not_recorded_with_the_trial(exp: wl.Experiment, tell: wl.Packaged) -> None:
    job = wl.Job(tell, secrets={"TOKEN": "s3cr3t-value"})
    for secret_use in (
        {"args": {"token": "s3cr3t-value"}},
        {"identity": "of s3cr3t-value"},
        {"labels": ["s3cr3t-value"]},
        {"env": {"OTHER": "s3cr3t-value"}},
    ):
        with pytest.raises(wl.InvalidArgument, match="The value of the secret TOKEN is in"):
            exp.add(job, **secret_use)  # type: ignore[arg-type]
    assert exp.refresh().trial_count == 0


def test_a_secret_in_the_arguments_of_a_function_is_not_stored(project: Project) -> None:
    project.write(
        "go.py",
        """
        import json
        import windlass as wl

        def login(token):
            return len(token)

        exp = wl.create_experiment("hidden")
        job = wl.Job(wl.PythonFunction(login), secrets={"TOKEN": "s3cr3t-value"})
        trial = exp.add(job, args={"token": "s3cr3t-value"})
        print(json.dumps([trial.result(), trial.params, trial.record.recipe.arguments]))
        """,
    )
    done = project.python("go.py")
    assert json.loads(done.stdout) == [12, {"token": "***"}, {}], done.stderr


def test_arguments_that_contain_themselves_are_refused(
    exp: wl.Experiment, tell: wl.Packaged
) -> None:
    cyclic: dict[str, Any] = {}
    cyclic["net"] = cyclic
    broken = {"x": wl.Raw("'")}
    for own, args, flaw in (
        (cyclic, cyclic, "at most 20 levels deep"),
        (cyclic, ["a"], "at most 20 levels deep"),
        (["a"], cyclic, "at most 20 levels deep"),
        (["a"], broken, "is not a valid shell line: no closing quotation"),
        (broken, ["a"], "is not a valid shell line: no closing quotation"),
    ):
        with pytest.raises(wl.InvalidArgument, match=flaw):
            exp.add(wl.Job(tell, args=own), args=args)
    assert exp.refresh().trial_count == 0


# -- identity -------------------------------------------------------------------------


def test_an_identity_is_one_trial_after_repeated_adds(
    exp: wl.Experiment, tell: wl.Packaged
) -> None:
    job = wl.Job(tell, executor=LITTLE)
    first = exp.add(job, args={"n": 1}, identity="n=1")
    with pytest.warns(
        UserWarning, match=rf"trial {first.id} exists, with different .* \(n\)"
    ) as warned:
        again = exp.add(job, args={"n": 2}, identity="n=1")
    assert warned[0].filename == __file__
    assert first.id == again.id
    assert again.params == {"n": 1}
    first.wait()
    ended = wl.get_experiment(exp.id).add(job, args={"n": 1}, identity="n=1")
    assert (ended.id, ended.state) == (first.id, "SUCCEEDED")
    namesake = wl.create_experiment("adding").add(job, identity="n=1")
    assert namesake.id != first.id
    namesake.wait()


def test_an_identity_is_one_trial_with_concurrent_adds(
    exp: wl.Experiment, tell: wl.Packaged
) -> None:
    job, results, start = wl.Job(tell, executor=LITTLE), [], threading.Barrier(8)

    def add() -> None:
        start.wait()
        results.append(exp.add(job, identity="same").id)

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert len(set(results)) == 1
    assert exp.refresh().trial_count == 1


@pytest.mark.thorough
def test_an_identity_is_one_trial_in_all_processes(exp: wl.Experiment, project: Project) -> None:
    project.write(
        "go.py",
        f"""
        import windlass as wl

        exp = wl.get_experiment({exp.id})
        job = wl.Job(wl.PythonScript("tell.py"), executor=wl.Local(cpus=0.05))
        print([exp.add(job, args={{"n": n}}, identity=f"n={{n}}").id for n in range(5)])
        """,
    )
    started = [project.start("go.py") for _ in range(3)]
    outputs = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], outputs
    assert len({out for out, _ in outputs}) == 1
    assert exp.refresh().trial_count == 5


# -- functions decorated with wl.run --------------------------------------------------


def test_a_decorated_function_is_added_with_its_options(project: Project) -> None:
    project.write(
        "go.py",
        """
        import json, os
        import windlass as wl

        @wl.run(cpus=0.25, retries=2, timeout="1h", env={"A": "1"}, name="called", experiment="e")
        def train(lr, epochs=3):
            return [lr * epochs, os.environ["A"], os.environ["B"]]

        exp = wl.create_experiment("decorated")
        trial = exp.add(train, args={"lr": 2}, env={"B": "2"})
        spec = trial.record.spec
        print(json.dumps([
            trial.result(), trial.params, trial.name, trial.experiment, spec.backoff_limit,
            spec.active_deadline, spec.roles[0].resources.cpus, spec.roles[0].restart_policy.value,
            trial.record.recipe.arguments,
        ]))
        """,
    )
    done = project.python("go.py")
    assert json.loads(done.stdout) == [
        [6, "1", "2"], {"lr": 2, "epochs": 3}, "called", "decorated", 2, 3600.0, 0.25,
        "OnFailure", {"main": {"lr": 2}},
    ], done.stderr  # fmt: skip


def test_the_arguments_of_a_function_are_overridden_by_name(project: Project) -> None:
    project.write(
        "go.py",
        """
        import json
        import windlass as wl

        def train(lr, epochs=3, **others):
            return [lr, epochs, others]

        exp = wl.create_experiment("functions")
        little = wl.Local(cpus=0.05)
        [packaged] = exp.package([wl.PythonFunction(train)])
        named = wl.Job(packaged, args={"lr": 1, "net": {"depth": 2}}, executor=little)
        listed = wl.Job(packaged, args=[1, 2], executor=little)
        trials = [
            exp.add(named, args={"lr": 2, "net": {"width": 3}}),
            exp.add(listed, args={"lr": 5}),
            exp.add(listed, args=[7]),
        ]
        print(json.dumps([[trial.result(), trial.params] for trial in trials]))
        for args in ([1, 2, 3], {"epochs": 1}, {"lr": wl.Raw("x")}):
            try:
                exp.add(wl.Job(packaged), args=args)
            except wl.InvalidArgument as error:
                print(error)
        """,
    )
    done = project.python("go.py")
    results, *flaws = done.stdout.splitlines()
    assert json.loads(results) == [
        [[2, 3, {"net": {"width": 3}}], {"lr": 2, "epochs": 3, "others": {"net": {"width": 3}}}],
        [[5, 2, {}], {"lr": 5, "epochs": 2, "others": {}}],
        [[7, 3, {}], {"lr": 7, "epochs": 3, "others": {}}],
    ], done.stderr
    assert "too many positional arguments" in flaws[0]
    assert "missing a required argument: 'lr'" in flaws[1]
    assert "wl.Raw works only on a command line" in flaws[2]


def test_arguments_that_cannot_be_recorded_are_described(project: Project) -> None:
    project.write(
        "go.py",
        """
        import json
        import windlass as wl

        def kind(x):
            return type(x).__name__

        exp = wl.create_experiment("odd")
        [packaged] = exp.package([wl.PythonFunction(kind)])
        job = wl.Job(packaged, executor=wl.Local(cpus=0.05))
        cyclic = []
        cyclic.append(cyclic)
        odd = [cyclic, b"bytes", "half \\ud800", "long" * 10**6, 2**70, {1: 2}, object()]
        trials = [exp.add(job, args={"x": each}) for each in odd]
        print(json.dumps([trial.result() for trial in trials]))
        print(json.dumps([len(str(trial.params)) < 3000 for trial in trials]))
        print(json.dumps([trial.record.recipe.arguments for trial in trials]))
        """,
    )
    done = project.python("go.py")
    results, sizes, recipes = map(json.loads, done.stdout.splitlines())
    assert results == ["list", "bytes", "str", "str", "int", "dict", "object"], done.stderr
    assert all(sizes)
    assert recipes == [{}] * 7
