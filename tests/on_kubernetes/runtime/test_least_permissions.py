"""Trials in pods of an account with only the documented permissions in one namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, eventually, stop_server
from on_kubernetes.accounts import Accounts, admin_connection
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import there
from server_with_faults import rigged
from windlass.kube.permissions.check import missing_permissions
from windlass.kube.permissions.required import RUNNING, role_rules


@pytest.fixture
def home(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home whose server has no cluster until a login."""
    path = tmp_path / "home"
    for name in ("KUBECONFIG", "WINDLASS_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WINDLASS_HOME", str(path))
    monkeypatch.setenv("WINDLASS_KUBERNETES_IMAGE", cluster.image)
    monkeypatch.chdir(tmp_path)
    yield path
    stop_server(path)


@pytest.fixture
def accounts(cluster: Cluster, namespace: Namespace, home: Path) -> Iterator[Accounts]:
    """Creates accounts in the test's namespace."""
    admin = admin_connection(cluster.kubeconfig, namespace.name)
    yield Accounts(admin)
    admin.close()


def log_in(accounts: Accounts, name: str, tmp_path: Path, *, lacking: int = 0) -> None:
    """Log in like a user, once the account has its permissions."""
    connection = accounts.connect(name)
    eventually(
        lambda: len(missing_permissions(connection, accounts.namespace)) == lacking,
        "rights in force",
    )
    connection.close()
    authority = tmp_path / "ca.crt"
    authority.write_text(accounts.authority())
    server = accounts._admin.server
    wl.TokenAuthentication(accounts.token(name), server, ca_cert_path=authority).login()


def pods(namespace: Namespace) -> list[str]:
    return [pod.metadata.name for pod in namespace.core.list_namespaced_pod(namespace.name).items]


def left(namespace: Namespace) -> list[str]:
    """The objects of Windlass in the namespace."""
    core, ours = namespace.core, {"label_selector": "app.kubernetes.io/managed-by=windlass"}
    lists = (
        core.list_namespaced_pod, core.list_namespaced_service, core.list_namespaced_secret,
    )  # fmt: skip
    return [item.metadata.name for ask in lists for item in ask(namespace.name, **ours).items]


def python(program: str, namespace: Namespace, **more: Any) -> wl.Job:
    executor = wl.Kubernetes(namespace=namespace.name, cpus=0.05)
    return wl.Job(wl.Command(["python3", "-u", "-c", program]), executor=executor, **more)


@pytest.mark.thorough
def test_with_only_the_documented_permissions_a_trial_runs_and_leaves_nothing(
    accounts: Accounts, namespace: Namespace, tmp_path: Path
) -> None:
    accounts.make("documented", role_rules(RUNNING))
    log_in(accounts, "documented", tmp_path)
    trial = python("print('hello from a pod')", namespace, replicas=2).submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    assert sum("hello from a pod" in str(line) for line in trial.logs()) == 2
    stopped = python("import time; time.sleep(600)", namespace).submit()
    eventually(lambda: stopped.refresh().state == "RUNNING", "it runs")
    stopped.stop(grace=1)
    stopped.wait(timeout=PATIENCE)
    executor = wl.Kubernetes(namespace=namespace.name, cpus=0.05, volumes={"/data": "secret:none"})
    broken = wl.Job(wl.Command(["true"]), executor=executor).submit()
    eventually(
        lambda: "There is no secret none" in broken.refresh().message, "its events were read"
    )
    broken.stop(grace=0)
    eventually(lambda: left(namespace) == [], "nothing is left in the cluster")


SERVE = """if True:
    import json, os, socket
    port = int(json.loads(os.environ["WINDLASS_HOSTS"])["keeper"][0].partition(":")[2])
    with socket.create_server(("", port)) as server:
        while True:
            server.accept()[0].sendall(b"kept")
"""
ASK = """if True:
    import json, os, socket, sys, time
    host, _, port = json.loads(os.environ["WINDLASS_HOSTS"])["keeper"][0].partition(":")
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=5) as there:
                print(there.recv(10).decode(), "at attempt", os.environ["WINDLASS_ATTEMPT"])
                break
        except OSError:
            time.sleep(0.2)  # it is not there yet
    sys.exit(137 if os.environ["WINDLASS_ATTEMPT"] == "1" else 0)
"""


def test_each_of_the_documented_permissions_is_used(
    accounts: Accounts, home: Path, namespace: Namespace, tmp_path: Path
) -> None:
    accounts.make("documented", role_rules(RUNNING))
    log_in(accounts, "documented", tmp_path)
    notes = tmp_path / "notes"
    with rigged(home, f"note:{notes}"):
        job = wl.JobGroup(
            keeper=python(SERVE, namespace, service=True),
            asker=python(ASK, namespace, restart_policy="ExitCode"),
        )
        trial = job.submit()
        executor = there(namespace, volumes={"/data": "secret:none"})
        broken = wl.Job(wl.Command(["true"]), executor=executor).submit()
        eventually(lambda: "There is no secret none" in broken.refresh().message, "it is reported")
        broken.stop(grace=0)
        assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
        eventually(lambda: left(namespace) == [], "nothing is left in the cluster")
    used = set(notes.read_text().splitlines())
    # Tunnels are not such requests. The success of the trial shows that they are used.
    needed = {
        f"{verb} {right.resource}"
        for right in RUNNING
        for verb in right.verbs
        if right.resource != "pods/portforward"
    }
    checks = {"get namespaces"} | {f"create selfsubject{review}reviews" for review in _REVIEWS}
    assert used - checks == needed


