"""A server that is started again with another cluster, and with the first by another address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

import windlass as wl
from harness import PATIENCE, eventually, kill_server, stop_server
from kube.access import Cluster
from kube.gates import Gate
from kube.others import OtherCluster
from kube.pods import Namespace
from kube.proxies import Proxy
from kube.trials import is_empty, pods_of, python, said, there, what_is_said_of
from windlass.client.session import default_client


@pytest.fixture
def other_cluster(own_cluster: Cluster, namespace: Namespace) -> Iterator[OtherCluster]:
    """Another cluster, with a namespace of the same name."""
    other = OtherCluster(98)
    other.command("up")
    core = client.CoreV1Api(config.new_client_from_config(config_file=str(other.kubeconfig)))
    core.create_namespace({"metadata": {"name": namespace.name}})
    yield other
    other.command("down")


PROGRAM = """if True:
    import os, pathlib, secrets, time
    gate = pathlib.Path("/gate")
    (gate / f"began-{os.environ['WINDLASS_TRIAL_ID']}-{secrets.token_hex(4)}").touch()
    print("begun")
    while not (gate / "go").exists():
        time.sleep(0.1)
    print("done")
"""


def begun(namespace: Namespace, gate: Gate) -> wl.Trial[Any]:
    """A trial that runs until it is let go."""
    executor = there(namespace, volumes=gate.volumes)
    trial = python(PROGRAM, namespace, restart_policy="ExitCode", executor=executor).submit()
    eventually(lambda: said(trial) == ["begun"], "it runs")
    return trial


def restart(home: Path, monkeypatch: pytest.MonkeyPatch, kubeconfig: Path) -> wl.Client:
    """Another server, which has that cluster."""
    kill_server(home)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return default_client()


@pytest.mark.slow
def test_pods_of_another_cluster_are_not_taken_for_lost(
    home_with_cluster: Path, cluster: Cluster, other_cluster: OtherCluster, namespace: Namespace,
    gate: Gate, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    kept, ended = begun(namespace, gate), begun(namespace, gate)
    client = restart(home_with_cluster, monkeypatch, other_cluster.kubeconfig)
    kept, ended = client.get_trial(kept.id), client.get_trial(ended.id)
    for each in (kept, ended):
        eventually(lambda each=each: "this server looks at" in what_is_said_of(each), "it is told")
        assert each.state == "RUNNING"
    ended.stop()
    ended.wait(timeout=PATIENCE)
    assert ended.state == "STOPPED"
    here = python("print('here')", namespace).submit().wait(timeout=PATIENCE)
    assert (here.state, said(here)) == ("SUCCEEDED", ["here"])
    assert len(pods_of(namespace)) == 2, "nobody touched what runs there"

    client = restart(home_with_cluster, monkeypatch, cluster.kubeconfig)
    kept = client.get_trial(kept.id)
    eventually(lambda: len(pods_of(namespace)) == 1, "what was stopped goes")
    gate.tell("go")
    kept.wait(timeout=PATIENCE)
    assert (kept.state, kept.restarts, said(kept)) == ("SUCCEEDED", 0, ["begun", "done"])
    assert [each.split("-")[0] for each in gate.named("began-")] == [str(kept.id), str(ended.id)]
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_a_cluster_by_another_address_is_the_same(
    home_with_cluster: Path, cluster: Cluster, namespace: Namespace, gate: Gate, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    trial = begun(namespace, gate)
    with Proxy(cluster) as proxy:
        client = restart(home_with_cluster, monkeypatch, proxy.kubeconfig(tmp_path))
        gate.tell("go")
        again = client.get_trial(trial.id)
        again.wait(timeout=PATIENCE)
        assert (again.state, again.restarts, said(again)) == ("SUCCEEDED", 0, ["begun", "done"])
        eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
        stop_server(home_with_cluster)
