"""Trials in pods: features of pods only. `both_backends` tests the common ones."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, eventually, kill_server
from on_kubernetes.cluster.credentials import token_of
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.agents.agent_connection import DIALLED, REACHED, TELL_WAYS
from on_kubernetes.runtime.trials import (
    is_empty,
    log_lines,
    pods_of,
    python,
    replica_messages,
    there,
)
from windlass.client.client import default_client
from windlass.kube.api.connection import connect
from windlass.runtimes.kubernetes.objects import names as pod_names

pytestmark = pytest.mark.usefixtures("home_with_cluster")

UNREACHABLE = "https://127.0.0.1:1"


def test_replicas_meet_by_name_and_all_objects_are_deleted_with_them(
    namespace: Namespace,
) -> None:
    program = """if True:
        import json, os, socket, time
        hosts = json.loads(os.environ["WINDLASS_HOSTS"])["main"]
        host, port = hosts[0].split(":")
        if os.environ["WINDLASS_INDEX"] == "0":
            listener = socket.create_server(("", int(port)))
            listener.accept()[0].sendall(b"met")
        else:
            for _ in range(600):
                try:
                    connection = socket.create_connection((host, int(port)))
                    break
                except OSError:
                    time.sleep(0.1)
            print(connection.recv(10).decode(), "at", host)
    """
    trial = python(program, namespace, replicas=2).submit()
    eventually(lambda: len(pods_of(namespace)) == 2, "it has pods")
    [owner] = namespace.core.list_namespaced_secret(
        namespace.name, label_selector=pod_names.UID
    ).items
    for pod in pods_of(namespace).values():
        assert [reference.uid for reference in pod.metadata.owner_references] == [
            owner.metadata.uid
        ]
        assert pod.spec.security_context.run_as_non_root
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", log_lines(trial)
    assert any(f"met at wl-{trial.id}-" in line for line in log_lines(trial))
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_a_stopped_trial_sends_its_output(namespace: Namespace) -> None:
    program = """if True:
        import signal, sys, time
        def leave(*_):
            print("leaving in order", flush=True)
            sys.exit(0)
        signal.signal(signal.SIGTERM, leave)
        print("ready", flush=True)
        time.sleep(1000)
    """
    trial = python(program, namespace).submit()
    eventually(lambda: "ready" in " ".join(log_lines(trial)), "it runs")
    began = time.monotonic()
    trial.stop(grace=20)
    trial.wait(timeout=PATIENCE)
    assert time.monotonic() - began < 20, "it ends by itself, not by force"
    assert trial.state == "STOPPED"
    assert "leaving in order" in " ".join(log_lines(trial))
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_a_restarted_server_finds_its_pods_again(
    home_with_cluster: Path, namespace: Namespace, gate: Gate
) -> None:
    """One continues, and one ends without a server: its pod waits for the next server."""
    program = """if True:
        import pathlib, sys, time
        print("begun", flush=True)
        while not pathlib.Path("/gate", f"go-{sys.argv[1]}").exists():
            time.sleep(0.1)
        print("done", flush=True)
        pathlib.Path("/gate", f"done-{sys.argv[1]}").touch()
    """
    command = ["python3", "-u", "-c", program]
    executor = there(namespace, volumes=gate.volumes)
    trials = [
        wl.Job(wl.Command([*command, name]), executor=executor).submit() for name in ("on", "end")
    ]
    for trial in trials:
        eventually(lambda trial=trial: log_lines(trial) == ["begun"], "it runs")
    kill_server(home_with_cluster)
    gate.create("go-end")
    eventually(lambda: gate.exists("done-end"), "one ends")
    for trial, name in zip(trials, ("on", "end"), strict=True):
        again = default_client().get_trial(trial.id)
        gate.create(f"go-{name}")
        again.wait(timeout=PATIENCE)
        assert again.state == "SUCCEEDED" and again.restarts == 0
        assert log_lines(again) == ["begun", "done"]
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_a_deleted_pod_is_lost_and_recreated(namespace: Namespace) -> None:
    program = """if True:
        import os, time
        print("attempt", os.environ["WINDLASS_ATTEMPT"], flush=True)
        time.sleep(0 if os.environ["WINDLASS_ATTEMPT"] == "2" else 1000)
    """
    job = python(program, namespace, restart_policy="ExitCode", backoff_limit=2)
    trial = job.submit()
    eventually(lambda: "attempt 1" in " ".join(log_lines(trial)), "it runs")
    [name] = pods_of(namespace)
    namespace.core.delete_namespaced_pod(name, namespace.name, grace_period_seconds=0)
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED" and trial.restarts == 1
    first, _ = sorted(trial.list_tasks(), key=lambda task: task.attempt)
    assert first.exit_code is None and first.reason == "Lost"


def test_a_pod_that_the_cluster_refuses_fails_its_trial(namespace: Namespace) -> None:
    executor = there(namespace, pod_patch={"containers": [{"name": "main", "image": ""}]})
    trial = python("", namespace, executor=executor).submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "FAILED"
    assert "containers[0].image: Required value" in replica_messages(trial)


@pytest.mark.thorough
def test_an_image_without_python_is_reported(namespace: Namespace) -> None:
    patch = {"containers": [{"name": "main", "command": ["no-such-program"]}]}
    trial = python("", namespace, executor=there(namespace, pod_patch=patch)).submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "FAILED"
    assert "no-such-program" in replica_messages(trial) and trial.exit_code is None


def test_an_exceeded_memory_limit_is_reported(namespace: Namespace) -> None:
    executor = there(namespace, memory="64MiB")
    trial = python("x = b'1' * (1 << 30)", namespace, executor=executor).submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "FAILED" and trial.exit_code == 137, trial.error
    assert "it reached its limit of 67 MB of memory" in trial.message


def test_a_priority_is_refused_where_the_cluster_orders_the_queue(namespace: Namespace) -> None:
    trial = python("", namespace, suspend=True).submit()
    with pytest.raises(wl.Conflict) as caught:
        trial.set_priority(5)
    assert "runs in a cluster, whose scheduler orders pods by their priority class." in str(
        caught.value
    )
    assert "wl.Kubernetes(priority_class=...)" in str(caught.value)
    assert trial.refresh().priority == 0


def test_a_foreign_object_of_the_same_name_is_not_touched(namespace: Namespace) -> None:
    trial = python("import time; time.sleep(1000)", namespace, suspend=True).submit()
    uid = trial._record.uid
    base = pod_names.base_of(trial.id, uid)
    namespace.core.create_namespaced_secret(namespace.name, {"metadata": {"name": base}})
    trial.resume()
    message = f"A Secret {base} in namespace {namespace.name} already exists"
    eventually(lambda: message in replica_messages(trial), "it is reported")
    trial.stop(grace=0)
    trial.wait(timeout=PATIENCE)
    assert namespace.core.read_namespaced_secret(base, namespace.name)


@pytest.mark.thorough
def test_a_server_with_an_unreachable_cluster_starts_and_runs_local_trials(
    home_with_cluster: Path, namespace: Namespace, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = "import time; print('begun', flush=True); time.sleep(8); print('done')"
    trial = python(gate, namespace).submit()
    eventually(lambda: "begun" in " ".join(log_lines(trial)), "it runs")
    kill_server(home_with_cluster)
    config = json.loads(json.dumps(_kubeconfig(cluster)).replace(_server(cluster), UNREACHABLE))
    away = home_with_cluster.parent / "away"
    away.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(away))
    began = time.monotonic()
    local = wl.Job(wl.Command(["echo", "here"])).submit()
    local.wait(timeout=PATIENCE)
    assert local.state == "SUCCEEDED" and time.monotonic() - began < 30
    with pytest.raises(wl.WindlassError, match="cannot be reached"):
        python("", namespace).submit()
    still = default_client().get_trial(trial.id)
    assert still.state == "RUNNING"
    kill_server(home_with_cluster)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    again = default_client().get_trial(trial.id)
    again.wait(timeout=PATIENCE)
    assert again.state == "SUCCEEDED" and again.restarts == 0
    assert [line.split()[-1] for line in log_lines(again)] == ["begun", "done"]


def test_a_missing_namespace_is_refused_before_anything_is_created() -> None:
    with pytest.raises(wl.WindlassError, match="no-such-place"):
        wl.Job(wl.Command(["true"]), executor=wl.Kubernetes(namespace="no-such-place")).submit()
    assert not list(default_client().list_trials())


def _kubeconfig(cluster: Cluster) -> Any:
    import yaml

    return yaml.safe_load(cluster.kubeconfig.read_text())


def _server(cluster: Cluster) -> str:
    return connect(config_file=str(cluster.kubeconfig)).server


def test_pods_that_reach_the_server_connect_to_it(
    namespace: Namespace, own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_LISTEN", f"{own_cluster.machine_address}:0")
    monkeypatch.setenv("WINDLASS_NAMES", own_cluster.machine_address)
    trial = python(TELL_WAYS, namespace).submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    assert DIALLED in log_lines(trial)


def test_the_server_connects_to_pods_that_cannot_reach_its_address(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_LISTEN", "127.0.0.1:0")
    monkeypatch.setenv("WINDLASS_NAMES", "nobody-knows-this.invalid")
    trial = python(TELL_WAYS, namespace).submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    assert log_lines(trial) == REACHED


def test_a_token_renewed_in_its_file_is_used(
    own_cluster: Cluster, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, good = tmp_path / "kubeconfig", own_cluster.kubeconfig.read_text()
    mine.write_text(good.replace(token_of("admin"), "one-of-yesterday"))
    monkeypatch.setenv("KUBECONFIG", str(mine))
    job = python("print('hello')", namespace)
    with pytest.raises(wl.KubernetesError, match="has expired"):
        job.submit()
    mine.write_text(good)
    trial = job.submit().wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", log_lines(trial)
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
