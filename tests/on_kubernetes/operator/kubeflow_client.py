"""Kubeflow's own client in a separate environment, because it needs an older Kubernetes client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs

CLIENT = "kubeflow-training==1.9.4"
SCRIPT = Path(__file__).with_name("kubeflow_script.py")


def have_python() -> Path:
    """An interpreter with the client. If it cannot be installed, the test is skipped."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folder = Path(cache, "windlass", "kubeflow-client", version)
    python = folder / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    if not python.exists():
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True)
    done = subprocess.run(
        [uv, "pip", "install", "-q", "--python", python, CLIENT], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"{CLIENT} cannot be installed: {done.stderr.strip()[-300:]}")
    return python


def check_client(
    python: Path, cluster: Cluster, jobs: Jobs, kind: str, *, refuses: bool = True
) -> None:
    """Check that the client creates a job, waits for it, reads its data, and deletes it.

    The job of another controller is left to it. With `refuses`, the definitions refuse the job of
    a controller that nobody knows; Kubeflow's own definitions leave that to a webhook.
    """
    done = subprocess.run(
        [python, SCRIPT, jobs.namespace, cluster.image, kind],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.partition("SEEN ")[2])
    leader = "mnist-master-0" if kind == "PyTorchJob" else "mnist-chief-0"
    workers = ["mnist-worker-0", "mnist-worker-1"]
    assert (seen["succeeded"], seen["failed"], seen["created"]) == (True, False, True)
    assert seen["conditions"][-1] == "Succeeded"
    assert seen["completion"] != "None"
    assert (seen["pods"], seen["workers"]) == (sorted([leader, *workers]), workers)
    rank = "0" if kind == "PyTorchJob" else "?"
    assert seen["logs"] == {leader: f"rank {rank} done\n"}
    assert sorted(seen["all_logs"]) == sorted([leader, *workers])
    assert f"{kind.lower()}/mnist" in seen["events"]
    assert seen["elsewhere"] == "None"
    if refuses:
        assert seen["jobs"] == ["elsewhere", "mnist"]
        assert f"Failed to create {kind}: {jobs.namespace}/unknown" in seen["refusal"]
        assert "spec.runPolicy.managedBy: Unsupported value" in seen["refusal"]
    else:
        assert (seen["jobs"], seen["refusal"]) == (["elsewhere", "mnist", "unknown"], "")
    eventually(lambda: jobs.get(kind, "mnist") is None, "it is deleted")
    jobs.wait_nothing_left()
