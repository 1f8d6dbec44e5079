"""Trials without a named experiment belong to the project of their code's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import windlass as wl
from harness import Project, windlass

pytestmark = pytest.mark.finding("U10")

SOURCE = """
import sys
import windlass as wl

@wl.run
def train(x):
    return 1 / x

train.submit(int(sys.argv[1])).wait()
train.options(experiment="named").submit(1).wait()
wl.Job(wl.PythonScript("other.py")).submit().wait()
"""


def test_functions_of_one_name_in_two_projects_have_their_own_experiments(
    fresh_home: Path, tmp_path: Path
) -> None:
    for name, argument in (("vision", "0"), ("speech", "1")):
        project = Project(tmp_path / name)
        project.write("main.py", SOURCE)
        project.write("other.py", "print(1)")
        done = project.python("main.py", argument)
        assert done.returncode == 0, done.stderr
    listed = {(exp.project, exp.name): exp.states for exp in wl.list_experiments()}
    assert listed == {
        ("vision", "train"): {"FAILED": 1},
        ("vision", "other"): {"SUCCEEDED": 1},
        ("default", "named"): {"SUCCEEDED": 2},
        ("speech", "train"): {"SUCCEEDED": 1},
        ("speech", "other"): {"SUCCEEDED": 1},
    }
    table = windlass("ls", "--experiments").stdout
    assert "vision/train" in table
    assert "1 failed" in table
    train = wl.get_experiment("speech/train")
    assert repr(train) == f"<Experiment {train.id} train: 1 trial (1 succeeded)>"
    title = windlass("show", "-e", wl.get_experiment("named").id).stdout.splitlines()[0]
    assert title.endswith("named  2 succeeded")
    failed = wl.get_experiment("train", project="vision")
    [trial] = failed.list_trials()
    assert "train (project vision)" in windlass("show", trial.id).stdout
    again = trial.rerun()
    assert (again.wait().state, again.experiment_id) == ("FAILED", failed.id)
