"""A server that restarts with another cluster, and with the first one at another address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from harness import PATIENCE, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import Gate
from on_kubernetes.other_cluster import OtherCluster
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from on_kubernetes.runtime.trials import (
    begun,
    is_empty,
    log_lines,
    pods_of,
    python,
    replica_messages,
    restart,
    times_begun,
)
from on_kubernetes.throttling_proxy import Turnstile


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.thorough)])
def other_cluster(
    request: pytest.FixtureRequest, own_cluster: Cluster, namespace: Namespace,
    turnstile: Turnstile, tmp_path: Path,
) -> Iterator[Path]:  # fmt: skip
    """The kubeconfig of another cluster, with a namespace of the same name.

    A stand-in is the same cluster at another address, which hides the earlier Secrets of the
    namespace.
    """
    if request.param == "stand-in":
        yield turnstile.kubeconfig(tmp_path)
        return
    other = OtherCluster(98)
    other.command("up")
    core = client.CoreV1Api(config.new_client_from_config(config_file=str(other.kubeconfig)))
    core.create_namespace({"metadata": {"name": namespace.name}})
    yield other.kubeconfig
    other.command("down")


def hide_secrets(turnstile: Turnstile, namespace: Namespace) -> None:
    """Hide all existing Secrets in the stand-in."""
    names = [
        secret.metadata.name
        for secret in namespace.core.list_namespaced_secret(namespace.name).items
    ]
    turnstile.refuse(
        lambda request: any(request.path.endswith(f"/secrets/{name}") for name in names), status=404
    )


@pytest.mark.waits
def test_pods_of_another_cluster_are_not_taken_for_lost(
    home_with_cluster: Path, cluster: Cluster, other_cluster: Path, turnstile: Turnstile,
    namespace: Namespace, gate: Gate, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ids = [begun(namespace, gate).id for _ in range(3)]
    hide_secrets(turnstile, namespace)
    running = {name: pod.metadata.uid for name, pod in pods_of(namespace).items()}
    client = restart(home_with_cluster, monkeypatch, other_cluster)
    kept, ended, paused = map(client.get_trial, ids)
    for trial in (kept, ended, paused):
        eventually(
            lambda trial=trial: "this server uses" in replica_messages(trial), "it is reported"
        )
        assert trial.state == "RUNNING"
    ended.stop()
    paused.suspend()
    ended.wait(timeout=PATIENCE)
    assert ended.state == "STOPPED"
    eventually(lambda: paused.refresh().state == "SUSPENDED", "it is given up until it goes on")
    paused.resume()
    here = python("print('here')", namespace).submit().wait(timeout=PATIENCE)
    assert (here.state, log_lines(here)) == ("SUCCEEDED", ["here"])
    still = {name: pod for name, pod in pods_of(namespace).items() if name in running}
    assert {name: pod.metadata.uid for name, pod in still.items()} == running
    assert not any(pod.metadata.deletion_timestamp for pod in still.values())

    client = restart(home_with_cluster, monkeypatch, cluster.kubeconfig)
    kept, ended, paused = map(client.get_trial, ids)
    eventually(lambda: times_begun(gate, paused) == 2, "what was to go on begins again")
    gate.create("go")
    for trial in (kept, paused):
        trial.wait(timeout=PATIENCE)
        assert (trial.state, trial.restarts) == ("SUCCEEDED", 0), trial.message
    assert log_lines(kept) == ["begun", "done"]
    assert log_lines(paused, attempt=2) == ["begun", "done"]
    assert [times_begun(gate, trial) for trial in (kept, ended, paused)] == [1, 1, 2]
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


@pytest.mark.thorough
def test_a_cluster_at_another_address_is_the_same(
    proxy: Proxy, home_with_cluster: Path, namespace: Namespace, gate: Gate, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    trial = begun(namespace, gate)
    client = restart(home_with_cluster, monkeypatch, proxy.kubeconfig(tmp_path))
    gate.create("go")
    again = client.get_trial(trial.id)
    again.wait(timeout=PATIENCE)
    assert (again.state, again.restarts, log_lines(again)) == ("SUCCEEDED", 0, ["begun", "done"])
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
