"""Experiments are created at once, found by id or name, and distinguished."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launched_program import LITTLE, TELL, reports

import windlass as wl
from harness import BIN, Project
from windlass.authoring.prepare.new_experiment import new_experiment
from windlass.model.records import ExperimentRecord

pytestmark = pytest.mark.usefixtures("home", "standing_there")


@pytest.fixture
def standing_there(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.path)


def test_an_experiment_exists_as_soon_as_it_is_created() -> None:
    exp = wl.create_experiment(
        "fresh", project="p", labels=["paper", "b"], description="It is.", config={"a": {"b": 1}}
    )
    again = wl.get_experiment("fresh")
    assert type(exp) is type(again) is wl.Experiment
    assert again.record == exp.record
    assert (again.name, again.project, again.trial_count) == ("fresh", "p", 0)
    record = again.record
    assert (record.labels, record.description) == (("paper", "b"), "It is.")
    assert record.config == {"a": {"b": 1}}
    assert wl.get_experiment(exp.id).record == exp.record
    assert abs(exp.record.created - time.time()) < 60


def test_a_repeated_request_creates_one_experiment() -> None:
    transport = wl.Client().transport
    request = new_experiment("twice", None, (), "", None)
    made = [transport.ask("POST", "/experiments", ExperimentRecord, body=request) for _ in range(2)]
    assert made[0].id == made[1].id
    assert [experiment.id for experiment in wl.list_experiments(name="twice")] == [made[0].id]


def test_an_existing_experiment_is_used_if_allowed() -> None:
    first = wl.create_experiment("nightly", labels=["old"], exist_ok=True)
    with ThreadPoolExecutor(8) as pool:
        others = list(
            pool.map(
                lambda _: wl.Client().create_experiment("nightly", labels=["new"], exist_ok=True),
                range(16),
            )
        )
    assert {same.id for same in others} == {first.id}
    assert others[0].labels == ("old",), "it is as it was"
    elsewhere = wl.create_experiment("nightly", project="other", exist_ok=True)
    assert elsewhere.id != first.id
    second = wl.create_experiment("nightly")
    with pytest.raises(wl.Conflict, match=f"They are: {second.id}, {first.id}"):
        wl.create_experiment("nightly", exist_ok=True)


def test_add_works_the_same_on_created_and_found_experiments(
    project: Project,
) -> None:
    project.write("tell.py", TELL)
    exp = wl.create_experiment("both")
    job = wl.Job(wl.PythonScript("tell.py"), executor=LITTLE)
    trials = [experiment.add(job, args={"n": 1}) for experiment in (exp, wl.get_experiment("both"))]
    assert [reports(trial) for trial in trials] == [[["main", ["--n=1"], "", ""]]] * 2
    assert [trial.experiment for trial in trials] == ["both"] * 2
    assert [trial.id for trial in exp.list_trials()] == [trial.id for trial in trials]
    assert exp.refresh().states == {"SUCCEEDED": 2}


def test_an_ambiguous_name_is_refused_with_the_ids() -> None:
    first, second = (wl.create_experiment("namesakes") for _ in range(2))
    assert first.id != second.id
    first.add(wl.Job(wl.Command(["true"]), executor=LITTLE)).wait()
    with pytest.raises(wl.Conflict) as caught:
        wl.get_experiment("namesakes")
    assert caught.value.message == "There are 2 experiments named 'namesakes'."
    hint = (caught.value.hint or "").splitlines()
    assert f"wl.get_experiment({second.id}) or windlass ls -e {second.id}:" in hint[0]
    assert [line.partition(",")[0] for line in hint[1:]] == [
        f"{second.id}: 0 trials in default", f"{first.id}: 1 trial in default",
    ]  # fmt: skip
    assert all(line.endswith(" ago") for line in hint[1:])
    assert wl.get_experiment(first.id).trial_count == 1


def test_the_list_of_ids_with_an_equal_name_is_limited() -> None:
    for _ in range(25):
        wl.create_experiment("crowd")
    with pytest.raises(wl.Conflict, match="more than 20 experiments named 'crowd'") as caught:
        wl.get_experiment("crowd")
    assert len((caught.value.hint or "").splitlines()) == 22
    assert "and others. See: windlass ls --experiments" in (caught.value.hint or "")


def test_a_name_in_a_job_means_the_newest_experiment_of_that_name(project: Project) -> None:
    wl.create_experiment("named")
    newest = wl.create_experiment("named")
    project.write(
        "go.py",
        """
        import windlass as wl

        @wl.run(cpus=0.05, experiment="named")
        def double(x):
            return 2 * x

        print(double(2))
        wl.Job(wl.Command(["true"]), experiment="named", executor=wl.Local(cpus=0.05)).run()
        """,
    )
    done = project.python("go.py")
    assert done.returncode == 0, done.stderr
    assert newest.refresh().trial_count == 2


def test_ls_accepts_an_experiment_by_name_or_by_id(project: Project) -> None:
    first, second = (wl.create_experiment("listed") for _ in range(2))
    trials = [
        experiment.add(wl.Job(wl.Command(["true"]), executor=LITTLE))
        for experiment in (first, second)
    ]
    for trial in trials:
        trial.wait()

    def listed(which: str) -> list[str]:
        done = project.run(BIN / "windlass", "ls", "-e", which)
        assert done.returncode == 0, done.stderr
        return [line.split()[0] for line in done.stdout.splitlines()[1:]]

    assert listed("listed") == [str(trials[1].id), str(trials[0].id)]
    assert listed(str(first.id)) == [str(trials[0].id)]
    done = project.run(BIN / "windlass", "ls", "-e", "nobody")
    assert done.returncode == 1
    assert "There is no experiment 'nobody'." in done.stderr


def test_all_problems_of_a_new_experiment_are_reported_at_once() -> None:
    before = len(list(wl.list_experiments()))
    with pytest.raises(wl.InvalidArgument) as caught:
        wl.create_experiment("", "", labels="x", description=7, config={"f": len})  # type: ignore[arg-type]
    message = str(caught.value)
    for what in ("name: ''", "project: ''", "labels: write a list", "description: 7", "config: f"):
        assert what in message
    with pytest.raises(wl.InvalidArgument, match="labels: '' is not a valid label"):
        wl.create_experiment("x", labels=[""])
    cyclic: dict[str, object] = {}
    cyclic["self"] = cyclic
    with pytest.raises(wl.InvalidArgument, match="config: self is too deep"):
        wl.create_experiment("x", config=cyclic)
    with pytest.raises(wl.InvalidArgument, match="no option 'lables'; did you mean 'labels'"):
        wl.create_experiment("x", lables=["a"])  # type: ignore[call-arg]
    assert len(list(wl.list_experiments())) == before


def test_a_configuration_is_stored_exactly() -> None:
    config = {"lr": 0.1, "shape": (2, 3), "path": Path("a/b"), "none": None, "text": "ä" * 5000}
    exp = wl.create_experiment("configured", config=config)
    kept = wl.get_experiment(exp.id).record.config
    assert kept == {**config, "shape": [2, 3], "path": "a/b"}


def test_an_experiment_can_be_pickled() -> None:
    exp = wl.create_experiment("travels")
    again = pickle.loads(pickle.dumps(exp))
    assert again.refresh().record == exp.record
