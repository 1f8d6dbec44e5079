"""What all objects of the SDK share: equality, times, and the arguments of their methods."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from checkpoint_functions import train

import windlass as wl
from harness import PATIENCE
from windlass.client.client import default_client

SHARES_HOME = True


@pytest.mark.finding("U24")
def test_objects_of_the_same_resource_are_equal(home: Path) -> None:
    trial = train.submit([0.5]).wait(timeout=PATIENCE)
    again = wl.get_trial(trial.id)
    assert again == trial and hash(again) == hash(trial) and again is not trial
    assert pickle.loads(pickle.dumps(trial)) == trial
    other = train.submit([0.4])
    assert other != trial and {trial, again, other} == {trial, other}
    experiment = wl.get_experiment(trial.experiment_id)
    assert experiment == wl.get_experiment(trial.experiment_id) != trial
    endpoint = default_client().transport.endpoint
    over_http = wl.Client(endpoint.url, endpoint.token).get_trial(trial.id)
    assert over_http != trial  # an address may belong to another server tomorrow
    assert train.dry_run([1.0]) != train.dry_run([1.0])


@pytest.mark.finding("U28")
def test_a_trial_names_its_experiment_by_id(home: Path) -> None:
    first, second = (wl.create_experiment("twice") for _ in range(2))
    trials = [experiment.add(train, args={"losses": []}) for experiment in (first, second)]
    assert [trial.experiment for trial in trials] == ["twice", "twice"]
    assert [trial.experiment_id for trial in trials] == [first.id, second.id]


@pytest.mark.finding("U24")
def test_times_of_objects_are_datetimes_with_a_time_zone(home: Path) -> None:
    trial = train.submit([0.5]).wait(timeout=PATIENCE)
    experiment = wl.get_experiment(trial.experiment_id).add_artifact("notes", __file__)
    [task], [replica], [attempt] = trial.list_tasks(), trial.replicas, trial.attempts
    checkpoint = next(trial.list_checkpoints())
    model = wl.create_model("timed", exist_ok=True)
    version = model.register_version(checkpoint)
    assert trial.started is not None and trial.ended is not None
    assert trial.created <= trial.started <= trial.ended
    times = [
        *(trial.created, trial.started, trial.ended, task.started, task.ended),
        *(replica.started, replica.ended, attempt.started, attempt.ended),
        *(experiment.created, experiment.artifacts[0].created, checkpoint.created),
        *(model.created, version.created, wl.get_project("default").created),
    ]
    now = datetime.now(timezone.utc)
    for time in times:
        assert isinstance(time, datetime) and time.utcoffset() == timedelta(0)
    for time in (trial.created, trial.ended, checkpoint.created):
        assert abs(now - time) < timedelta(seconds=PATIENCE)
    assert abs(trial.record.created - trial.created.timestamp()) < 1e-5  # records have seconds
    same_time = wl.list_trials(created_after=trial.created, experiment=experiment.id)
    assert trial in list(same_time)


@pytest.mark.finding("U24")
def test_fork_and_continue_take_the_same_arguments(home: Path) -> None:
    trial = train.submit([0.5, 0.2]).wait(timeout=PATIENCE)
    first = next(trial.list_checkpoints())
    for start in (trial.fork, trial.continue_):
        other = start({"losses": []}, checkpoint=first, experiment="forks")
        assert other.begins_with == first and other.params["losses"] == []
        assert other.experiment == "forks"
    with pytest.raises(wl.InvalidArgument, match="in the place of the arguments") as error:
        trial.fork(first)  # type: ignore[arg-type]
    assert "checkpoint=" in str(error.value)
