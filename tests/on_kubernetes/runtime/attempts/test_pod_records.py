"""The node, pod and image of each replica, which are kept when the pods are gone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import harness
from harness import PATIENCE, eventually, kill_server
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import is_empty, log_lines, pods_of, python, there
from windlass.client.client import default_client

pytestmark = pytest.mark.usefixtures("home_with_cluster")

PROGRAM = """if True:
    import pathlib, platform, time
    print(platform.python_version(), flush=True)
    while not pathlib.Path("/gate/go").exists():
        time.sleep(0.1)
"""


def windlass(*words: str) -> subprocess.CompletedProcess[str]:
    done = harness.windlass(*words)
    done.check_returncode()
    return done


def show(*words: str) -> str:
    return windlass("show", *words).stdout


def test_node_pod_and_image_of_each_replica_are_shown_and_outlive_pods_and_server(
    cluster: Cluster,
    home_with_cluster: Path,
    namespace: Namespace,
    gate: Gate,
) -> None:
    executor = there(namespace, volumes=gate.volumes)
    trial = python(PROGRAM, namespace, executor=executor, replicas=2).submit()
    eventually(lambda: len(log_lines(trial)) == 2, "both say which Python they have")
    pods = pods_of(namespace)
    versions = {line.split()[-1] for line in log_lines(trial)}
    kill_server(home_with_cluster)  # it must be stored, not only in memory
    gate.create("go")
    again = default_client().get_trial(trial.id)
    again.wait(timeout=PATIENCE)
    assert again.state == "SUCCEEDED"
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")

    for replica in again.replicas:
        assert replica.pod is not None
        assert replica.pod.namespace == namespace.name
        assert replica.pod.name in pods
        assert replica.pod.image == cluster.image
        assert replica.pod.image_id == pods[replica.pod.name].status.container_statuses[0].image_id
        assert {replica.pod.python} == versions
        assert replica.node == pods[replica.pod.name].spec.node_name
    assert [task.pod for task in again.list_tasks()] == [replica.pod for replica in again.replicas]

    pod_records = json.loads(show(str(trial.id), "--json"))["pods"]
    assert [(pod["index"], pod["name"]) for pod in pod_records] == [
        (replica.index, replica.pod.name) for replica in again.replicas if replica.pod is not None
    ]
    assert all(any(line.startswith("pip==") for line in pod["packages"]) for pod in pod_records)


def test_the_page_of_a_trial_distinguishes_its_pod_from_its_submitter(
    cluster: Cluster, namespace: Namespace
) -> None:
    trial = python("import sys; print(sys.version.split()[0])", namespace).submit()
    trial.wait(timeout=PATIENCE)
    [version] = [line.split()[-1] for line in log_lines(trial)]
    [replica] = trial.refresh().replicas
    assert replica.pod is not None
    where, submitted = show(str(trial.id)).split("\nWhere\n")[1].split("\nSubmitted from\n")
    for text in (replica.pod.name, replica.node, namespace.name, cluster.image, version):
        assert text in where
    assert trial.record.provenance.executable in submitted
    assert replica.pod.name not in submitted


@pytest.mark.thorough
def test_a_shell_and_a_command_report_that_they_are_not_in_a_pod(
    namespace: Namespace, gate: Gate
) -> None:
    executor = there(namespace, volumes=gate.volumes)
    trial = python(PROGRAM, namespace, executor=executor).submit()
    eventually(lambda: len(log_lines(trial)) == 1, "it runs")
    [name] = pods_of(namespace)
    in_code = ("command", "--trial", str(trial.id), "true")
    for words in (("shell", str(trial.id), "--", "true"), in_code):
        errors = windlass(*words).stderr
        assert "runs on the server's machine" in errors
        assert f"kubectl -n {namespace.name} exec -it {name} -c main -- sh" in errors
    gate.create("go")
    trial.wait(timeout=PATIENCE)
    errors = windlass(*in_code).stderr
    assert "runs on the server's machine" in errors
    assert "kubectl" not in errors, "there is no pod any more"
