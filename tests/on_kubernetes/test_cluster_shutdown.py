"""`make kube-down` leaves nothing behind, in any state of the cluster.

Tested on a separate cluster, which is started only for this.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from harness import eventually
from on_kubernetes.cluster.locations import CACHE, WORKER_IMAGE
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.other_cluster import OtherCluster

pytestmark = pytest.mark.thorough

NUMBER = 99
OTHER = OtherCluster(NUMBER)
NAMES = (f"wlkube{NUMBER}", f"windlass-kube-{NUMBER}", f"run-{NUMBER}")


@pytest.fixture
def other_cluster(own_cluster: Cluster) -> Iterator[None]:
    """A separate cluster with a running pod."""
    OTHER.command("down")
    assert "The cluster is up" in OTHER.command("up")  # it may have waited for another
    core = client.CoreV1Api(config.new_client_from_config(config_file=str(OTHER.kubeconfig)))
    container = {"name": "main", "image": WORKER_IMAGE, "command": ["sleep", "1000"]}
    pod = {"metadata": {"name": "lasting"}, "spec": {"containers": [container]}}
    core.create_namespaced_pod("default", pod)
    eventually(
        lambda: core.read_namespaced_pod("lasting", "default").status.phase == "Running",
        "the pod runs",
    )
    assert traces()
    yield
    OTHER.command("down")


def test_a_broken_cluster_is_stopped_and_nothing_is_left(other_cluster: None) -> None:
    OTHER.command("kill", "kubelet")
    OTHER.command("kill", "containerd")
    OTHER.command("kill", "etcd")
    assert "The cluster is gone.\n" in OTHER.command("down")
    assert traces() == []
    assert "No cluster was up.\n" in OTHER.command("down")


def test_a_killed_cluster_is_cleaned_up(other_cluster: None) -> None:
    [holder] = subprocess.check_output(
        ["pgrep", "--full", f"/pause windlass-kube:{OTHER.state}$"], text=True
    ).split()
    os.kill(int(holder), signal.SIGKILL)
    assert "The cluster is gone.\n" in OTHER.command("down")
    assert traces() == []


def traces() -> list[str]:
    """All traces of the other cluster on this machine."""
    remains = [
        *("process " + command for command in _commands_running()),
        *("mount " + line for line in Path("/proc/self/mountinfo").read_text().splitlines()),
        *("device " + name for name in os.listdir("/sys/class/net")),
        *("rule " + line for line in subprocess.getoutput("iptables-save").splitlines()),
        *("group " + str(path) for path in Path("/sys/fs/cgroup").glob("*/*")),
        *("host " + line for line in Path("/etc/hosts").read_text().splitlines()),
        *("file " + str(path) for path in CACHE.glob("*")),
    ]
    return [trace for trace in remains if any(name in trace for name in NAMES)]


def _commands_running() -> Iterator[str]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            pass  # it has ended
