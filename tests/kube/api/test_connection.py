"""The cluster, user and namespace of a connection."""

from __future__ import annotations

import base64
import json
import os
import socket
import stat
import sys
from pathlib import Path

import pytest
import yaml

import windlass as wl
from kube.kubeconfig_files import write_kubeconfig
from windlass.home import Home
from windlass.kube.api.connection import connect
from windlass.kube.api.stored_login import ConfigFileLogin, TokenLogin, read_login, write_login


def test_without_a_cluster_the_ways_to_configure_one_are_listed() -> None:
    with pytest.raises(wl.KubernetesError) as caught:
        connect()
    assert "No Kubernetes cluster is configured" in str(caught.value)
    assert "wl.TokenAuthentication" in str(caught.value)
    assert "~/.kube/config" in str(caught.value)


def test_the_default_kubeconfig_is_used_with_its_namespace_and_user(place: Path) -> None:
    write_kubeconfig(place / ".kube" / "config", "lab", "other")
    connection = connect()
    assert connection.server == "https://lab.example:6443"
    assert (connection.namespace, connection.account) == ("of-lab", "lab-user")
    assert "context lab" in connection.source


def test_an_argument_selects_another_context_or_namespace(place: Path) -> None:
    write_kubeconfig(place / ".kube" / "config", "lab", "other")
    assert connect("other").server == "https://other.example:6443"
    assert connect(namespace="mine").namespace == "mine"
    with pytest.raises(wl.KubernetesError, match="no context 'else'") as caught:
        connect("else")
    assert "It has: lab, other." in str(caught.value)


def test_the_variable_names_files_and_missing_ones_are_skipped(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kubeconfig(place / ".kube" / "config", "usual")
    first = write_kubeconfig(place / "first", "first")
    second = write_kubeconfig(place / "second", "second")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (place / "none", first, second))))
    assert connect("first").server == "https://first.example:6443"
    assert connect("second").server == "https://second.example:6443"


def test_a_login_comes_before_files_and_an_argument_before_a_login(place: Path) -> None:
    write_kubeconfig(place / ".kube" / "config", "usual")
    write_login(Home.find(), TokenLogin(server="https://elsewhere:6443/", token="t"))
    assert connect().server == "https://elsewhere:6443"
    assert connect("usual").server == "https://usual.example:6443"


def test_a_connection_detects_a_later_login_or_logout(place: Path) -> None:
    write_kubeconfig(place / ".kube" / "config", "usual")
    connection = connect()
    assert not connection.is_outdated
    write_login(Home.find(), TokenLogin(server="https://elsewhere:6443", token="t"))
    assert connection.is_outdated
    assert not connect().is_outdated


def test_a_connection_detects_a_changed_or_replaced_kubeconfig(place: Path) -> None:
    file = place / ".kube" / "config"
    write_kubeconfig(file, "usual")
    connection = connect()
    assert not connection.is_outdated
    new = file.with_name("new")
    write_kubeconfig(new, "usual")
    new.replace(file)
    assert connection.is_outdated
    connection = connect()
    os.utime(file)
    assert connection.is_outdated


# Logs in, and its tool rewrites the file meanwhile, this many times.
REWRITING = """
import json, os, pathlib, sys
file, new, left = map(pathlib.Path, sys.argv[1:4])
times = int(left.read_text())
if times:
    left.write_text(str(times - 1))
    written = file.with_suffix(".part")
    written.write_text(new.read_text())
    os.replace(written, file)
    if "fail" in sys.argv:
        sys.exit("the login has expired")
told = {"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential"}
print(json.dumps({**told, "status": {"token": "a-token"}}))
"""


def rewritten_while_read(place: Path, times: int, *more: str) -> None:
    """A kubeconfig file that its login program replaces before the file is used."""
    file, new, left = place / ".kube" / "config", place / "new", place / "left"
    left.write_text(str(times))
    how = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": sys.executable,
        "args": ["-c", REWRITING, str(file), str(new), str(left), *more],
        "interactiveMode": "Never",
    }
    write_kubeconfig(file, "before", exec=how)
    write_kubeconfig(new, "after", exec=how)


@pytest.mark.parametrize("more", [(), ("fail",)])
def test_a_file_that_changes_while_it_is_read_is_read_again(
    place: Path, more: tuple[str, ...]
) -> None:
    rewritten_while_read(place, 1, *more)
    connection = connect()
    assert (connection.server, connection.namespace) == ("https://after.example:6443", "of-after")
    assert not connection.is_outdated


def test_a_file_that_changes_at_every_read_is_used_and_marked_as_outdated(
    place: Path,
) -> None:
    rewritten_while_read(place, 100)
    assert connect().is_outdated
    assert int((place / "left").read_text()) > 90, "that is not tried for ever"


def test_a_partially_written_file_is_used_or_reported(
    place: Path,
) -> None:
    file = place / ".kube" / "config"
    authority = base64.b64encode(b"a certificate").decode()
    whole = yaml.safe_dump(
        {
            "clusters": [
                {
                    "name": "lab",
                    "cluster": {
                        "server": "https://lab:6443",
                        "certificate-authority-data": authority,
                    },
                }
            ],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "ada"}}],
            "current-context": "lab",
            "users": [{"name": "ada", "user": {"token": "of-ada"}}],
        }
    )
    file.parent.mkdir()
    used = []
    for length in range(len(whole) + 1):
        file.write_text(whole[:length])
        try:
            connect().close()
        except wl.KubernetesError as error:
            assert "cannot be used" in error.message, whole[:length]
        else:
            used.append(length)
    assert len(whole) in used and 0 not in used


