"""`job.run()` runs a job like a function call, with output, Ctrl-C and exceptions."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

import windlass as wl
from harness import Project
from pseudo_terminal import PREAMBLE, Launch

SHARES_HOME = True

pytestmark = pytest.mark.usefixtures("home")

RUN = """
import sys
import windlass as wl

words = [sys.executable, "-c", "import os; print('I am', os.environ['WINDLASS_INDEX'])"]
job = wl.Job(wl.Command(words), replicas=2, executor=wl.Local(cpus=0.5))
trial = job.run()
print(trial.state, trial.is_finished)
trial = wl.JobGroup(a=job, b=wl.Job(wl.Command(["true"]), executor=wl.Local(cpus=0.5))).run()
print(trial.state, trial.is_finished)
"""


def test_run_shows_the_output_and_returns_the_finished_trial(project: Project) -> None:
    project.write("run.py", RUN)
    done = project.python("run.py")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(lines[:2]) == ["main-0 | I am 0", "main-1 | I am 1"]
    assert sorted(lines[3:5]) == ["a-0 | I am 0", "a-1 | I am 1"]
    assert (lines[2], *lines[5:]) == ("SUCCEEDED True", "SUCCEEDED True")


FAILS = """
import sys
import windlass as wl

def train(lr):
    raise KeyError(lr)

try:
    wl.Job(wl.PythonFunction(train), args=[3]).run()
except KeyError as error:
    print("KeyError", error.args)
wl.Job(wl.Command([sys.executable, "-c", "raise SystemExit('no more data')"])).run()
"""


def test_a_failed_job_raises_the_exception_of_its_function_or_its_exit_code(
    project: Project,
) -> None:
    project.write("run.py", FAILS)
    done = project.python("run.py")
    assert done.returncode == 1
    assert done.stdout == "KeyError (3,)\n"
    *above, _, last = done.stderr.partition("windlass.TrialFailed: ")
    assert "(python) failed: exit code 1.\n" in last
    assert "no more data" in "".join(above), "its output was shown"


def test_a_function_that_exits_without_a_value_counts_as_run(project: Project) -> None:
    project.write(
        "run.py",
        """
        import sys
        import windlass as wl

        print(wl.Job(wl.PythonFunction(sys.exit), args=[0]).run().state)
        """,
    )
    done = project.python("run.py")
    assert (done.returncode, done.stdout) == (0, "SUCCEEDED\n"), done.stderr


WAITS = """
def train():
    print(f"pid {os.getpid()}.")
    wait_for("never")

wl.Job(wl.PythonFunction(train), replicas=2, executor=wl.Local(cpus=0.25)).run()
"""


def test_ctrl_c_stops_a_running_job(project: Project, launch: Launch, home: Path) -> None:
    project.write("run.py", PREAMBLE + WAITS)
    terminal = launch("run.py")
    pids = [terminal.wait_for_number(rf"main-{index} \| pid") for index in range(2)]
    terminal.press_ctrl_c()
    [trial] = wl.list_trials(sort_by="-id", limit=1)
    assert trial.state == "STOPPED"
    assert not any(map(psutil.pid_exists, pids))
    screen = "\n".join(terminal.lines)
    assert (
        f"Stopping trial {trial.id} (5s to clean up); Ctrl-C again leaves without waiting."
        in screen
    )
    assert f"Trial {trial.id} (train) was stopped" in screen
