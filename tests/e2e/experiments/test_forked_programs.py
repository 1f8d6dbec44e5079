"""Programs that fork while they build an experiment: each process builds separately."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import windlass as wl
from harness import Project

SHARES_HOME = True

AUTHOR = """
import os
import sys
import threading

import windlass as wl

job = wl.Job(wl.Command(["true"]), executor=wl.Local(cpus=0.1), name="job")
is_over = threading.Event()


def lasting(trial):
    trial.add(job)
    is_over.wait()
    trial.add(job)


def brief(trial):
    trial.add(job)
"""


def test_a_fork_that_leaves_the_block_does_not_end_it_for_its_parent(
    home: Path, project: Project
) -> None:
    """A fork has a copy of everything except the threads, so its wait would never end."""
    project.write(
        "author.py",
        f"""{AUTHOR}
with wl.create_experiment("left") as exp:
    trial = exp.add(lasting)
    if os.fork() == 0:
        sys.exit(0)
    _, status = os.wait()
    assert status == 0
    assert exp.add(brief).wait().state == "SUCCEEDED"
    assert not trial.refresh().is_finished
    is_over.set()
assert trial.wait().state == "SUCCEEDED"
""",
    )
    done = project.python("author.py")
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
def test_a_generator_in_a_fork_belongs_to_the_fork(home: Path, project: Project) -> None:
    """If the fork is killed, its trial fails, while its parent continues to build."""
    project.write(
        "author.py",
        f"""{AUTHOR}
with wl.create_experiment("own") as exp:
    mine = exp.add(lasting)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"%d" % exp.add(lasting, name="of the fork").id)
        threading.Event().wait()
    its = wl.get_trial(int(os.read(reader, 20)))
    os.kill(child, {signal.SIGKILL.value})
    os.wait()
    assert its.wait(60).state == "FAILED"
    assert not mine.refresh().is_finished
    is_over.set()
assert mine.wait().state == "SUCCEEDED"
""",
    )
    done = project.python("author.py")
    assert done.returncode == 0, done.stderr
    [trial] = wl.list_trials(name="of the fork")
    assert "ended before the generator was done" in trial.message
