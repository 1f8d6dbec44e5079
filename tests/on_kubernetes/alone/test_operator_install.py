"""`windlass operator install`, and the namespaces that an operator manages."""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from harness import BIN, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs, operating
from windlass.kube.api.resource_kinds import Object
from windlass.model.errors import KubernetesError
from windlass.operator.install_crds import DEFINITIONS, definitions, install

NAMES = [str(definition["metadata"]["name"]) for definition in definitions()]


def command(cluster: Cluster, *words: str) -> str:
    """Run `windlass operator install` and return its output."""
    return outcome(begun(cluster, *words))


def begun(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    """Start `windlass operator install` without waiting for it."""
    return subprocess.Popen(
        [BIN / "windlass", "operator", "install", *words],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def outcome(process: subprocess.Popen[str]) -> str:
    with process:
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output


def expected_output(what: str) -> str:
    return "".join(f"{name}: {what}\n" for name in NAMES)


@pytest.fixture
def changing(alone: Cluster, jobs: Jobs) -> Iterator[Cluster]:
    """The cluster, with changeable definitions. Windlass's definitions are restored afterwards."""
    yield alone
    install(jobs.connection, replace=True)


def test_definitions_are_installed_once(changing: Cluster, jobs: Jobs) -> None:
    _remove_all(jobs)
    assert command(changing) == expected_output("created")
    # At once: the command returns when they can be used.
    jobs.create("TFJob", "first", Worker=jobs.role(1, "pass"))
    jobs.create("PyTorchJob", "second", Master=jobs.role(1, "pass"))
    versions = [_version(jobs, name) for name in NAMES]
    assert command(changing) == expected_output("unchanged")
    assert [_version(jobs, name) for name in NAMES] == versions
    with operating(changing, "--namespace", jobs.namespace, "--alone"):
        assert jobs.ended("TFJob", "first")["type"] == "Succeeded"
        assert jobs.ended("PyTorchJob", "second")["type"] == "Succeeded"


def test_several_commands_can_install_at_once(changing: Cluster, jobs: Jobs) -> None:
    _remove_all(jobs)
    outputs = [outcome(process) for process in [begun(changing) for _ in range(4)]]
    lines = sorted(line for output in outputs for line in output.splitlines())
    once = [f"{name}: created" for name in NAMES]
    assert lines == sorted(once + [f"{name}: unchanged" for name in NAMES] * 3)


@pytest.mark.thorough
def test_definitions_that_are_being_deleted_are_installed_after_their_deletion(
    changing: Cluster, jobs: Jobs
) -> None:
    """They are deleted with the last of their jobs, and one job has a finalizer."""
    body = jobs.body("TFJob", "held", Worker=jobs.role(1, "pass"))
    body["metadata"]["finalizers"] = ["tests.windlass/held"]
    path = f"/apis/kubeflow.org/v1/namespaces/{jobs.namespace}/tfjobs"
    jobs.connection.request("POST", path, body)
    jobs.connection.request("DELETE", DEFINITIONS.path(name="tfjobs.kubeflow.org"), {})
    process = begun(changing)
    eventually(lambda: _is_going(jobs, "tfjobs.kubeflow.org"), "it is about to go")
    release = {"metadata": {"finalizers": None}}
    jobs.connection.request(
        "PATCH", f"{path}/held", release, content_type="application/merge-patch+json"
    )
    assert outcome(process).splitlines()[0] == "tfjobs.kubeflow.org: created"
    jobs.create("TFJob", "next", Worker=jobs.role(1, "pass"))


def test_older_windlass_definitions_are_updated_while_jobs_run(
    changing: Cluster, jobs: Jobs
) -> None:
    """The older definitions did not have `managedBy`, and dropped it."""
    for definition in definitions():
        _define(jobs, _without_managed_by(definition))
    managed = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}
    eventually(lambda: not _keeps(jobs, managed), "the older definition is in force")
    with operating(changing, "--namespace", jobs.namespace, "--alone"):
        wait = "import time; time.sleep(5)"
        jobs.create("TFJob", "train", Worker=jobs.role(2, wait))
        jobs.wait("TFJob", "train", "Running")
        assert command(changing) == expected_output("updated")
        eventually(lambda: _keeps(jobs, managed), "the newer definition is in force")
        assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
        assert jobs.attempt("train-worker-0") == 1
    assert command(changing) == expected_output("unchanged")


def test_definitions_of_others_are_kept_unless_forced(changing: Cluster, jobs: Jobs) -> None:
    for definition in definitions():
        theirs = _without_managed_by(definition)
        theirs["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "another"}
        _define(jobs, theirs)
    versions = [_version(jobs, name) for name in NAMES]
    assert command(changing) == expected_output("unchanged: it belongs to another operator")
    assert [_version(jobs, name) for name in NAMES] == versions
    assert command(changing, "--replace") == expected_output("updated")
    assert command(changing) == expected_output("unchanged")


def test_without_a_namespace_all_namespaces_are_managed(
    alone: Cluster, jobs: Jobs, others: list[Jobs]
) -> None:
    everywhere = [jobs, *others]
    with operating(alone, "--lease-namespace", jobs.namespace) as process:
        process.wait_leading()
        assert "Managing the jobs of all namespaces" in process.output
        for namespace_jobs in everywhere:  # the same name: the namespace distinguishes jobs
            namespace_jobs.create("TFJob", "train", Worker=namespace_jobs.role(2, "pass"))
        for namespace_jobs in everywhere:
            assert namespace_jobs.ended("TFJob", "train")["type"] == "Succeeded"
            assert set(namespace_jobs.pods()) == {"train-worker-0", "train-worker-1"}
        name = "windlass_operator_jobs_succeeded_total"
        for namespace_jobs in everywhere:
            assert process.metric(name, namespace=namespace_jobs.namespace, kind="TFJob") == 1


def _remove_all(jobs: Jobs) -> None:
    for name in NAMES:
        jobs.connection.request("DELETE", DEFINITIONS.path(name=name), {})
    eventually(lambda: not any(_there(jobs, name) for name in NAMES), "they are gone")


def _is_going(jobs: Jobs, name: str) -> bool:
    return "deletionTimestamp" in (_there(jobs, name) or {})["metadata"]


def _there(jobs: Jobs, name: str) -> Object | None:
    try:
        definition: Object = jobs.connection.request("GET", DEFINITIONS.path(name=name))
    except KubernetesError as error:
        if error.status != 404:
            raise
        return None
    return definition


def _version(jobs: Jobs, name: str) -> str:
    """A value that changes with every write."""
    return str((_there(jobs, name) or {})["metadata"]["resourceVersion"])


def _define(jobs: Jobs, definition: Object) -> None:
    name = definition["metadata"]["name"]
    version = (_there(jobs, name) or {})["metadata"]["resourceVersion"]
    body = {**definition, "metadata": {**definition["metadata"], "resourceVersion": version}}
    jobs.connection.request("PUT", DEFINITIONS.path(name=name), body)


def _without_managed_by(definition: Object) -> Object:
    older = copy.deepcopy(definition)
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["runPolicy"]["properties"]["managedBy"]
    return older


def _keeps(jobs: Jobs, spec: dict[str, Any]) -> bool:
    """Return whether a field of a job is kept."""
    body = jobs.body("TFJob", "probe", spec=spec, Worker=jobs.role(1, "pass"))
    path = f"/apis/kubeflow.org/v1/namespaces/{jobs.namespace}/tfjobs"
    made = jobs.connection.request("POST", path, body, query={"dryRun": "All"})
    return spec["runPolicy"].items() <= made["spec"]["runPolicy"].items()
