"""TensorFlow for real: in step with MultiWorkerMirroredStrategy, and with a parameter server."""

from __future__ import annotations

import re
from pathlib import Path

from needing import needs

import windlass as wl
from harness import Project
from replicas import check_gone

pytestmark = needs("tensorflow")


def last_trial(experiment: str) -> wl.Trial[None]:
    """The newest trial of an experiment."""
    return wl.get_trial(max(each.id for each in wl.list_trials(experiment=experiment)))


def test_a_chief_and_a_worker_train_in_step(home: Path, examples: Project) -> None:
    done = examples.python("tf_multiworker.py")
    assert done.returncode == 0, done.stderr
    trial = last_trial("tf_multiworker")
    chief, worker = (
        [str(line) for line in trial.logs(role=role, search="epoch", stream="stdout")]
        for role in ("chief", "worker")
    )
    losses = [float(re.search(r"loss (\S+)  in 2 replicas", line)[1]) for line in chief]
    assert len(losses) == 5
    assert worker[:4] == chief[:4]  # one model; the job may be over before a worker says it all
    assert losses[-1] < losses[0] / 2
    assert f"the chief's loss: {losses[-1]:.4f}" in done.stdout


def test_a_parameter_server_serves_and_is_stopped_when_the_chief_is_done(
    home: Path, examples: Project
) -> None:
    done = examples.python("tf_parameter_server.py")
    assert done.returncode == 0, done.stderr
    assert "y = 3.00 x + 1.00" in done.stdout
    assert "variables on /job:ps/replica:0/task:0" in done.stdout
    trial = last_trial("tf_parameter_server")
    assert (trial.state, trial.restarts) == ("SUCCEEDED", 0)
    check_gone(trial)  # neither the worker nor the server is left, which would serve for ever
