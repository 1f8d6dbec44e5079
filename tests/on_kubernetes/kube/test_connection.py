"""Connections to a real cluster: logins, accounts, permissions, namespaces, and error messages."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import BIN, Project, eventually
from on_kubernetes.accounts import Accounts, admin_connection
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import is_empty
from on_kubernetes.untrusted_server import certified_by_itself
from windlass.home import Home
from windlass.kube.api.connection import Connection, connect, connect_with
from windlass.kube.api.stored_login import TokenLogin, read_login
from windlass.kube.capacity.list_nodes import list_nodes
from windlass.kube.permission import Permission
from windlass.kube.permissions.check import (
    account_name,
    check_access,
    check_account,
    check_namespace,
    missing_permissions,
    server_version,
)
from windlass.kube.permissions.required import RUNNING, role_rules

PORT = 8000
LISTENER = f"""
import socket
listener = socket.create_server(("", {PORT}))
print("hello", flush=True)
while True:
    listener.accept()[0].sendall(b"hello")
"""
DEEDS = [deed for right in RUNNING for deed in right.permissions("")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a cluster, with its own home."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "WINDLASS_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "windlass"))
    return tmp_path


@pytest.fixture
def admin_of(cluster: Cluster, namespace: Namespace, place: Path) -> Iterator[Connection]:
    """A connection with all permissions, in the test's namespace."""
    connection = admin_connection(cluster.kubeconfig, namespace.name)
    yield connection
    connection.close()


@pytest.fixture
def accounts(admin_of: Connection) -> Accounts:
    """Creates accounts in the test's namespace."""
    return Accounts(admin_of)


def test_a_cluster_reports_its_version_and_nodes(admin_of: Connection) -> None:
    assert server_version(admin_of).startswith("v1.")
    nodes = list_nodes(admin_of)
    assert nodes
    assert any(node.is_ready for node in nodes)
    assert missing_permissions(admin_of, admin_of.namespace) == []


def test_an_account_with_only_the_documented_permissions_passes_the_check(
    accounts: Accounts,
) -> None:
    name = accounts.make("documented", role_rules(RUNNING))
    connection = accounts.connect("documented")
    eventually(
        lambda: missing_permissions(connection, accounts.namespace) == [],
        "the role has come into force",
    )
    check_access(connection, accounts.namespace)
    check_namespace(connection, accounts.namespace)
    assert account_name(connection) == name
    assert list_nodes(connection) is None


def test_an_account_with_only_the_documented_permissions_can_do_everything(
    accounts: Accounts, namespace: Namespace
) -> None:
    accounts.make("doer", role_rules(RUNNING))
    connection = accounts.connect("doer")
    eventually(
        lambda: not missing_permissions(connection, accounts.namespace), "rights are in force"
    )
    namespace.python("target", LISTENER)
    namespace.wait_running("target")
    eventually(lambda: "hello" in namespace.logs("target"), "it listens")
    for deed in DEEDS:
        _do(connection, deed)


def test_the_message_names_each_single_missing_permission(accounts: Accounts) -> None:
    account = accounts.make("short", [])
    connection = accounts.connect("short")
    for left_out in (deed for right in RUNNING for deed in right.permissions(accounts.namespace)):
        rules = [
            {**rule, "verbs": [verb for verb in rule["verbs"] if verb != left_out.verb]}
            if rule["resources"] == [left_out.resource]
            else rule
            for rule in role_rules(RUNNING)
        ]
        accounts.change("short", [rule for rule in rules if rule["verbs"]])
        eventually(
            lambda deed=left_out: missing_permissions(connection, accounts.namespace) == [deed],
            f"the right to {left_out} is missing",
        )
        with pytest.raises(wl.KubernetesError) as caught:
            check_access(connection, accounts.namespace)
        message = str(caught.value)
        assert f"{account} may not {left_out}." in message
        assert f"--verb={left_out.verb} --resource={left_out.resource}" in message
        assert f"--serviceaccount={accounts.namespace}:short" in message


