"""Credentials that change while trials run, and foreign pods with Windlass labels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.accounts import Accounts, admin_connection
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from on_kubernetes.runtime.trials import is_empty, log_lines, pods_of, python, there
from windlass.kube.api.connection import Connection, connect
from windlass.kube.permissions.check import check_account, missing_permissions
from windlass.kube.permissions.required import RUNNING, role_rules
from windlass.runtimes.kubernetes.objects.manifests import AGENT_PORT

pytestmark = pytest.mark.usefixtures("home_with_cluster")

PROGRAM = """if True:
    import pathlib, time
    for word in ("more", "go"):
        print("waits for", word, flush=True)
        while not pathlib.Path("/gate", word).exists():
            time.sleep(0.1)
    print("done", flush=True)
"""
LISTENER = f"""if True:
    import socket
    listener = socket.create_server(("127.0.0.1", {AGENT_PORT}))
    print("listening", flush=True)
    while True:
        print("told", listener.accept()[0].recv(1000), flush=True)
"""


@pytest.fixture
def accounts(cluster: Cluster, namespace: Namespace) -> Iterator[Accounts]:
    connection = admin_connection(cluster.kubeconfig, namespace.name)
    yield Accounts(connection)
    connection.close()


def is_refused(connection: Connection) -> bool:
    try:
        check_account(connection)
    except wl.KubernetesError as error:
        return error.status == 401
    return False


@pytest.mark.thorough
def test_tunnels_to_pods_are_reopened_with_new_credentials(
    proxy: Proxy,
    accounts: Accounts,
    namespace: Namespace,
    gate: Gate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("first", "second"):
        accounts.make(name, role_rules(RUNNING))
        account = accounts.connect(name)
        eventually(
            lambda account=account: not missing_permissions(account, namespace.name),
            "it has rights",
        )
    settings = yaml.safe_load(proxy.kubeconfig(tmp_path).read_text())
    config = tmp_path / "kubeconfig-of-an-account"

    def log_in(name: str) -> None:
        settings["users"][0]["user"] = {"token": accounts.token(name)}
        config.write_text(yaml.safe_dump(settings))

    log_in("first")
    before = connect(config_file=str(config))
    monkeypatch.setenv("KUBECONFIG", str(config))
    trial = python(PROGRAM, namespace, executor=there(namespace, volumes=gate.volumes)).submit()
    eventually(lambda: "waits for more" in " ".join(log_lines(trial)), "it is reported")

    log_in("second")
    other = python("print('by the second')", namespace).submit()
    other.wait(timeout=PATIENCE)
    assert other.state == "SUCCEEDED", other.message
    accounts.remove("first")
    eventually(lambda: is_refused(before), "the first account is worth nothing")
    proxy.cut()  # its open connections are gone as well
    gate.create("more")
    eventually(lambda: "waits for go" in " ".join(log_lines(trial)), "it is reported again")
    gate.create("go")
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED" and trial.restarts == 0
    assert log_lines(trial)[-1].endswith("done")
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


@pytest.mark.thorough
def test_a_partially_written_kubeconfig_harms_no_running_trial(
    cluster: Cluster,
    namespace: Namespace,
    gate: Gate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, whole = tmp_path / "kubeconfig", cluster.kubeconfig.read_text()
    config.write_text(whole)
    monkeypatch.setenv("KUBECONFIG", str(config))
    trial = python(PROGRAM, namespace, executor=there(namespace, volumes=gate.volumes)).submit()
    eventually(lambda: "waits for more" in " ".join(log_lines(trial)), "it is reported")
    for part in ("", whole[: len(whole) // 2]):
        config.write_text(part)
        with pytest.raises(wl.KubernetesError, match="cannot be used"):
            python("", namespace).submit()
    gate.create("more")
    eventually(lambda: "waits for go" in " ".join(log_lines(trial)), "it is reported all the time")
    [replica] = trial.refresh().replicas
    assert replica.phase == "Running"

    config.write_text(whole)
    other = python("print('hello')", namespace).submit()
    other.wait(timeout=PATIENCE)
    assert other.state == "SUCCEEDED", other.message
    gate.create("go")
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED" and trial.restarts == 0
    assert log_lines(trial)[-1].endswith("done")


def test_a_foreign_pod_with_windlass_labels_gets_no_token(namespace: Namespace, gate: Gate) -> None:
    executor = there(namespace, volumes=gate.volumes)
    trial = python(PROGRAM, namespace, executor=executor).submit()
    eventually(lambda: "waits for more" in " ".join(log_lines(trial)), "it runs")
    [own] = pods_of(namespace).values()
    namespace.python("stranger", LISTENER, labels=own.metadata.labels)
    namespace.wait_running("stranger")
    eventually(lambda: "listening" in namespace.logs("stranger"), "the stranger listens")
    # A later pod gets a tunnel, so the foreign pod was seen and left alone.
    later = python("print('reached')", namespace).submit()
    later.wait(timeout=PATIENCE)
    assert later.state == "SUCCEEDED"
    for word in ("more", "go"):
        gate.create(word)
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED" and trial.restarts == 0
    assert "told" not in namespace.logs("stranger")
    assert namespace.phase("stranger") == "Running", "it is not ours to end"
