"""`windlass kubernetes manifest` prints the objects of a job without creating them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from harness import BIN, PATIENCE, Project


@pytest.fixture(autouse=True)
def nowhere(fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell without a cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def manifest(project: Project, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "windlass", "kubernetes", "manifest", "job.toml", *options],
        cwd=project.path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_objects_of_a_job_are_printed_without_secrets(project: Project) -> None:
    project.write(
        "job.toml",
        """
        framework = "torch"
        command = ["python", "train.py"]
        replicas = 2
        [executor]
        backend = "kubernetes"
        queue = "team-a"
        accelerator = "gpux2"
        volumes = { "/data" = "claim:datasets:ro" }
        """,
    )
    answer = manifest(project, "--namespace", "lab")
    assert answer.returncode == 0, answer.stderr
    secret, *others = yaml.safe_load_all(answer.stdout)
    assert secret["data"] == {"worker.zip": "...", "agent.json": "..."}
    assert [manifest["kind"] for manifest in others] == ["Service", "Pod", "Service", "Pod"]
    assert {manifest["metadata"]["namespace"] for manifest in others} == {"lab"}
    [container] = others[1]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert others[1]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"


def test_a_local_job_has_no_manifest(project: Project) -> None:
    project.write("job.toml", 'command = ["true"]')
    answer = manifest(project)
    assert answer.returncode != 0
    assert 'executor = { backend = "kubernetes" }' in answer.stderr


def test_a_job_is_refused_without_a_cluster(project: Project) -> None:
    project.write("job.toml", 'command = ["true"]\nexecutor = { backend = "kubernetes" }')
    answer = subprocess.run(
        [BIN / "windlass", "run", "-f", "job.toml"],
        cwd=project.path, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert answer.returncode != 0
    assert "No Kubernetes cluster is configured" in answer.stderr
    assert "wl.TokenAuthentication(" in answer.stderr


def test_two_namespaces_are_refused(project: Project) -> None:
    executor = '{ backend = "kubernetes", namespace = "research" }'
    project.write("job.toml", f'command = ["true"]\nexecutor = {executor}')
    answer = manifest(project, "--namespace", "lab")
    assert answer.returncode == 1
    assert "job.toml has namespace research, but --namespace is lab." in answer.stderr
    assert manifest(project, "--namespace", "research").returncode == 0
