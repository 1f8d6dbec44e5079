"""`deploy/server.yaml` in a cluster: a server that runs trials in pods."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.stream import stream

import harness
from harness import eventually
from on_kubernetes.accounts import admin_connection
from on_kubernetes.cluster.locations import NODE
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.deploy.manifests import bring, manifests, pods_of, remove, wait_available
from on_kubernetes.pods import Namespace
from on_kubernetes.port_forward import Forwarded
from on_kubernetes.runtime.agents.agent_connection import DIALLED, TELL_WAYS
from on_kubernetes.runtime.trials import is_empty
from windlass.kube.api.connection import Connection

NAME = "windlass-server"
TRAIN = """
import os
import windlass as wl

wl.report(0, loss=0.5)
print("in a pod:", "KUBERNETES_SERVICE_HOST" in os.environ)
"""
TRAIN += TELL_WAYS
STAY = """
import os, time
import windlass as wl

print("begun by attempt", os.environ["WINDLASS_ATTEMPT"], flush=True)
while not wl.should_stop():
    time.sleep(0.1)
print("ended by attempt", os.environ["WINDLASS_ATTEMPT"])
"""


@pytest.fixture
def connection(own_cluster: Cluster, namespace: Namespace) -> Connection:
    return admin_connection(own_cluster.kubeconfig, namespace.name)


@pytest.fixture
def deployed(
    windlass_image: str, namespace: Namespace, connection: Connection, tmp_path: Path
) -> Iterator[None]:
    """The manifests unchanged, except for the name of the image, and a disk for their claim."""
    disk = _disk(namespace.name, tmp_path / "disk")
    things = manifests("server.yaml", windlass_image)
    try:
        bring(connection, [disk])
        bring(connection, things, namespace.name)
        wait_available(connection, namespace.name, NAME, 1)
        yield
    finally:
        remove(connection, [disk, *things], namespace.name)


@pytest.mark.waits
def test_a_trial_submitted_to_a_server_in_a_cluster_runs_in_a_pod(
    deployed: None, own_cluster: Cluster, namespace: Namespace, connection: Connection,
    tmp_path: Path,
) -> None:  # fmt: skip
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAIN)
    (project / "stay.py").write_text(STAY)

    def windlass(url: str, *words: str) -> str:
        env = {
            "WINDLASS_SERVER": url, "WINDLASS_TOKEN": token, "NO_COLOR": "1",
            "WINDLASS_HOME": str(tmp_path / "home"),
        }  # fmt: skip
        done = harness.windlass(*words, cwd=project, env=env)
        assert done.returncode == 0, (done.stdout, done.stderr, _log(namespace, pod))
        return done.stdout

    pod = _pod(connection, namespace)
    token = _inside(namespace, pod, "cat", "/home/windlass/home/token").strip()
    # Other tests need a share of the one machine, too.
    words = (
        "run", "--backend", "kubernetes", "--container-image", own_cluster.image, "--cpus", "0.1",
    )  # fmt: skip
    with Forwarded(own_cluster, namespace.name, pod, 8080) as way:
        lines = windlass(way.url, *words, "train.py").splitlines()
        assert "in a pod: True" in lines
        assert DIALLED in lines, "it asks the server where that is"
        assert "SUCCEEDED" in windlass(way.url, "ls")
        assert "0.5" in windlass(way.url, "metrics", "1", "loss")
        eventually(lambda: is_empty(namespace), "nothing is left of it")
        windlass(way.url, *words, "--detach", "stay.py")
        eventually(
            lambda: windlass(way.url, "logs", "2").splitlines() == ["begun by attempt 1"], "it runs"
        )
    # The pod of the server is deleted. Its records and running trials stay.
    namespace.core.delete_namespaced_pod(pod, namespace.name, grace_period_seconds=5)
    eventually(lambda: namespace.is_gone(pod), "it goes")
    wait_available(connection, namespace.name, NAME, 1)
    pod = _pod(connection, namespace)
    with Forwarded(own_cluster, namespace.name, pod, 8080) as way:
        assert "in a pod: True" in windlass(way.url, "logs", "1")
        assert "RUNNING" in windlass(way.url, "ls")
        windlass(way.url, "stop", "--ask", "2")
        followed = windlass(way.url, "logs", "--follow", "2").splitlines()
        assert followed == ["begun by attempt 1", "ended by attempt 1"]
        eventually(lambda: windlass(way.url, "ls").count("SUCCEEDED") == 2, "it has ended well")
        eventually(lambda: is_empty(namespace), "nothing is left of it")
    assert _inside(namespace, pod, "id", "-u").strip() == "1000"
    log = _log(namespace, pod)
    assert "may not" not in log
    assert "Traceback" not in log


def _pod(connection: Connection, namespace: Namespace) -> str:
    [pod] = pods_of(connection, namespace.name, NAME)
    return str(pod["metadata"]["name"])


def _log(namespace: Namespace, pod: str) -> str:
    return namespace.logs(pod) + _inside(namespace, pod, "cat", "/home/windlass/home/server.log")


def _inside(namespace: Namespace, pod: str, *command: str) -> str:
    # A separate client, because streaming changes how the client sends requests.
    core = client.CoreV1Api(client.ApiClient(namespace.core.api_client.configuration))
    return str(
        stream(
            core.connect_get_namespaced_pod_exec, pod, namespace.name, command=list(command),
            stdout=True, stderr=True,
        )
    )  # fmt: skip


def _disk(namespace: str, folder: Path) -> dict[str, object]:
    """A volume for the claim, like that of a cluster's provisioner."""
    folder.mkdir()
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "100Gi"},
            "claimRef": {"namespace": namespace, "name": NAME},
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }
