"""`windlass suspend`, `resume` and `scale`, and their effect in `windlass ls`."""

from __future__ import annotations

import time
from typing import Any

import pytest

from cli.shells import Shell
from cli.terminals import eventually
from job_requests import role
from windlass.client.resources.trial.trial import Trial
from windlass.model.run_time import seconds_run

FOREVER = "signal.pause()"


@pytest.fixture
def job(shell: Shell) -> Trial[Any]:
    """Two workers that keep running."""
    trial = shell.submit_roles(role(FOREVER, replicas=2))
    until_running(trial, 2)
    return trial


def until_running(trial: Trial[Any], count: int) -> None:
    def is_so() -> bool:
        phases = [replica.phase for replica in trial.refresh().replicas]
        return trial.state == "RUNNING" and phases == ["Running"] * count

    eventually(is_so, f"{count} replicas run")


def test_trials_are_suspended_and_resumed(shell: Shell, job: Trial[Any]) -> None:
    output = shell.good("suspend", str(job.id), str(job.id))
    assert output == (
        f"Trial {job.id} (mnist) is suspended; 2 replicas are stopping. "
        f"To continue: windlass resume {job.id}\n"
    )
    assert shell.good("suspend", str(job.id)) == f"Trial {job.id} (mnist) is already suspended.\n"
    eventually(lambda: "SUSPENDED 0/2" in shell.good("ls", "-n", "1"), "none of them runs")
    record = shell.trial(job.id)
    ran, so_far = seconds_run(record, time.time()), seconds_run(record, time.time() + 3600)
    assert ran == so_far and ran is not None and 0 < ran < 3600, "while it is, no time passes"
    output = shell.good("resume", str(job.id))
    assert output.startswith(f"Trial {job.id} (mnist) is resumed; it is ")
    until_running(job, 2)
    assert {replica.attempt for replica in job.replicas} == {2}
    in_an_hour = seconds_run(shell.trial(job.id), time.time() + 3600)
    assert in_an_hour is not None and in_an_hour - ran > 3600
    output = shell.good("resume", str(job.id))
    assert output == f"Trial {job.id} (mnist) was not suspended; it is running.\n"


def test_a_trial_that_cannot_be_suspended_does_not_affect_the_others(
    shell: Shell, job: Trial[Any]
) -> None:
    shell.good("run", "--name", "done", "--", "true")
    ended = shell.newest().id
    done = shell("suspend", "9999", str(ended), str(job.id))
    assert done.returncode == 1
    assert "There is no trial 9999." in done.stderr
    assert f"Trial {ended} (done) has ended (SUCCEEDED)." in done.stderr
    assert f"Trial {job.id} (mnist) is suspended; 2 replicas are stopping." in done.stdout


def test_suspending_a_queued_trial_stops_no_replica(shell: Shell) -> None:
    trial_id = shell.submit("--cpus", "16", "--", "sleep", "600")
    waiting = shell.submit("--cpus", "16", "--", "sleep", "600")
    output = shell.good("suspend", str(waiting))
    assert (
        output == f"Trial {waiting} (sleep) is suspended. To continue: windlass resume {waiting}\n"
    )
    shell.good("stop", "--grace", "0", str(trial_id), str(waiting))


def test_a_trial_is_scaled_by_a_number_if_it_has_one_role(shell: Shell, job: Trial[Any]) -> None:
    assert shell.good("scale", str(job.id), "3") == (
        f"Trial {job.id} (mnist) is scaled: worker 2 -> 3.\n"
    )
    until_running(job, 3)
    assert "RUNNING 3/3" in shell.good("ls", "-n", "1")
    assert shell.good("scale", str(job.id), "worker=3") == (
        f"Trial {job.id} (mnist) already has this size: worker 3.\n"
    )
    shell.good("scale", str(job.id), "worker=1")
    until_running(job, 1)
    assert "RUNNING  " in shell.good("ls", "-n", "1")
    shown = shell.good("show", str(job.id))
    assert "↕  scaled: worker 2 -> 3" in shown
    assert "↕  scaled: worker 3 -> 1" in shown


def test_scaling_several_roles_needs_the_name_of_a_role(shell: Shell) -> None:
    job = shell.submit_roles(role(FOREVER, "chief"), role(FOREVER, "worker"))
    done = shell("scale", str(job.id), "3")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: Trial {job.id} (mnist) has the roles chief, worker. Name the role for 3.\n"
        f"  windlass scale {job.id} chief=N worker=N\n"
    )
    assert "worker 1 -> 2" in shell.good("scale", str(job.id), "worker=2", "chief=1")
    done = shell("scale", str(job.id), "worker=0", "chief=0")
    stop = f"To stop the whole trial: windlass suspend {job.id}, or windlass stop {job.id}"
    assert (done.returncode, stop in done.stderr) == (1, True)
    done = shell("scale", str(job.id), "wroker=2")
    assert done.returncode == 1
    assert "Did you mean 'worker'?" in done.stderr


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        (["many"], "'many' is neither a number nor ROLE=N."),
        (["worker=-1"], "'worker=-1' is neither a number nor ROLE=N."),
        (["=3"], "'=3' is neither a number nor ROLE=N."),
        (["worker=1", "worker=2"], "The number of replicas of the role 'worker' is set twice."),
        (["1", "2"], "is set twice."),
        ([], "Missing argument"),
    ],
)
def test_an_invalid_size_is_a_usage_error(shell: Shell, sizes: list[str], why: str) -> None:
    done = shell("scale", "1", *sizes)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


def test_roles_are_completed(shell: Shell, job: Trial[Any]) -> None:
    assert shell.complete(f"windlass scale {job.id} w") == ["worker="]
    assert shell.complete(f"windlass logs {job.id} --role ") == ["worker"]
    assert shell.complete("windlass scale 9999 w") == []
