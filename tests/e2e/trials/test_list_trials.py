"""Lists of trials and experiments are filtered, sorted, and loaded page by page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from steps import double, step

import windlass as wl
from harness import eventually, stop_server

MANY = 112  # more than a page


@pytest.fixture(scope="module")
def crowd_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with one running trial and many queued ones."""
    home = tmp_path_factory.mktemp("crowd")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINDLASS_HOME", str(home / "wl"))
        patch.setenv("WINDLASS_CPUS", "1")
        blocker = step.options(cpus=1, experiment="first", name="blocker")
        running = blocker.submit("x", before=str(home / "never"))
        waiting = double.options(cpus=1)
        waiting.options(experiment="crowd").map(range(MANY - 3))
        waiting.options(experiment="lonely", name="Ä").submit(1)
        waiting.options(experiment="crowd", name="last").submit(2)
        eventually(lambda: running.refresh().state == "RUNNING", "the first trial runs")
    yield home / "wl"
    stop_server(home / "wl")


@pytest.fixture
def crowd(crowd_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_HOME", str(crowd_home))


def ids(trials: Iterator[wl.Trial[object]]) -> list[int]:
    return [trial.id for trial in trials]


def test_a_list_has_all_its_pages_in_order(crowd: None) -> None:
    assert ids(wl.list_trials()) == list(range(1, MANY + 1))
    assert ids(wl.list_trials(sort_by="-id")) == list(range(MANY, 0, -1))
    for sort in ("created", "name", "state", "started", "ended"):
        assert sorted(ids(wl.list_trials(sort_by=sort))) == list(range(1, MANY + 1))
    newest_first = [trial.created for trial in wl.list_trials(sort_by="-created")]
    assert newest_first == sorted(newest_first, reverse=True)
    names = [trial.name for trial in wl.list_trials(sort_by="name")]
    assert names == sorted(names)
    assert (names[0], names[-1]) == ("blocker", "Ä")


def test_a_list_has_at_most_limit_entries(crowd: None) -> None:
    for limit in (0, 1, 99, 100, 101, 110):
        assert ids(wl.list_trials(limit=limit)) == list(range(1, limit + 1))
    assert len(ids(wl.list_trials(limit=1000))) == MANY
    assert ids(wl.list_trials(sort_by="-id", limit=2)) == [MANY, MANY - 1]


def test_filters_keep_the_trials_that_match_all_of_them(crowd: None) -> None:
    queued = list(range(2, MANY + 1))
    assert ids(wl.list_trials(state="QUEUED")) == ids(wl.list_trials(state="queued")) == queued
    assert ids(wl.list_trials(state=["RUNNING", "starting"])) == [1]
    assert ids(wl.list_trials(state=["RUNNING", "STARTING", "QUEUED"])) == [1, *queued]
    assert ids(wl.list_trials(state="FAILED")) == []
    assert ids(wl.list_trials(name="Ä")) == ids(wl.list_trials(experiment="lonely")) == [MANY - 1]
    assert ids(wl.list_trials(experiment="crowd", name="last", state="QUEUED")) == [MANY]
    assert ids(wl.list_trials(experiment="crowd", name="blocker")) == []
    assert len(ids(wl.list_trials(experiment="crowd", project="default"))) == MANY - 2


def test_an_unknown_sort_key_or_filter_is_refused_with_suggestions(crowd: None) -> None:
    with pytest.raises(wl.InvalidArgument) as caught:
        next(wl.list_trials(sort_by="colour"))
    assert "Cannot sort by 'colour'." in str(caught.value)
    assert "created" in (caught.value.hint or "")
    assert "hparams.colour, a metric as metrics.colour" in (caught.value.hint or "")
    with pytest.raises(wl.InvalidArgument, match="Did you mean started"):
        next(wl.list_trials(sort_by="-startd"))
    with pytest.raises(wl.InvalidArgument) as caught:
        next(wl.list_trials(state="asleep"))
    assert "There is no state 'ASLEEP'." in str(caught.value)
    assert "QUEUED" in (caught.value.hint or "")
    with pytest.raises(wl.InvalidArgument):
        next(wl.list_experiments(sort_by="state"))


def test_experiments_count_their_trials_by_state(crowd: None) -> None:
    experiments_by_name = {experiment.name: experiment for experiment in wl.list_experiments()}
    assert list(experiments_by_name) == ["first", "crowd", "lonely"]
    assert [experiment.name for experiment in wl.list_experiments(sort_by="-name", limit=2)] == [
        "lonely",
        "first",
    ]
    assert [
        experiment.name for experiment in wl.list_experiments(name="crowd", project="default")
    ] == ["crowd"]

    crowd_of = wl.get_experiment("crowd")
    assert (crowd_of.id, crowd_of.name, crowd_of.project) == (2, "crowd", "default")
    assert crowd_of.trial_count == MANY - 2
    assert crowd_of.states == {"QUEUED": MANY - 2}
    assert crowd_of.record == wl.get_experiment(2).record == experiments_by_name["crowd"].record
    assert ids(crowd_of.list_trials(sort_by="-id", limit=2)) == [MANY, MANY - 2]
    assert ids(crowd_of.list_trials(state="RUNNING")) == []
    assert crowd_of.created == wl.get_trial(2).created
    assert repr(crowd_of) == f"<Experiment 2 crowd: {MANY - 2} trials ({MANY - 2} queued)>"


def test_a_queued_trial_shows_its_reason_and_its_position(crowd: None) -> None:
    assert wl.get_trial(2).message == "needs 1 CPU, 0 free; 1st in queue"
    assert wl.get_trial(MANY).message.endswith(f"; {MANY - 1}th in queue")
    info = wl.Client().server_info()
    assert (info.trials_running, info.trials_queued, info.cpus_free) == (1, MANY - 1, 0.0)


def test_pages_are_loaded_on_demand_and_never_repeat_or_skip(crowd_home: Path, crowd: None) -> None:
    upwards, downwards = wl.list_trials(), wl.list_trials(sort_by="-id")
    first, last = next(upwards).id, next(downwards).id
    extra = double.options(cpus=1).submit(0).id
    assert [first, *ids(upwards)] == list(range(1, extra + 1)), "the last page was asked for late"
    assert [last, *ids(downwards)] == list(range(extra - 1, 0, -1)), "what is new moves nothing"