def test_an_account_without_permissions_gets_all_missing_ones_at_once(accounts: Accounts) -> None:
    account = accounts.make("nobody", [])
    connection = accounts.connect("nobody")
    check_account(connection)
    with pytest.raises(wl.KubernetesError) as caught:
        check_access(connection, accounts.namespace)
    message = str(caught.value)
    assert f"{account} lacks {len(DEEDS)} rights in namespace {accounts.namespace}" in message
    assert all(f"{deed.verb} {deed.resource}" in message for deed in DEEDS)
    assert f"windlass kubernetes rights --namespace {accounts.namespace}" in message


def test_a_refusal_is_reported_with_account_verb_resource_and_namespace(
    accounts: Accounts,
) -> None:
    account = accounts.make("nobody", [])
    connection = accounts.connect("nobody")
    pods = f"/api/v1/namespaces/{accounts.namespace}/pods"
    for method, path, verb in (("GET", pods, "list"), ("GET", f"{pods}/x", "get"),
                               ("DELETE", f"{pods}/x", "delete")):  # fmt: skip
        with pytest.raises(wl.KubernetesError) as caught:
            connection.request(method, path)
        assert f"{account} may not {verb} pods in namespace {accounts.namespace}." in str(
            caught.value
        )
        assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    with pytest.raises(wl.KubernetesError) as caught:
        connection.request("GET", "/api/v1/nodes")
    assert f"{account} may not list nodes." in str(caught.value)


def test_the_printed_role_grants_the_missing_permissions(
    accounts: Accounts, admin_of: Connection, project: Project, cluster: Cluster
) -> None:
    import yaml

    account = accounts.make("asking", [])
    connection = accounts.connect("asking")
    done = project.run(
        BIN / "windlass", "kubernetes", "rights", "-n", accounts.namespace, "--account", account
    )
    assert done.returncode == 0, done.stderr
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{accounts.namespace}"
    for manifest in yaml.safe_load_all(done.stdout):
        admin_of.request("POST", f"{rbac}/{manifest['kind'].lower()}s", manifest)
    eventually(
        lambda: not missing_permissions(connection, accounts.namespace), "rights are in force"
    )


def test_a_token_is_tried_stored_used_and_removed(accounts: Accounts, place: Path) -> None:
    account = accounts.make("ada", [])
    authority = place / "ca.crt"
    authority.write_text(accounts.authority())
    server = accounts._admin.server
    auth = wl.TokenAuthentication(accounts.token("ada"), server, ca_cert_path=authority)
    assert auth.login() == f"Logged in to {server} as {account}."
    authority.unlink()  # the login has the contents of the file
    check_account(connect())
    assert connect().account == account
    assert auth.logout() == f"Logged out of {server}."
    with pytest.raises(wl.KubernetesError, match="No Kubernetes cluster is configured"):
        connect()


def test_a_kubeconfig_file_is_tried_used_and_removed(cluster: Cluster, place: Path) -> None:
    auth = wl.KubeConfigFileAuthentication(cluster.kubeconfig)
    assert auth.load_config().startswith("Logged in to https://")
    check_account(connect())
    auth.logout()
    with pytest.raises(wl.KubernetesError, match="No Kubernetes cluster is configured"):
        connect()


def test_a_wrong_token_is_refused_and_changes_nothing(accounts: Accounts) -> None:
    server, authority = accounts._admin.server, accounts.authority()
    connection = connect_with(TokenLogin(server=server, token="wrong", ca_cert=authority))
    with pytest.raises(wl.KubernetesError) as caught:
        check_account(connection)
    assert "rejected the login" in str(caught.value)
    assert "Log in again" in str(caught.value)
    assert caught.value.status == 401
    auth = wl.TokenAuthentication("wrong", server, skip_tls=True)
    with pytest.raises(wl.KubernetesError, match="rejected the login"):
        auth.login()
    assert read_login(Home.find()) is None


