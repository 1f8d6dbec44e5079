"""The stream of an experiment reports all events of the experiment and its trials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from steps import held

import windlass as wl
from harness import kill_server
from windlass.client.client import default_client
from windlass.client.connection.experiment_events import ExperimentEvents, ExperimentNews
from windlass.client.terminal.experiment_progress import Progress
from windlass.model.records import ExperimentRecord, ExperimentState, TrialRecord, TrialState

SHARES_HOME = True


def news_of(experiment: wl.Experiment, timeout: float = 60) -> Iterator[ExperimentNews]:
    transport = default_client().transport
    return iter(ExperimentEvents(transport, experiment.id, timeout=timeout))


def until_all_ended(
    news: Iterator[ExperimentNews], experiment: wl.Experiment, number: int
) -> dict[int, TrialRecord]:
    """Return the trial records received until this many trials and the experiment have ended."""
    progress = Progress(experiment._record)
    for update in news:
        progress.learn(update)
        is_whole = isinstance(update, ExperimentRecord) and update.trials == number
        if is_whole and progress.is_over:
            return progress.trials
    raise AssertionError("the stream ended")


def test_the_stream_starts_with_the_experiment_and_every_existing_trial(home: Path) -> None:
    experiment = wl.create_experiment("begins")
    quick = wl.run(lambda x: x, experiment="begins", cpus=0.1)
    ids = [quick.submit(number).wait().id for number in range(3)]
    news = news_of(experiment)
    first = next(news)
    assert isinstance(first, ExperimentRecord)
    assert first.id == experiment.id
    assert first.states == {"SUCCEEDED": 3}
    updates = [next(news) for _ in ids]
    assert [update.id for update in updates if isinstance(update, TrialRecord)] == ids
    assert next(news) == first


def test_the_stream_reports_each_change(home: Path, tmp_path: Path) -> None:
    experiment = wl.create_experiment("changes")
    news = news_of(experiment)
    assert next(news).state is ExperimentState.EMPTY  # type: ignore[union-attr]  # the experiment
    assert next(news).state is ExperimentState.EMPTY  # type: ignore[union-attr]
    let_go = tmp_path / "go"
    function = wl.run(held, experiment="changes", cpus=0.1)
    trial = function.submit(str(let_go))
    seen: list[TrialState] = []
    for update in news:
        if isinstance(update, TrialRecord):
            assert update.id == trial.id
            seen.append(update.state)
            if update.state is TrialState.RUNNING:
                let_go.touch()
        elif isinstance(update, ExperimentRecord) and update.state is ExperimentState.SUCCEEDED:
            break
    assert TrialState.RUNNING in seen
    assert seen[-1] is TrialState.SUCCEEDED


def test_the_stream_reports_the_end_of_each_of_many_trials(home: Path) -> None:
    experiment = wl.create_experiment("burst")
    news = news_of(experiment)
    function = wl.run(held, experiment="burst", cpus=0.1)
    ids = [function.submit("/", fail=number == 3).id for number in range(4)]
    trials = until_all_ended(news, experiment, len(ids))
    assert set(trials) == set(ids)
    assert [trials[trial_id].state.value for trial_id in ids] == [
        "FAILED" if number == 3 else "SUCCEEDED" for number in range(4)
    ]


@pytest.mark.thorough
def test_the_stream_continues_after_a_kill_of_the_server(home: Path, tmp_path: Path) -> None:
    experiment = wl.create_experiment("killed")
    let_go = tmp_path / "go"
    function = wl.run(held, experiment="killed", cpus=0.1)
    trial = function.submit(str(let_go))
    news = news_of(experiment)
    for update in news:
        if isinstance(update, TrialRecord) and update.state is TrialState.RUNNING:
            break
    kill_server(home)
    let_go.touch()
    trials = until_all_ended(news, experiment, 1)
    assert trials[trial.id].state is TrialState.SUCCEEDED


def test_the_stream_reports_changed_metadata(home: Path) -> None:
    from windlass.model.requests import ChangeExperiment

    experiment = wl.create_experiment("notes")
    news = news_of(experiment)
    for _ in range(2):
        next(news)
    path = f"/experiments/{experiment.id}"
    transport = default_client().transport
    transport.ask("PATCH", path, ExperimentRecord, body=ChangeExperiment(notes="as expected"))
    update = next(news)
    assert isinstance(update, ExperimentRecord)
    assert update.notes == "as expected"


def test_the_stream_of_an_unknown_experiment_is_refused(home: Path) -> None:
    wl.create_experiment("999")  # a name that looks like an id
    transport = default_client().transport
    with pytest.raises(wl.NotFound, match=r"no experiment 999\.\n  The newest experiment is \d+"):
        next(iter(ExperimentEvents(transport, 999)))


def test_a_wait_that_times_out_raises_wait_timeout(home: Path) -> None:
    experiment = wl.create_experiment("late")
    with pytest.raises(wl.WaitTimeout, match="did not end within 10ms"):
        list(news_of(experiment, timeout=0.01))
