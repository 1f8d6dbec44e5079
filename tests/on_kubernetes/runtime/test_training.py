"""Real PyTorch in pods: processes find each other by name, and resume after a kill."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.kill_container import kill_container
from on_kubernetes.pod_mounts import ROOT, project_environment
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import is_empty, log_lines, pods_of, there

pytestmark = [
    pytest.mark.usefixtures("home_with_cluster"),
    pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed"),
]

STEPS = 16  # of an epoch of the example, in two replicas

# In the first attempt rank 1 stays at the start of the second epoch, where rank 0 waits for it in a
# collective, so that the kill always happens in the middle of training.
TRAIN = """
import os
import signal

import torch_ddp

train_epoch = torch_ddp.train_epoch


def train_first_epoch(model, optimizer, batches, epoch):
    if epoch == 2 and os.environ["RANK"] == "1":
        signal.pause()
    return train_epoch(model, optimizer, batches, epoch)


if os.environ["WINDLASS_ATTEMPT"] == "1":
    torch_ddp.train_epoch = train_first_epoch
torch_ddp.main()
"""


def kill(namespace: Namespace, name: str) -> None:
    """Kill all processes of a pod."""
    [status] = pods_of(namespace)[name].status.container_statuses
    kill_container(status.container_id)


def test_two_pods_train_together_and_resume_from_their_checkpoint_after_a_kill(
    own_cluster: Cluster, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "torch_ddp.py").write_text((ROOT / "examples" / "torch_ddp.py").read_text())
    (project / "train.py").write_text(TRAIN)
    monkeypatch.chdir(project)
    machine = project_environment()
    job = wl.Job(
        wl.Command([sys.executable, "-u", "train.py", "--epochs", "4"]),
        framework="torch",
        replicas=2,
        env=machine.env,
        # As the user of this image: mounts may be accessible only to root.
        executor=there(namespace, container_image=own_cluster.image, volumes=machine.sources),
    )
    trial = job.submit()
    eventually(
        lambda: any(trial.list_checkpoints()) or trial.refresh().is_finished,
        "there is a checkpoint",
        patience=2 * PATIENCE,
    )
    assert not trial.is_finished, log_lines(trial)
    hosts = {replica.address for replica in trial.replicas}
    [second] = [name for name in pods_of(namespace) if name.endswith("-1-1")]
    kill(namespace, second)

    trial.wait(timeout=3 * PATIENCE)
    assert trial.state == "SUCCEEDED", [trial.message, *log_lines(trial)]
    assert trial.restarts == 1
    ends = {(attempt.index, attempt.attempt): attempt.exit_code for attempt in trial.attempts}
    assert (ends[0, 2], ends[1, 1], ends[1, 2]) == (0, 137, 0)
    before, after = log_lines(trial, index=0, attempt=1), log_lines(trial, index=0, attempt=2)
    assert "world size 2, from step 0" in before
    assert f"world size 2, from step {STEPS}" in after
    assert [line.split()[1] for line in after if line.startswith("epoch")] == ["2", "3", "4"]
    assert {replica.address for replica in trial.replicas} == hosts, (
        "they are found where they were"
    )
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
