"""Job records: a home's knowledge about its objects in clusters, and its lifetime."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from on_kubernetes.runtime.trials import (
    claims_of,
    is_empty,
    log_lines,
    python,
    replica_messages,
    restart,
)
from windlass.kube.api.connection import connect
from windlass.model.job import Assignment, Job, JobSpec, ProcessCall, Role
from windlass.model.kubernetes.job_options import KubernetesOptions
from windlass.model.status import ReplicaId
from windlass.runtimes import paths, remote_attempt
from windlass.runtimes.kubernetes.job_records import JobRecords
from windlass.runtimes.kubernetes.objects.manifests import JobRecord, job_record
from windlass.runtimes.kubernetes.runtime import KubernetesRuntime
from windlass.runtimes.kubernetes.server_context import KubernetesContext

FIRST = ReplicaId("main", 0, 1)
ELSEWHERE = "https://elsewhere.invalid:6443 0123456789abcdef"


@pytest.fixture
def no_secrets(namespace: Namespace) -> Iterator[None]:
    """A namespace that refuses Secrets, and so the first object of a trial."""
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"count/secrets": "0"}}}
    namespace.core.create_namespaced_resource_quota(namespace.name, quota)

    def is_in_force() -> bool:
        wanted = {"metadata": {"generateName": "trial-"}}
        try:
            namespace.core.create_namespaced_secret(namespace.name, wanted, dry_run="All")
        except client.ApiException as error:
            return bool(error.status == 403)
        return False

    eventually(is_in_force, "the quota is in force")
    yield


def begun_nowhere(namespace: Namespace) -> wl.Trial[Any]:
    """A trial without any created object."""
    trial = python("print('at last')", namespace).submit()
    eventually(lambda: "The quota team" in replica_messages(trial), "it is refused")
    return trial


@pytest.mark.usefixtures("no_secrets")
def test_a_trial_without_objects_starts_in_the_current_cluster(
    proxy: Proxy, home_with_cluster: Path, namespace: Namespace, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    trial = begun_nowhere(namespace)
    namespace.core.delete_namespaced_resource_quota("team", namespace.name)
    again = restart(home_with_cluster, monkeypatch, proxy.kubeconfig(tmp_path))
    ended = again.get_trial(trial.id).wait(timeout=PATIENCE)
    assert (ended.state, log_lines(ended)) == ("SUCCEEDED", ["at last"]), ended.message
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
    eventually(lambda: not claims_of(home_with_cluster), "nor in the home")


@pytest.mark.usefixtures("no_secrets")
@pytest.mark.thorough
def test_a_trial_without_objects_ends_without_a_cluster(
    home_with_cluster: Path, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = begun_nowhere(namespace)
    assert claims_of(home_with_cluster)
    again = restart(home_with_cluster, monkeypatch, tmp_path / "no-such-file")
    ended = again.get_trial(trial.id).stop().wait(timeout=PATIENCE)
    assert ended.state == "STOPPED"
    eventually(lambda: not claims_of(home_with_cluster), "there is nothing to remember")


def a_job(namespace: Namespace, number: int) -> Job:
    options = KubernetesOptions(namespace=namespace.name)
    role = Role(executable=ProcessCall(argv=("true",)), kubernetes=options)
    spec = JobSpec(roles=(role,), backend="kubernetes")
    return Job(uid=f"{number:032x}", trial_id=number, spec=spec, name="any")


@pytest.mark.parametrize("is_elsewhere", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_the_namespace_of_a_job_of_another_cluster_is_not_watched(
    is_elsewhere: bool, cluster: Cluster, namespace: Namespace, tmp_path: Path
) -> None:
    around = surroundings(cluster.kubeconfig)
    place = ELSEWHERE if is_elsewhere else around.connect().address
    job = a_job(namespace, 1)
    folder = had_a_pod(tmp_path, job, namespace, place)
    (folder / paths.STATE).write_text(json.dumps({"stage": "running", "started": 1.0}))
    runtime, is_notified = KubernetesRuntime(tmp_path, around), threading.Event()
    runtime.watch(lambda _uid: is_notified.set())
    runtime.adopt([job])

    def is_judged() -> bool:
        [seen] = runtime.list(job)
        return (
            "https://elsewhere.invalid" in seen.message if is_elsewhere else seen.reason == "Lost"
        )

    try:
        eventually(is_judged, "its cluster and its state are known")
        assert is_notified.is_set(), "waiting clients are notified"
        assert (f"watch-pods-{namespace.name}" in names_of_threads()) is not is_elsewhere
    finally:
        runtime.close()


@pytest.mark.thorough
def test_a_client_that_waits_for_a_silent_cluster_gets_the_reason(
    proxy: Proxy, namespace: Namespace, tmp_path: Path
) -> None:
    """If the namespace was not watched before, it is from now on."""
    around, job = surroundings(proxy.kubeconfig(tmp_path)), a_job(namespace, 1)
    had_a_pod(tmp_path, job, namespace, around.connect().address)
    runtime, is_notified = KubernetesRuntime(tmp_path, around), threading.Event()
    runtime.watch(lambda _uid: is_notified.set())
    proxy.hold()
    try:
        runtime.delete(job, FIRST, 0.0)
        assert is_notified.wait(PATIENCE), "there is something to see"
        [seen] = runtime.list(job)
        assert "cannot be reached" in seen.message and "windlass stop --force 1" in seen.message
    finally:
        proxy.go_on()
        runtime.close()


def surroundings(kubeconfig: Path) -> KubernetesContext:
    return KubernetesContext(
        connect=lambda: connect(config_file=str(kubeconfig)),
        worker=lambda: b"",
        token_for=lambda uid: uid,
        urls=list,
        url=lambda: "http://nobody.invalid",
    )


def had_a_pod(home: Path, job: Job, namespace: Namespace, place: str) -> Path:
    """Record a pod of a job in a home, and return the folder of its attempt."""
    kept_record = JobRecord(
        **{**fields_of(job_record(job, namespace.name, "me", place)), "is_begun": True}
    )
    JobRecords(home).keep(kept_record)
    folder = remote_attempt.ask_for(home, job, FIRST, Assignment())
    (folder / "pod.json").write_text(json.dumps({"name": "a-pod", "uid": "a-uid"}))
    return folder


def fields_of(claim: JobRecord) -> dict[str, Any]:
    return {name: getattr(claim, name) for name in JobRecord.__struct_fields__}


def names_of_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]
