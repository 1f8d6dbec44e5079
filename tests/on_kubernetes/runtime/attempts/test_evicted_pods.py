"""Pods that are evicted or lost with their node: their trials continue in other pods."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trial_functions import leave_in_order
from on_kubernetes.runtime.trials import (
    begun,
    is_empty,
    log_lines,
    pods_of,
    python,
    replica_messages,
    there,
    times_begun,
)
from windlass.runtimes.kubernetes.objects import names as pod_names

pytestmark = pytest.mark.usefixtures("home_with_cluster")


def evict(namespace: Namespace, name: str) -> None:
    """Evict a pod, as a drain of its machine does."""
    body = {
        "apiVersion": "policy/v1beta1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace.name},
    }
    namespace.core.create_namespaced_pod_eviction(name, namespace.name, body)


@pytest.mark.parametrize(
    "code",
    [
        0,
        pytest.param(1, marks=pytest.mark.thorough),
        pytest.param(143, marks=pytest.mark.thorough),
    ],
)
@pytest.mark.waits
def test_an_evicted_pod_resumes_from_its_checkpoint_with_any_exit(
    namespace: Namespace, code: int
) -> None:
    job = wl.Job(
        wl.PythonFunction(leave_in_order),
        args=[code],
        restart_policy="ExitCode",
        executor=there(namespace),
    )
    trial = job.submit()
    eventually(lambda: "waiting" in log_lines(trial), "it is in the middle")
    [(name, pod)] = pods_of(namespace).items()
    assert pod.spec.termination_grace_period_seconds == 60
    evict(namespace, name)
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert trial.result() == 3
    assert log_lines(trial) == ["from 0", "waiting", "taken away", "from 3"]
    first, second = trial.attempts
    assert (first.exit_code, first.reason) == (None, "Evicted"), first
    assert (second.exit_code, trial.restarts) == (0, 1)
    assert [checkpoint.step for checkpoint in trial.list_checkpoints(sort_by="step")] == [
        0,
        1,
        2,
        3,
    ]
    assert [point.step for point in trial.metrics("loss")] == [0, 1, 2, 3]
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


STAY = """if True:
    import pathlib, signal, time
    signal.signal(signal.SIGTERM, lambda *_: None)
    print("begun")
    while not pathlib.Path("/gate/go").exists():
        time.sleep(0.1)
"""


def time_to_end(namespace: Namespace, name: str) -> int | None:
    """The grace period of a pod."""
    pod = namespace.core.read_namespaced_pod(name, namespace.name)
    seconds: int | None = pod.metadata.deletion_grace_period_seconds
    return seconds


@pytest.mark.thorough
def test_a_pod_has_the_requested_grace_period(namespace: Namespace, gate: Gate) -> None:
    patch = {"terminationGracePeriodSeconds": 300}
    executor = there(namespace, volumes=gate.volumes, pod_patch=patch)
    trial = python(STAY, namespace, restart_policy="ExitCode", executor=executor).submit()
    eventually(lambda: log_lines(trial) == ["begun"], "it runs")
    [name] = pods_of(namespace)
    take_labels(namespace, name)  # the server deletes it, and starts another
    eventually(lambda: time_to_end(namespace, name) is not None, "it is asked to end")
    assert time_to_end(namespace, name) == 300
    namespace.core.delete_namespaced_pod(name, namespace.name, grace_period_seconds=0)
    gate.create("go")
    trial.wait(timeout=2 * PATIENCE)
    assert trial.state == "SUCCEEDED", (trial.message, log_lines(trial))
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


@pytest.mark.thorough
def test_two_pods_on_one_host_network_run_one_after_the_other(
    namespace: Namespace, gate: Gate
) -> None:
    executor = there(namespace, volumes=gate.volumes, pod_patch={"hostNetwork": True})
    first = python(STAY, namespace, executor=executor).submit()
    eventually(lambda: log_lines(first) == ["begun"], "it runs")
    second = python(STAY, namespace, executor=executor).submit()
    eventually(lambda: "port" in replica_messages(second), "the reason of its wait is reported")
    gate.create("go")
    for trial in (first, second):
        trial.wait(timeout=2 * PATIENCE)
        assert trial.state == "SUCCEEDED", (trial.message, log_lines(trial))


def take_labels(namespace: Namespace, name: str) -> None:
    """Remove the labels of a running pod."""
    nothing = dict.fromkeys((pod_names.UID, pod_names.HOME, pod_names.TRIAL))
    namespace.core.patch_namespaced_pod(name, namespace.name, {"metadata": {"labels": nothing}})


def take_owner(namespace: Namespace, name: str) -> None:
    """Delete the Secret of a pod's job, and so all objects that it owns."""
    [owner] = pods_of(namespace)[name].metadata.owner_references
    namespace.core.delete_namespaced_secret(owner.name, namespace.name)


@pytest.mark.parametrize("take", [take_labels, take_owner])
@pytest.mark.thorough
def test_a_tampered_pod_costs_one_attempt_and_no_other_runs_beside_it(
    namespace: Namespace, gate: Gate, take: Callable[[Namespace, str], None]
) -> None:
    trial = begun(namespace, gate)
    [name] = pods_of(namespace)
    take(namespace, name)
    eventually(lambda: times_begun(gate, trial) > 1, "it runs again", patience=2 * PATIENCE)
    gate.create("go")
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", (trial.message, log_lines(trial))
    assert (trial.restarts, times_begun(gate, trial)) == (1, 2)
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
