"""Reasons why a trial in pods does not start, with remedies for the user."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

import windlass as wl
from harness import BIN, PATIENCE, eventually, windlass
from on_kubernetes.cluster.locations import PAUSE_IMAGE
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import is_empty, python, there
from server_with_faults import rigged
from windlass.client.client import default_client
from windlass.client.terminal.status_line import status_text

pytestmark = pytest.mark.usefixtures("home_with_cluster")

SOON = 60.0  # seconds since its submission; usually five

CRASHING = ["sh", "-c", "(echo reading the licence; echo no licence left) >&2; exit 3"]
# The problem of each trial, its message, and its remedy.
TOLD: dict[str, tuple[dict[str, Any], str, str]] = {
    "secret": (
        {"volumes": {"/data": "secret:none"}},
        "There is no secret none in namespace {namespace}.",
        "Create it: kubectl -n {namespace} create secret generic none",
    ),
    "config": (
        {"volumes": {"/data": "config:none"}},
        "There is no config map none in namespace {namespace}.",
        "Create it: kubectl -n {namespace} create configmap none",
    ),
    "claim": (
        {"volumes": {"/data": "claim:none"}},
        "There is no volume claim none in namespace {namespace}.",
        "kubectl -n {namespace} get pvc",
    ),
    "image": (
        {"container_image": "127.0.0.1:9/lab/train:7"},
        "The registry of 127.0.0.1:9/lab/train:7 does not answer the cluster's machines.",
        "Check their network access. Kubernetes tries again.",
    ),
    "machine": (
        {"node_selector": {"planet": "x"}},
        "the requested labels (planet=x).",
        "kubectl get nodes --show-labels",
    ),
}
# These have ended when the message appears.
FAILED: dict[str, tuple[dict[str, Any], str, str]] = {
    "python": (
        {"container_image": PAUSE_IMAGE},
        f"The image {PAUSE_IMAGE} has no python3, which Windlass needs to start programs.",
        "Use an image with Python 3.9 or newer",
    ),
    "processor": (
        {
            "volumes": {"/opt/program": "config:program"},
            "pod_patch": {
                "containers": [{"name": "main", "command": ["/opt/program/program"]}],
                "volumes": [
                    {"name": "volume-0", "configMap": {"name": "program", "defaultMode": 0o755}}
                ],
            },
        },
        "is built for another processor architecture than that of its machine.",
        "docker buildx build --platform",
    ),
    "crash": (
        {"pod_patch": {"containers": [{"name": "main", "command": CRASHING}]}},
        "its container ended with exit code 3 before its program started",
        "reading the licence no licence left",
    ),
}


def test_the_reason_why_a_trial_does_not_start_is_reported_soon_with_a_remedy(
    own_cluster: Cluster, namespace: Namespace
) -> None:
    """All at once, with the quota last, because it admits no more pods."""
    program = {"metadata": {"name": "program"}, "binaryData": {"program": "f0VMRgAAAAAAAAAAAAAA"}}
    namespace.core.create_namespaced_config_map(namespace.name, program)
    trials, since = {}, {}
    for name, (options, _, _) in (TOLD | FAILED).items():
        since[name] = time.time()
        trials[name] = python("", namespace, executor=there(namespace, **options)).submit()
    eventually(lambda: all(map(has_pod, trials.values())), "each has its pod")
    have_quota(namespace)
    since["quota"] = time.time()
    trials["quota"] = python("", namespace).submit()
    quota = (
        {},
        "The quota team of the namespace is exceeded: requested pods=1, ",
        "kubectl -n {namespace} describe resourcequota team",
    )
    expected = {**TOLD, **FAILED, "quota": quota}
    took: dict[str, float] = {}

    def are_reported() -> bool:
        for name, (_, sentence, remedy) in expected.items():
            line = status_line(trials[name])
            is_reported = all(
                part.format(namespace=namespace.name) in line for part in (sentence, remedy)
            )
            if name not in took and is_reported:
                took[name] = time.time() - since[name]
        return set(took) == set(expected)

    try:
        eventually(are_reported, "each gets the reason and the next step")
    except AssertionError:
        left = {name: status_line(trials[name]) for name in expected if name not in took}
        pytest.fail(f"not told: {left}; told after {took}")
    assert max(took.values()) < SOON, took
    for name in FAILED:
        trials[name].wait(timeout=PATIENCE)
        assert trials[name].state == "FAILED"
    for name in (*TOLD, "quota"):
        assert trials[name].refresh().state == "STARTING"
        trials[name].stop(grace=0)
    for name in (*TOLD, "quota"):
        assert trials[name].wait(timeout=PATIENCE).state == "STOPPED"
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def status_line(trial: wl.Trial[Any]) -> str:
    """The status line of a terminal that is wide enough."""
    return status_text(trial.refresh().record)


def has_pod(trial: wl.Trial[Any]) -> bool:
    """Return whether a pod was created for it. The pod may be gone by now."""
    return any(replica.pod is not None for replica in trial.refresh().replicas)


def have_quota(namespace: Namespace) -> None:
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "0"}}}
    namespace.core.create_namespaced_resource_quota(namespace.name, quota)

    def is_known() -> bool:
        quota_object = namespace.core.read_namespaced_resource_quota("team", namespace.name)
        return bool(quota_object.status.hard)

    eventually(is_known, "the quota is known")


def test_a_command_without_a_terminal_prints_the_reason_in_one_line(
    namespace: Namespace, tmp_path: Path
) -> None:
    job = tmp_path / "job.toml"
    executor = f'backend = "kubernetes", namespace = "{namespace.name}", cpus = 0.05'
    job.write_text(f'command = ["true"]\nexecutor = {{ {executor} }}\n')
    have_quota(namespace)
    words = [str(BIN / "windlass"), "run", "--file", str(job)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as command:
        try:
            assert command.stderr is not None
            quota_line = next(line for line in command.stderr if "The quota team" in line)
            default_client().get_trial(1).stop(grace=0)
            assert command.wait(PATIENCE) != 0
        finally:
            command.kill()
    assert "Trial 1 (true) starting: The quota team of the namespace is exceeded" in quota_line
    assert f"kubectl -n {namespace.name} describe resourcequota team" in quota_line


@pytest.mark.waits
def test_waiting_for_a_machine_does_not_count_and_the_reason_is_kept(
    namespace: Namespace,
) -> None:
    """A trial with a machine has started, and may time out before its program starts."""
    nowhere = there(namespace, node_selector={"planet": "x"})
    waiting = python("", namespace, executor=nowhere, active_deadline="2s").submit()
    unheard_of = there(namespace, container_image="127.0.0.1:9/lab/train:7")
    late = python("", namespace, executor=unheard_of, active_deadline="25s").submit()
    with pytest.raises(wl.TrialFailed) as caught:
        late.result(timeout=PATIENCE)
    why = "The registry of 127.0.0.1:9/lab/train:7 does not answer the cluster's machines."
    assert f"ran out of time (deadline 25s) before it began: {why}" in str(caught.value)
    assert waiting.refresh().state == "STARTING", "its 2s have not begun"
    waiting.stop(grace=0).wait(timeout=PATIENCE)
    shown = windlass("show", waiting.id).stdout
    assert "stopped before it was started: " in shown
    assert "the requested labels (planet=x)." in shown


@pytest.mark.thorough
def test_pods_are_created_and_ended_while_a_cluster_explains_others_slowly(
    home_with_cluster: Path, namespace: Namespace, tmp_path: Path
) -> None:
    folders = [tmp_path / f"held-{number}" for number in range(4)]
    for folder in folders:
        folder.mkdir()
    with rigged(home_with_cluster, ";".join(f"hold:GET:events:{folder}" for folder in folders)):
        executor = there(namespace, volumes={"/data": "secret:none"})
        waiting = [python("", namespace, executor=executor).submit() for _ in range(5)]
        eventually(lambda: any((folder / "held").exists() for folder in folders), "it is asked")
        trial = python("print('made')", namespace).submit().wait(timeout=PATIENCE)
        assert trial.state == "SUCCEEDED", trial.message
        for waiting_trial in waiting:
            waiting_trial.stop(grace=0)
        eventually(lambda: is_empty(namespace), "all of them are ended")
        assert not any((folder / "done").exists() for folder in folders), "there was no answer yet"
        for folder in folders:
            (folder / "go").touch()


@pytest.fixture
def urgent(admin: client.ApiClient, namespace: Namespace) -> Iterator[str]:
    """A priority class of one test."""
    api = client.SchedulingV1Api(admin)
    api.create_priority_class({"metadata": {"name": namespace.name}, "value": 7})
    yield namespace.name
    api.delete_priority_class(namespace.name)


def test_a_missing_account_or_priority_class_is_refused_before_anything_is_created(
    namespace: Namespace, urgent: str
) -> None:
    with pytest.raises(wl.KubernetesError) as caught:
        python("", namespace, executor=there(namespace, service_account="trainer")).submit()
    assert f"There is no service account trainer in namespace {namespace.name}." in str(
        caught.value
    )
    assert f"kubectl -n {namespace.name} create serviceaccount trainer" in str(caught.value)
    with pytest.raises(wl.KubernetesError) as caught:
        python("", namespace, executor=there(namespace, priority_class="no-such-class")).submit()
    assert "There is no priority class no-such-class in the cluster." in str(caught.value)
    assert "kubectl get priorityclasses" in str(caught.value)
    assert is_empty(namespace) and not list(default_client().list_trials())

    namespace.core.create_namespaced_service_account(
        namespace.name, {"metadata": {"name": "trainer"}}
    )

    def is_taken() -> bool:
        # In older clusters an account exists before its token.
        executor = there(namespace, service_account="trainer", priority_class=urgent)
        try:
            trial = python("print('in')", namespace, executor=executor).submit()
        except wl.KubernetesError as error:
            assert "priority class" in str(error) or "service account" in str(error)
            return False
        trial.wait(timeout=PATIENCE)
        return trial.state == "SUCCEEDED"

    eventually(is_taken, "what there is is taken")


@pytest.mark.thorough
def test_an_account_deleted_after_the_submission_is_reported_and_awaited(
    namespace: Namespace,
) -> None:
    core, account = namespace.core, {"metadata": {"name": "trainer"}}
    core.create_namespaced_service_account(namespace.name, account)
    executor = there(namespace, service_account="trainer")
    trial = python("print('at last')", namespace, executor=executor, suspend=True).submit()
    core.delete_namespaced_service_account("trainer", namespace.name)
    trial.resume()
    sentence = f"There is no service account trainer in namespace {namespace.name}."
    remedy = f"kubectl -n {namespace.name} create serviceaccount trainer"
    eventually(lambda: f"{sentence} " in status_line(trial), "it is reported")
    assert remedy in status_line(trial)
    core.create_namespaced_service_account(namespace.name, account)
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