def test_an_expired_token_is_refused(accounts: Accounts) -> None:
    account = accounts.make("leaver", [])
    connection = accounts.connect("leaver")
    check_account(connection)
    accounts.remove("leaver")
    lines: list[str] = []

    def is_refused() -> bool:
        try:
            check_account(connection)
        except wl.KubernetesError as error:
            lines.append(str(error))
        return bool(lines)

    eventually(is_refused, "the token is not accepted any more")
    assert f"rejected the login as {account}: " in lines[0]
    assert "has expired" in lines[0]


def test_a_certificate_of_another_authority_is_not_trusted(
    accounts: Accounts, tmp_path: Path
) -> None:
    other, _ = certified_by_itself(tmp_path)
    server = accounts._admin.server
    accounts.make("ada", [])
    token = accounts.token("ada")
    for authority in (other, None):
        auth = wl.TokenAuthentication(token, server, ca_cert_path=authority)
        with pytest.raises(wl.KubernetesError) as caught:
            auth.login()
        assert f"The certificate of {server} is not trusted" in str(caught.value)
        assert "ca_cert_path=" in str(caught.value)
    assert wl.TokenAuthentication(token, server, skip_tls=True).login().startswith("Logged in")


def test_a_missing_namespace_is_named(admin_of: Connection) -> None:
    with pytest.raises(wl.KubernetesError) as caught:
        check_namespace(admin_of, "windlass-no-such-thing")
    assert "There is no namespace windlass-no-such-thing in the cluster." in str(caught.value)
    assert "kubectl create namespace windlass-no-such-thing" in str(caught.value)
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    with pytest.raises(wl.KubernetesError, match="There is no namespace windlass-no-such-thing"):
        admin_of.request("POST", "/api/v1/namespaces/windlass-no-such-thing/pods", pod)


