"""Setting the clock while a job is suspended does not change its elapsed time."""

from __future__ import annotations

from pathlib import Path

import pytest
from clocks import SettableClock

import windlass as wl
from harness import PATIENCE, Project, eventually

pytestmark = pytest.mark.thorough

HOUR = 3600

SUBMIT = """
import sys
import windlass as wl

waits = 'while [ ! -e "$1" ]; do sleep 0.05; done'
command = wl.Command(["sh", "-c", waits, "sh", sys.argv[1]])
job = wl.Job(command, executor=wl.Local(cpus=0.1), replicas=2, active_deadline="20m")
print(job.submit().id)
"""


def test_a_job_resumed_after_a_clock_change_starts_at_once_and_keeps_its_time(
    project: Project, fresh_home: Path, tmp_path: Path
) -> None:
    clock, go = SettableClock(tmp_path / "clock"), tmp_path / "go"
    project.write("submit.py", SUBMIT)
    done = project.python("submit.py", go, env=clock.environ)
    assert done.returncode == 0, done.stderr
    trial = wl.get_trial(int(done.stdout))
    eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
    clock.set_ahead(-HOUR)
    assert trial.suspend().state == "SUSPENDED"
    eventually(
        lambda: all(attempt.ended for attempt in trial.refresh().attempts), "nothing of it runs"
    )
    trial.resume()
    # By the new time the job would start in an hour, or by the old time it would be out of time.
    eventually(
        lambda: trial.refresh().state in ("RUNNING", "FAILED"), "it runs again, or is out of time"
    )
    assert trial.state == "RUNNING", trial.message
    go.touch()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