def test_a_token_is_readable_only_by_its_owner_and_never_shown() -> None:
    home = Home.find()
    write_login(home, TokenLogin(server="https://lab:6443", token="secret-of-mine"))
    assert stat.S_IMODE(home.kubernetes_login.stat().st_mode) == 0o600
    assert "secret-of-mine" not in repr(read_login(home))
    assert "secret-of-mine" not in repr(connect())
    auth = wl.TokenAuthentication("secret-of-mine", "https://lab:6443")
    assert "secret-of-mine" not in repr(auth)


def test_a_broken_login_file_is_reported_with_a_remedy() -> None:
    home = Home.find().make()
    home.kubernetes_login.write_text("{")
    with pytest.raises(wl.KubernetesError, match=r"kubernetes\.json cannot be read"):
        connect()


def test_a_service_account_token_names_its_account() -> None:
    claims = base64.urlsafe_b64encode(
        json.dumps({"sub": "system:serviceaccount:lab:trainer"}).encode()
    )
    token = f"e30.{claims.decode().rstrip('=')}.sig"
    write_login(Home.find(), TokenLogin(server="https://lab:6443", token=token))
    connection = connect()
    assert connection.account == "system:serviceaccount:lab:trainer"
    assert connection.namespace == "lab", "where it is likely to have rights"


@pytest.mark.parametrize("text", ["", "{", "- a list", "current-context: lab", "\x00"])
def test_an_invalid_kubeconfig_is_named(place: Path, text: str) -> None:
    file = place / "broken"
    file.write_text(text)
    with pytest.raises(wl.KubernetesError, match=r"broken cannot be used"):
        connect(config_file=str(file))


def test_a_missing_kubeconfig_is_named(place: Path) -> None:
    write_login(Home.find(), ConfigFileLogin(path=str(place / "gone")))
    with pytest.raises(wl.KubernetesError, match=r"There is no kubeconfig file '.*gone'"):
        connect()


def test_a_login_program_runs_and_its_failure_is_reported(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", "import sys; sys.exit('your session is over')"],
        "interactiveMode": "Never",
    }
    file = write_kubeconfig(place / "config", "lab", exec=program)
    with pytest.raises(wl.KubernetesError, match=r"The login program of .* failed") as caught:
        connect(config_file=str(file))
    assert "your session is over" in str(caught.value) + capfd.readouterr().err


def test_an_address_without_a_listener_is_reported_as_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listening
        auth = wl.TokenAuthentication("t", f"https://127.0.0.1:{taken.getsockname()[1]}")
        refused = pytest.raises(wl.KubernetesError, match="cannot be reached: Connection refused")
        with refused as caught:
            auth.login()
    assert len(caught.traceback) == 2, "its own line, and one of ours"
    assert read_login(Home.find()) is None


def test_an_unknown_host_name_is_reported() -> None:
    with pytest.raises(wl.KubernetesError) as caught:
        wl.TokenAuthentication("t", "https://no-such-host.invalid:6443").login()
    assert "The host name cannot be resolved" in str(caught.value)
    assert caught.value.reason == "Unreachable"


def test_a_server_without_tls_is_reported() -> None:
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(100)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with pytest.raises(wl.KubernetesError, match="does not use TLS"):
                wl.TokenAuthentication("t", f"https://127.0.0.1:{server.getsockname()[1]}").login()
        finally:
            thread.join()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"token": "", "server": "https://lab"}, "token is not valid"),
        ({"token": "two words", "server": "https://lab"}, "token is not valid"),
        ({"token": "t", "server": "lab:6443"}, "write server='https://lab:6443'"),
        ({"token": "t", "server": "ftp://lab"}, "must start with https://"),
        ({"token": "t", "server": "https://l", "ca_cert_path": "no/file"}, "no file 'no/file'"),
        (
            {"token": "t", "server": "https://l", "skip_tls": True, "ca_cert_path": __file__},
            "ca_cert_path= has no effect",
        ),
    ],
)  # fmt: skip
def test_invalid_arguments_are_refused_before_any_connection(
    fields: dict[str, object], message: str
) -> None:
    with pytest.raises(wl.InvalidArgument) as caught:
        wl.TokenAuthentication(**fields).login()  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_file_without_certificates_is_named() -> None:
    with pytest.raises(wl.KubernetesError, match="contains no certificates"):
        wl.TokenAuthentication("t", "https://lab", ca_cert_path=__file__).login()


def test_a_login_applies_to_the_server_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_SERVER", "http://elsewhere:8000")
    with pytest.raises(wl.Unsupported, match="its own account"):
        wl.TokenAuthentication("t", "https://lab").login()


def test_a_logout_removes_only_its_own_login(place: Path) -> None:
    home = Home.find()
    write_login(home, TokenLogin(server="https://lab:6443", token="t"))
    assert "Nobody was logged in" in wl.TokenAuthentication("t", "https://other").logout()
    assert "was not in use" in wl.KubeConfigFileAuthentication(place / "x").logout()
    assert read_login(home) is not None
    assert "Logged out" in wl.TokenAuthentication("t", "https://lab:6443/").logout()
    assert read_login(home) is None


@pytest.mark.finding("U25")
def test_a_missing_client_is_an_error_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [module for module in sys.modules if module.partition(".")[0] == "kubernetes"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(wl.Unsupported) as caught:
        connect()
    # The tests run from a checkout, which a package index does not have.
    checkout = Path(__file__).parents[3]
    assert f"pip install -e '{checkout}[kubernetes]'" in str(caught.value)
