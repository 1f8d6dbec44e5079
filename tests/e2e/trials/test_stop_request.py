"""Requests to stop, and the information that a program has about its trial."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from metric_functions import asked_again, until_asked, who_am_i
from steps import all_cpus

import windlass as wl
from harness import PATIENCE, eventually, kill_server
from job_requests import request, role
from windlass.client.client import default_client
from windlass.model.job import GeneratorCall, Role
from windlass.model.records import TrialRecord

SHARES_HOME = True


def test_a_program_that_polls_should_stop_ends_on_request(home: Path, tmp_path: Path) -> None:
    started = tmp_path / "started"
    trial = until_asked.submit(str(started))
    eventually(started.exists, "it runs")
    assert trial.asked_to_stop == ""
    trial.ask_to_stop("the loss does not fall")
    assert trial.asked_to_stop == "the loss does not fall"
    assert trial.result(timeout=PATIENCE) == "the loss does not fall"
    assert trial.state == "SUCCEEDED"
    assert wl.get_trial(trial.id).asked_to_stop == "the loss does not fall"
    [event] = [event for event in trial.events if event.reason == "AskedToStop"]
    assert event.message == "asked to stop: the loss does not fall"


def test_a_queued_trial_sees_the_stop_request_when_it_starts(home: Path, tmp_path: Path) -> None:
    holder = until_asked.options(cpus=all_cpus()).submit(str(tmp_path / "started"))
    eventually((tmp_path / "started").exists, "it runs")
    queued = until_asked.submit()
    assert queued.ask_to_stop("too late").state == "QUEUED"
    holder.ask_to_stop("enough")
    assert queued.result(timeout=PATIENCE) == "too late"


def test_a_restarted_trial_still_sees_the_stop_request(home: Path, tmp_path: Path) -> None:
    trial = asked_again.submit(str(tmp_path / "started"))
    eventually((tmp_path / "started").exists, "it runs")
    trial.ask_to_stop()
    assert trial.result(timeout=PATIENCE) == [2, True]


def test_a_stop_request_does_not_change_a_finished_trial(home: Path) -> None:
    trial = who_am_i.submit(0.1).wait(timeout=PATIENCE)
    assert trial.ask_to_stop("too late").asked_to_stop == ""
    assert [event for event in trial.events if event.reason == "AskedToStop"] == []


def test_a_repeated_stop_request_is_recorded_once_per_reason(home: Path, tmp_path: Path) -> None:
    trial = until_asked.options(cpus=all_cpus()).submit(str(tmp_path / "started"))
    eventually((tmp_path / "started").exists, "it runs")
    queued = until_asked.submit()
    for reason in ("one", "one", "two"):
        queued.ask_to_stop(reason)
    messages = [event.message for event in queued.events if event.reason == "AskedToStop"]
    assert messages == ["asked to stop: one", "asked to stop: two"]
    trial.ask_to_stop()
    assert queued.result(timeout=PATIENCE) == "two"


def test_a_missing_reason_and_a_missing_trial_are_refused(home: Path, tmp_path: Path) -> None:
    trial = until_asked.submit()
    with pytest.raises(wl.InvalidArgument, match="reason"):
        trial.ask_to_stop("")
    trial.ask_to_stop().wait(timeout=PATIENCE)


def test_should_stop_is_true_for_a_program_that_ignores_sigterm(home: Path, tmp_path: Path) -> None:
    trial = until_asked.submit(str(tmp_path / "started"), deaf=True)
    eventually((tmp_path / "started").exists, "it runs")
    trial.stop(grace=PATIENCE).wait(timeout=PATIENCE)
    assert trial.attempts[0].exit_code == 0  # by itself, although it ignored the signal


@pytest.mark.thorough
def test_a_restarted_server_delivers_an_undelivered_stop_request(
    fresh_home: Path, tmp_path: Path
) -> None:
    trial = until_asked.options(cpus=all_cpus()).submit(str(tmp_path / "started"))
    eventually((tmp_path / "started").exists, "it runs")
    queued = until_asked.submit().ask_to_stop("asked before")
    kill_server(fresh_home)
    (fresh_home / "trials" / str(queued.id) / "should_stop").unlink()
    trial.ask_to_stop()  # starts a server
    assert queued.result(timeout=PATIENCE) == "asked before"


def test_a_program_knows_its_trial(home: Path) -> None:
    trial = who_am_i.options(experiment="sweep").submit(0.1, name="mine")
    result = trial.result(timeout=PATIENCE)
    assert result == {
        "id": trial.id,
        "uid": trial.record.uid,
        "name": "who_am_i",
        "experiment": "sweep",
        "params": {"lr": 0.1, "name": "mine"},
        "directory": trial.directory,
        "role": "main",
        "index": 0,
        "attempt": 1,
        "rank": 0,
        "repr": f"<CurrentTrial {trial.id} who_am_i: main-0, attempt 1>",
    }


def test_a_stop_request_to_a_generator_trial_reaches_its_children(home: Path) -> None:
    asking = "import windlass as wl\nwhile not wl.should_stop(): time.sleep(0.01)"
    generator = Role(executable=GeneratorCall(qualname="sweep"), name="main")
    ask = default_client().transport.ask
    parent = ask("POST", "/trials", TrialRecord, body=request(generator))
    child_of = msgspec.structs.replace(
        request(role(asking)), parent_id=parent.id, experiment_id=parent.experiment_id
    )
    child = wl.get_trial(ask("POST", "/trials", TrialRecord, body=child_of).id)
    wl.get_trial(parent.id).ask_to_stop("enough")
    assert child.wait(timeout=PATIENCE).asked_to_stop == "enough"
    assert child.state == "SUCCEEDED"
