"""A job that is stopped while its replicas start leaves nothing behind."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, eventually, kill_server
from replicas import LITTLE, check_gone, left_of, shell

# Reports its start from a separate process that only a supervisor would end.
STAY = 'echo $$ >> "$1"; sleep 600 & sleep 600 & wait'


@pytest.mark.case(11)
@pytest.mark.thorough
def test_a_stop_at_any_moment_after_the_submission_leaves_nothing(
    home: Path, tmp_path: Path
) -> None:
    """The pauses range from before the first supervisor to after the last process."""
    wl.Client().server_info()
    trials = []
    for number in range(12):
        job = wl.Job(shell(STAY, tmp_path / f"{number}"), executor=LITTLE, replicas=4)
        trial = job.submit()
        time.sleep(number * 0.01)  # not a wait for a condition: each pause tests another moment
        trials.append(trial.stop(grace=0))
    for trial in trials:
        assert trial.wait(timeout=PATIENCE).state == "STOPPED", trial.message
        assert left_of(trial) == [], "it has ended when nothing of it is left"
        assert trial.restarts == 0
    assert wl.Client().server_info().trials_running == 0


@pytest.mark.case(11)
@pytest.mark.thorough
def test_a_stop_at_any_moment_with_a_killed_server_leaves_nothing(
    fresh_home: Path, tmp_path: Path
) -> None:
    trials = []
    for number in range(6):
        job = wl.Job(shell(STAY, tmp_path / f"{number}"), executor=LITTLE, replicas=4)
        trial = job.submit()
        time.sleep(number * 0.02)  # as above: each at another moment
        trial.stop(grace=0)
        kill_server(fresh_home)  # the next job starts another server, which has to clean up
        trials.append(trial)
    for trial in trials:
        assert trial.wait(timeout=PATIENCE).state == "STOPPED", trial.message
        check_gone(trial)
    info = wl.Client().server_info()
    assert info.cpus_free == info.capacity.cpus


@pytest.mark.case(11)
def test_a_job_stopped_between_two_attempts_starts_no_other(home: Path, tmp_path: Path) -> None:
    job = wl.Job(shell("exit 1"), executor=LITTLE, replicas=2, backoff_limit=6)
    trial = job.submit()
    eventually(lambda: trial.refresh().state == "RESTARTING", "the next attempts are to come")
    assert trial.stop().wait(timeout=PATIENCE).state == "STOPPED", trial.message
    attempts = len(trial.attempts)
    # Another job takes the second after which the next attempt would have started.
    wl.Job(shell("sleep 1.5"), executor=LITTLE).submit().wait(timeout=PATIENCE)
    assert len(trial.refresh().attempts) == attempts
    assert left_of(trial) == []