_REVIEWS = ("rules", "access")


@pytest.mark.thorough
def test_with_only_the_documented_permissions_roles_meet_and_dead_replicas_restart(
    accounts: Accounts, namespace: Namespace, tmp_path: Path
) -> None:
    accounts.make("documented", role_rules(RUNNING))
    log_in(accounts, "documented", tmp_path)
    job = wl.JobGroup(
        keeper=python(SERVE, namespace, service=True),
        asker=python(ASK, namespace, replicas=2, restart_policy="ExitCode"),
        backoff_limit=4,
    )
    trial = job.submit().wait(timeout=2 * PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert trial.restarts == 2
    lines = sorted(str(line) for line in trial.logs(role="asker"))
    assert lines == ["kept at attempt 1"] * 2 + ["kept at attempt 2"] * 2
    eventually(lambda: left(namespace) == [], "nothing is left in the cluster")


@pytest.mark.thorough
def test_with_only_the_documented_permissions_a_trial_is_suspended_and_resumed(
    accounts: Accounts, namespace: Namespace, tmp_path: Path
) -> None:
    accounts.make("documented", role_rules(RUNNING))
    log_in(accounts, "documented", tmp_path)
    program = """if True:
        import os, time
        attempt = os.environ["WINDLASS_ATTEMPT"]
        print("attempt", attempt)
        if attempt == "1":
            time.sleep(600)
    """
    trial = python(program, namespace).submit()
    eventually(lambda: [str(line) for line in trial.logs()] == ["attempt 1"], "it runs")
    trial.suspend()
    eventually(lambda: pods(namespace) == [], "it has no pod while it is suspended")
    eventually(lambda: trial.refresh().state == "SUSPENDED", "it says so")
    trial.resume()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message
    assert [str(line) for line in trial.logs()] == ["attempt 1", "attempt 2"]
    eventually(lambda: left(namespace) == [], "nothing is left in the cluster")


def test_without_a_permission_a_trial_is_refused_before_anything_is_created(
    accounts: Accounts, namespace: Namespace, tmp_path: Path
) -> None:
    rules = [rule for rule in role_rules(RUNNING) if rule["resources"] != ["events"]]
    account = accounts.make("short", rules)
    log_in(accounts, "short", tmp_path, lacking=1)
    with pytest.raises(wl.WindlassError) as caught:
        python("print(1)", namespace).submit()
    assert f"{account} may not list events in namespace {namespace.name}." in str(caught.value)
    assert left(namespace) == []


def test_an_oversized_request_waits_if_nodes_may_not_be_listed(
    accounts: Accounts, namespace: Namespace, tmp_path: Path
) -> None:
    accounts.make("documented", role_rules(RUNNING))
    log_in(accounts, "documented", tmp_path)
    trial = wl.Job(wl.Command(["true"]), executor=there(namespace, cpus=5000)).submit()
    eventually(lambda: "5000 CPU" in trial.refresh().message, "the reason of its wait is reported")
    trial.stop(grace=0).wait(timeout=PATIENCE)
    eventually(lambda: left(namespace) == [], "nothing is left in the cluster")


def test_a_permission_revoked_later_is_named_in_the_status_line_with_a_remedy(
    accounts: Accounts, namespace: Namespace, tmp_path: Path
) -> None:
    account = accounts.make("documented", role_rules(RUNNING))
    log_in(accounts, "documented", tmp_path)
    trial = python("print(1)", namespace, suspend=True).submit()
    kept = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create"]}
        if rule["resources"] == ["pods"]
        else rule
        for rule in role_rules(RUNNING)
    ]
    accounts.change("documented", kept)
    connection = accounts.connect("documented")
    eventually(lambda: len(missing_permissions(connection, namespace.name)) == 1, "it is in force")
    connection.close()
    trial.resume()
    message = f"{account} may not create pods in namespace {namespace.name}."
    eventually(lambda: message in trial.refresh().message, "it is reported")
    role = f"kubectl -n {namespace.name} create role windlass-create-pods --verb=create"
    assert role in trial.message and "windlass kubernetes rights" in trial.message
    assert "\n" not in trial.message, "a status line is one"
    accounts.change("documented", role_rules(RUNNING))
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", trial.message


def test_a_running_server_applies_a_login_and_a_logout(
    cluster: Cluster, accounts: Accounts, namespace: Namespace, tmp_path: Path
) -> None:
    wl.server_info()  # it runs, and knows no cluster
    with pytest.raises(wl.WindlassError, match="No Kubernetes cluster is configured"):
        python("print(1)", namespace).submit()
    accounts.make("documented", role_rules(RUNNING))
    log_in(accounts, "documented", tmp_path)
    trial = python("print(1)", namespace).submit()
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    wl.TokenAuthentication("any", accounts._admin.server).logout()
    with pytest.raises(wl.WindlassError, match="No Kubernetes cluster is configured"):
        python("print(1)", namespace).submit()
    file = wl.KubeConfigFileAuthentication(cluster.kubeconfig)
    file.load_config()
    trial = python("print(1)", namespace).submit().wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    file.logout()
    with pytest.raises(wl.WindlassError, match="No Kubernetes cluster is configured"):
        python("print(1)", namespace).submit()
