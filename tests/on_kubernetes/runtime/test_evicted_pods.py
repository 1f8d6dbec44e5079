"""Pods that are taken away: evicted, or with their node. What they were goes on in others."""

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
    pods_of,
    python,
    said,
    there,
    times_begun,
    what_is_said_of,
)
from windlass.runtimes.kubernetes import names as pod_names

pytestmark = pytest.mark.usefixtures("home_with_cluster")


def evict(namespace: Namespace, name: str) -> None:
    """Have a pod go as a machine's drain has it."""
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
def test_one_that_is_evicted_goes_on_from_what_it_saved_however_it_left(
    namespace: Namespace, code: int
) -> None:
    job = wl.Job(
        wl.PythonFunction(leave_in_order),
        args=[code],
        restart_policy="ExitCode",
        executor=there(namespace),
    )
    trial = job.submit()
    eventually(lambda: "waiting" in said(trial), "it is in the middle")
    [(name, pod)] = pods_of(namespace).items()
    assert pod.spec.termination_grace_period_seconds == 60
    evict(namespace, name)
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert trial.result() == 3
    assert said(trial) == ["from 0", "waiting", "taken away", "from 3"]
    first, second = trial.attempts
    assert (first.exit_code, first.reason) == (None, "Evicted"), first
    assert (second.exit_code, trial.restarts) == (0, 1)
    assert [each.step for each in trial.list_checkpoints(sort_by="step")] == [0, 1, 2, 3]
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
    """The seconds that a pod has, once it is to go."""
    pod = namespace.core.read_namespaced_pod(name, namespace.name)
    seconds: int | None = pod.metadata.deletion_grace_period_seconds
    return seconds


@pytest.mark.thorough
def test_a_pod_has_the_time_to_end_that_was_asked_for_it(namespace: Namespace, gate: Gate) -> None:
    patch = {"terminationGracePeriodSeconds": 300}
    executor = there(namespace, volumes=gate.volumes, pod_patch=patch)
    trial = python(STAY, namespace, restart_policy="ExitCode", executor=executor).submit()
    eventually(lambda: said(trial) == ["begun"], "it runs")
    [name] = pods_of(namespace)
    take_labels(namespace, name)  # the server has it go, and begins another
    eventually(lambda: time_to_end(namespace, name) is not None, "it is told to end")
    assert time_to_end(namespace, name) == 300
    namespace.core.delete_namespaced_pod(name, namespace.name, grace_period_seconds=0)
    gate.tell("go")
    trial.wait(timeout=2 * PATIENCE)
    assert trial.state == "SUCCEEDED", (trial.message, said(trial))
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


@pytest.mark.thorough
def test_two_on_the_network_of_one_machine_run_one_after_the_other(
    namespace: Namespace, gate: Gate
) -> None:
    executor = there(namespace, volumes=gate.volumes, pod_patch={"hostNetwork": True})
    first = python(STAY, namespace, executor=executor).submit()
    eventually(lambda: said(first) == ["begun"], "it runs")
    second = python(STAY, namespace, executor=executor).submit()
    eventually(lambda: "port" in what_is_said_of(second), "what it waits for is told")
    gate.tell("go")
    for trial in (first, second):
        trial.wait(timeout=2 * PATIENCE)
        assert trial.state == "SUCCEEDED", (trial.message, said(trial))


def take_labels(namespace: Namespace, name: str) -> None:
    """Have a pod be nobody's as far as labels tell, while it runs on."""
    nothing = dict.fromkeys((pod_names.UID, pod_names.HOME, pod_names.TRIAL))
    namespace.core.patch_namespaced_pod(name, namespace.name, {"metadata": {"labels": nothing}})


def take_owner(namespace: Namespace, name: str) -> None:
    """Have the Secret of a pod's job go, and with it all that it owns."""
    [owner] = pods_of(namespace)[name].metadata.owner_references
    namespace.core.delete_namespaced_secret(owner.name, namespace.name)


@pytest.mark.parametrize("take", [take_labels, take_owner])
@pytest.mark.thorough
def test_what_somebody_took_from_a_pod_costs_one_attempt_and_none_runs_beside_it(
    namespace: Namespace, gate: Gate, take: Callable[[Namespace, str], None]
) -> None:
    trial = begun(namespace, gate)
    [name] = pods_of(namespace)
    take(namespace, name)
    eventually(lambda: times_begun(gate, trial) > 1, "it runs again", patience=2 * PATIENCE)
    gate.tell("go")
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", (trial.message, said(trial))
    assert (trial.restarts, times_begun(gate, trial)) == (1, 2)
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
