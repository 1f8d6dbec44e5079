"""Real TensorFlow: MultiWorkerMirroredStrategy, and a parameter server."""

from __future__ import annotations

import re
from pathlib import Path

from required_frameworks import needs

import windlass as wl
from harness import PATIENCE, Project, eventually
from replicas import check_gone, process_of

pytestmark = needs("tensorflow")


def found_trials(experiment: str) -> list[wl.Trial[None]]:
    """The trials of an experiment, which may not exist yet."""
    return list(wl.list_trials(where=f"experiment = '{experiment}'"))


def test_a_chief_and_a_worker_train_synchronously(home: Path, examples: Project) -> None:
    done = examples.python("tf_multiworker.py")
    assert done.returncode == 0, done.stderr
    (trial,) = found_trials("tf_multiworker")
    chief, worker = (
        [str(line) for line in trial.logs(role=role, search="epoch", stream="stdout")]
        for role in ("chief", "worker")
    )
    losses = [float(re.search(r"loss (\S+)  in 2 replicas", line)[1]) for line in chief]
    assert len(losses) == 5
    assert worker[:4] == chief[:4]  # one model; the job may end before a worker prints everything
    assert losses[-1] < losses[0] / 2
    assert f"the chief's loss: {losses[-1]:.4f}" in done.stdout


def test_a_killed_worker_restarts_and_parameter_servers_stop_with_the_chief(
    home: Path, examples: Project, tmp_path: Path
) -> None:
    # The chief waits after its first epoch until the worker was killed.
    gate = tmp_path / "gate"
    examples.write(
        "train.py",
        f"""
        import os
        import time

        import tf_parameter_server


        def lead(epochs):
            import tf_parameter_server as example

            plain_epoch = example.train_epoch

            def train_epoch(coordinator, one_step):
                loss = plain_epoch(coordinator, one_step)
                while not os.path.exists({str(gate)!r}):
                    print("waiting")
                    time.sleep(0.1)
                return loss

            example.train_epoch = train_epoch
            return example.lead(epochs)


        if __name__ == "__main__":
            tf_parameter_server.lead = lead
            tf_parameter_server.main()
        """,
    )
    program = examples.start("train.py")
    eventually(lambda: bool(found_trials("tf_parameter_server")), "the job is submitted")
    (trial,) = found_trials("tf_parameter_server")
    assert any(str(line) == "waiting" for line in trial.logs(follow=True, role="chief"))
    process_of(trial, "worker-0").kill()
    gate.touch()

    printed, complaints = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0, complaints
    assert "y = 3.00 x + 1.00" in printed
    assert "variables on /job:ps/replica:0/task:0" in printed
    trial.wait(timeout=PATIENCE)
    assert (trial.state, trial.restarts) == ("SUCCEEDED", 1)
    assert [replica.attempt for replica in trial.replicas] == [1, 2, 1]  # chief, worker, ps
    check_gone(trial)  # neither the worker nor the parameter server, which would serve forever