def test_an_account_without_access_to_namespaces_detects_a_missing_one(
    accounts: Accounts, admin_of: Connection
) -> None:
    """By a trial request: permissions in all namespaces do not include reading namespaces."""
    account = accounts.make("everywhere", [])
    connection = accounts.connect("everywhere")
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    name = f"{accounts.namespace}-everywhere"
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]
    subject = {"kind": "ServiceAccount", "namespace": accounts.namespace, "name": "everywhere"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    admin_of.request("POST", f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    admin_of.request("POST", f"{rbac}/clusterrolebindings", binding)
    try:
        wanted = Permission(verb="create", resource="secrets", namespace="windlass-no-such-thing")
        from windlass.kube.permissions.check import is_allowed

        eventually(lambda: is_allowed(connection, wanted), f"{account} may create secrets")
        with pytest.raises(wl.KubernetesError, match="There is no namespace"):
            check_namespace(connection, "windlass-no-such-thing")
        check_namespace(connection, accounts.namespace)
    finally:
        admin_of.request("DELETE", f"{rbac}/clusterrolebindings/{name}")
        admin_of.request("DELETE", f"{rbac}/clusterroles/{name}")


def test_a_namespace_that_is_being_deleted_is_reported(admin_of: Connection) -> None:
    name = f"{admin_of.namespace}-going"
    body = {"metadata": {"name": name}}
    admin_of.request("POST", "/api/v1/namespaces", body)
    holder = {"metadata": {"name": "holder", "finalizers": ["windlass.dev/test"]}}
    maps = f"/api/v1/namespaces/{name}/configmaps"
    admin_of.request("POST", maps, holder)
    try:
        admin_of.request("DELETE", f"/api/v1/namespaces/{name}")
        with pytest.raises(wl.KubernetesError, match=f"The namespace {name} is being deleted"):
            check_namespace(admin_of, name)
        with pytest.raises(wl.KubernetesError, match=f"The namespace {name} is being deleted"):
            admin_of.request("POST", maps, {"metadata": {"name": "late"}})
    finally:
        free = {"metadata": {"finalizers": None}}
        admin_of.request(
            "PATCH", f"{maps}/holder", free, content_type="application/merge-patch+json"
        )


def test_the_check_reports_success(
    cluster: Cluster, namespace: Namespace, project: Project, fresh_home: Path
) -> None:
    done = _check(project, cluster.kubeconfig, namespace.name)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(line.split()[1:3] == ["namespace", namespace.name] for line in lines)
    assert any("Kubernetes v1." in line for line in lines)
    assert sum(" right " in line for line in lines) == len(RUNNING)
    assert any("accelerators" in line for line in lines)
    assert "through the cluster's API" in done.stdout
    assert is_empty(namespace), "it creates nothing"


def test_the_check_reports_missing_permissions_and_fails(
    accounts: Accounts, project: Project, tmp_path: Path
) -> None:
    accounts.make("few", [rule for rule in role_rules(RUNNING) if rule["resources"] != ["events"]])
    auth = wl.TokenAuthentication(accounts.token("few"), accounts._admin.server, skip_tls=True)
    auth.login()
    connection = connect(namespace=accounts.namespace)
    eventually(
        lambda: len(missing_permissions(connection, accounts.namespace)) == 1, "role in force"
    )
    done = project.run(BIN / "windlass", "kubernetes", "check", "-n", accounts.namespace)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "may not list events in namespace" in done.stdout
    assert "may not list nodes" in done.stdout
    assert "its certificate is not checked" in done.stdout
    assert "Warning" not in done.stderr
    missing = _check_missing(project)
    assert missing.returncode == 1
    assert "There is no kubeconfig file" in missing.stdout


def _check(project: Project, kubeconfig: Path, namespace: str) -> subprocess.CompletedProcess[str]:
    return project.run(
        BIN / "windlass", "kubernetes", "check", "-n", namespace,
        env={"KUBECONFIG": str(kubeconfig)},
    )  # fmt: skip


def _check_missing(project: Project) -> subprocess.CompletedProcess[str]:
    home = str(project.path / "empty-home")
    return project.run(
        BIN / "windlass", "kubernetes", "check",
        env={"KUBECONFIG": "/no/such/file", "WINDLASS_HOME": home},
    )  # fmt: skip


def _do(connection: Connection, deed: Permission) -> Any:
    """Use a permission for real."""
    base = f"/api/v1/namespaces/{connection.namespace}"
    resource, _, part = deed.resource.partition("/")
    one = f"{base}/{resource}/{'target' if part else 'mine'}"
    if part == "log":
        return connection.open("GET", f"{one}/log").read()
    if part == "portforward":
        return _forward(connection) if deed.verb == "create" else None
    if deed.verb == "create":
        return connection.request("POST", f"{base}/{resource}", _made(resource))
    if deed.verb == "delete":
        # Objects that are read later are created again.
        gone = connection.request("DELETE", one, {"gracePeriodSeconds": 0})
        eventually(lambda: _is_gone(connection, one), f"{one} is gone")
        connection.request("POST", f"{base}/{resource}", _made(resource))
        return gone
    if deed.verb == "get":
        return connection.request("GET", one)
    query = {"watch": "true", "timeoutSeconds": "1"} if deed.verb == "watch" else {}
    return connection.open("GET", f"{base}/{resource}", query=query).read()


def _is_gone(connection: Connection, path: str) -> bool:
    try:
        connection.request("GET", path)
    except wl.KubernetesError as error:
        return error.status == 404
    return False


def _made(resource: str) -> dict[str, Any]:
    specs: dict[str, dict[str, Any]] = {
        "pods": {"spec": {"containers": [{"name": "main", "image": "windlass/none:1"}]}},
        "services": {"spec": {"clusterIP": "None", "selector": {"app": "none"}}},
        "secrets": {"stringData": {"key": "value"}},
    }
    return {"metadata": {"name": "mine"}, **specs[resource]}


def _forward(connection: Connection) -> None:
    """Forward a port of a pod, and read from it."""
    from kubernetes.stream import portforward

    from on_kubernetes.accounts import core_of

    way = portforward(
        core_of(connection).connect_get_namespaced_pod_portforward,
        "target", connection.namespace, ports=str(PORT),
    )  # fmt: skip
    heard = way.socket(PORT)
    heard.setblocking(True)
    assert heard.recv(5)
    way.close()
