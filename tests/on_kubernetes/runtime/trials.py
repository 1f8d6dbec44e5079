"""Trials in pods: helpers to submit them, and to query them and the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import eventually, kill_server
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from windlass.client.client import default_client
from windlass.runtimes import paths
from windlass.runtimes.kubernetes.objects import names as pod_names

ONE_AT_A_TIME = """if True:
    import fcntl, os, pathlib, secrets, sys, time
    gate, trial = pathlib.Path("/gate"), os.environ["WINDLASS_TRIAL_ID"]
    (gate / f"began-{trial}-{secrets.token_hex(4)}").touch()
    lock = open(gate / f"lock-{trial}", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit("it runs twice")
    print("begun")
    while not (gate / "go").exists():
        time.sleep(0.1)
    print("done")
"""


def there(namespace: Namespace, **more: Any) -> wl.Kubernetes:
    """An executor for a namespace with minimal resources."""
    return wl.Kubernetes(**{"namespace": namespace.name, "cpus": 0.05, **more})


def python(program: str, namespace: Namespace, **more: Any) -> wl.Job:
    """A job that runs Python code in a pod."""
    executor = more.pop("executor", None) or there(namespace)
    return wl.Job(wl.Command(["python3", "-u", "-c", program]), executor=executor, **more)


def pods_of(namespace: Namespace) -> dict[str, Any]:
    """The pods of trials, by name."""
    pods = namespace.core.list_namespaced_pod(namespace.name, label_selector=pod_names.UID)
    return {item.metadata.name: item for item in pods.items}


def is_empty(namespace: Namespace) -> bool:
    """Return whether no object of Windlass is left."""
    core, own = namespace.core, {"label_selector": pod_names.UID}
    lists = (
        core.list_namespaced_pod,
        core.list_namespaced_secret,
        core.list_namespaced_service,
    )
    return not any(list_objects(namespace.name, **own).items for list_objects in lists)


def log_lines(trial: wl.Trial[Any], **which: Any) -> list[str]:
    """The lines that a trial has printed so far."""
    return [str(line) for line in trial.logs(**which)]


def replica_messages(trial: wl.Trial[Any]) -> str:
    """The messages of its replicas."""
    trial.refresh()
    return " ".join(str(replica.message) for replica in trial.replicas)


def begun(namespace: Namespace, gate: Gate) -> wl.Trial[Any]:
    """A trial that runs until it is released, and fails if two attempts run at the same time."""
    executor = there(namespace, volumes=gate.volumes)
    job = python(ONE_AT_A_TIME, namespace, restart_policy="ExitCode", executor=executor)
    trial = job.submit()
    eventually(lambda: log_lines(trial) == ["begun"], "it runs")
    return trial


def times_begun(gate: Gate, trial: wl.Trial[Any]) -> int:
    """The number of starts of such a trial."""
    return len(gate.named(f"began-{trial.id}-"))


def restart(home: Path, monkeypatch: pytest.MonkeyPatch, kubeconfig: Path) -> wl.Client:
    """Replace a killed server by another one with that cluster."""
    kill_server(home)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return default_client()


def claims_of(home: Path) -> list[dict[str, Any]]:
    """The records of a home about its objects in clusters."""
    return [json.loads(path.read_text()) for path in paths.job_records_dir(home).glob("*.json")]
