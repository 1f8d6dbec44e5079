"""Real PyTorch and TensorFlow in pods of the operator find each other by name."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import PATIENCE, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs, OperatorProcess
from on_kubernetes.pod_mounts import project_environment

# Trains for 6 steps. In the first attempt the worker stays in one of them, where the master waits
# for it in a collective, so that the kill always happens in the middle of training.
_TORCH = """
import os, pathlib, signal, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, saved = dist.get_rank(), pathlib.Path("/saved/step")
begin = int(saved.read_text()) if saved.exists() else 0
weight = torch.tensor([float(begin)])
dist.barrier()
print(f"rank {rank} of {dist.get_world_size()} begins at {begin}", flush=True)
for step in range(begin, 6):
    if step == 3 and rank == 1 and os.environ["WINDLASS_ATTEMPT"] == "1":
        print("stays", flush=True)
        signal.pause()
    gradient = torch.ones(1)
    dist.all_reduce(gradient)
    weight += gradient / dist.get_world_size()
    if rank == 0:
        saved.write_text(str(step + 1))
    dist.barrier()
print(f"rank {rank} ends with {weight.item()}", flush=True)
dist.destroy_process_group()
"""

_COUNT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} counts {one.item():g}", flush=True)
dist.destroy_process_group()
"""

_MEET = """
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
"""

_TENSORFLOW = """
import json, os
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
total = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1)))
said = {
    "cluster": resolver.cluster_spec().as_dict(),
    "task": [resolver.task_type, resolver.task_id],
    "workers": strategy.num_replicas_in_sync,
    "total": int(strategy.experimental_local_results(total)[0]),
}
print("SAID " + json.dumps(said), flush=True)
"""


def _role(jobs: Jobs, number: int, program: str, saved: Path | None = None) -> dict[str, Any]:
    mounts = project_environment()
    places, volumes = list(mounts.places), list(mounts.volumes)
    if saved is not None:
        places.append({"name": "saved", "mountPath": "/saved"})
        volumes.append({"name": "saved", "hostPath": {"path": str(saved)}})
    container = {
        "command": [sys.executable, "-u", "-c", program],
        "volumeMounts": places,
        "env": [{"name": name, "value": value} for name, value in mounts.env.items()],
    }
    return jobs.role(
        number, "", restartPolicy="ExitCode", container=container, pod={"volumes": volumes}
    )


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")
@pytest.mark.thorough
def test_pytorch_in_two_pods_resumes_from_its_checkpoint_after_a_kill(
    own_cluster: Cluster, jobs: Jobs, operator: OperatorProcess, tmp_path: Path
) -> None:
    roles = {
        "Master": _role(jobs, 1, _TORCH, tmp_path),
        "Worker": _role(jobs, 1, _TORCH, tmp_path),
    }
    jobs.create("PyTorchJob", "ddp", **roles)
    eventually(
        lambda: jobs.has_printed("ddp-worker-0", "stays"), "they are at it", patience=2 * PATIENCE
    )
    jobs.kill("ddp-worker-0")
    end = jobs.wait("PyTorchJob", "ddp", "Succeeded", "Failed", patience=2 * PATIENCE)
    assert end["type"] == "Succeeded", end
    assert jobs.attempt("ddp-master-0") == jobs.attempt("ddp-worker-0") == 2
    lines = jobs.logs("ddp-master-0")
    assert "rank 0 of 2 begins at 3" in lines
    assert "rank 0 ends with 6.0" in lines
    events = [event for event in jobs.events("ddp") if "restart 1 of 6" in event]
    assert any("worker-0 (attempt 1)" in event and "137" in event for event in events), events


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")
def test_a_worker_waits_for_a_master_whose_name_does_not_resolve_yet(
    own_cluster: Cluster, jobs: Jobs, operator: OperatorProcess
) -> None:
    """The name has no address before the master's pod has its volumes."""
    master = _role(jobs, 1, _MEET)
    pod = master["template"]["spec"]
    pod["volumes"].append({"name": "late", "secret": {"secretName": "late"}})
    pod["containers"][0]["volumeMounts"].append({"name": "late", "mountPath": "/late"})
    jobs.create("PyTorchJob", "late", Master=master, Worker=_role(jobs, 1, _MEET))
    unknown = "network addresses of (late-master-0"
    eventually(
        lambda: jobs.has_printed("late-worker-0", unknown), "it looks for it", patience=2 * PATIENCE
    )
    path = f"/api/v1/namespaces/{jobs.namespace}/secrets"
    jobs.connection.request("POST", path, {"metadata": {"name": "late"}})
    end = jobs.wait("PyTorchJob", "late", "Succeeded", "Failed", patience=2 * PATIENCE)
    assert end["type"] == "Succeeded", end
    assert jobs.attempt("late-master-0") == jobs.attempt("late-worker-0") == 1


_ELASTIC = {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 2, "rdzvBackend": "c10d"}}


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="PyTorch is not installed")
@pytest.mark.parametrize(
    ("sizes", "spec"),
    [
        ({"Master": 1, "Worker": 1}, {}),
        pytest.param({"Worker": 2}, _ELASTIC, marks=pytest.mark.thorough),
    ],
    ids=["a master and a worker", "elastic workers"],
)
@pytest.mark.thorough
def test_torchrun_in_two_pods_starts_all_processes_of_the_job(
    own_cluster: Cluster, jobs: Jobs, operator: OperatorProcess, tmp_path: Path,
    sizes: dict[str, int], spec: dict[str, Any],
) -> None:  # fmt: skip
    (tmp_path / "count.py").write_text(_COUNT)
    roles = {name: _role(jobs, size, "", tmp_path) for name, size in sizes.items()}
    for role in roles.values():
        torchrun = [sys.executable, "-m", "torch.distributed.run", "/saved/count.py"]
        role["template"]["spec"]["containers"][0]["command"] = torchrun
    jobs.create("PyTorchJob", "run", spec={"nprocPerNode": "2", **spec}, **roles)
    end = jobs.wait("PyTorchJob", "run", "Succeeded", "Failed", patience=2 * PATIENCE)
    assert end["type"] == "Succeeded", end
    names = [f"run-{name.lower()}-{index}" for name, size in sizes.items() for index in range(size)]
    eventually(
        lambda: all(jobs.pods()[name]["status"]["phase"] == "Succeeded" for name in names),
        "all have ended",
    )
    lines = [line for name in names for line in jobs.logs(name).splitlines() if "counts" in line]
    assert sorted(lines) == [f"rank {rank} of 4 counts 4" for rank in range(4)]


@pytest.mark.skipif(
    not importlib.util.find_spec("tensorflow"), reason="TensorFlow is not installed"
)
@pytest.mark.thorough
def test_tensorflow_in_pods_reads_tf_config(
    own_cluster: Cluster, jobs: Jobs, operator: OperatorProcess
) -> None:
    roles = {"Chief": _role(jobs, 1, _TENSORFLOW), "Worker": _role(jobs, 1, _TENSORFLOW)}
    jobs.create("TFJob", "mirrored", **roles)
    assert jobs.ended("TFJob", "mirrored")["type"] == "Succeeded"
    record = json.loads(jobs.logs("mirrored-chief-0").partition("SAID ")[2].splitlines()[0])
    host = f"{{}}.{jobs.namespace}.svc:2222"
    assert record["cluster"] == {
        "chief": [host.format("mirrored-chief-0")],
        "worker": [host.format("mirrored-worker-0")],
    }
    assert record["task"] == ["chief", 0]
    assert (record["workers"], record["total"]) == (2, 2)
