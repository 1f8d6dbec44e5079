"""A hanging login program delays only operations that need a new connection."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually, kill_server
from kube.login_program import LoginProgram
from on_kubernetes.accounts import Accounts, admin_connection
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from on_kubernetes.runtime.trials import begun, is_empty, log_lines, python, replica_messages
from windlass.kube.permissions.check import missing_permissions
from windlass.kube.permissions.required import RUNNING, role_rules

LIMIT = 5  # time limit of the program in seconds
SUBMIT = """
    import windlass as wl
    there = wl.Kubernetes(namespace={namespace!r}, cpus=0.05)
    wl.Job(wl.Command(["true"]), executor=there).submit()
"""


class Login:
    """A kubeconfig file whose program logs in, until it hangs."""

    def __init__(self, program: LoginProgram, file: Path) -> None:
        self.program = program
        self.file = file

    def hang(self) -> None:
        """Make the program hang, and require a new login."""
        self.program.hang()
        os.utime(self.file)

    def recover(self) -> None:
        """Make the program answer again."""
        self.program.recover()


@pytest.fixture
def login(
    cluster: Cluster,
    proxy: Proxy,
    namespace: Namespace,
    home_with_cluster: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Login:
    admin = admin_connection(cluster.kubeconfig, namespace.name)
    accounts = Accounts(admin)
    accounts.make("ada", role_rules(RUNNING))
    connection = accounts.connect("ada")
    eventually(lambda: not missing_permissions(connection, namespace.name), "it has rights")
    program = LoginProgram(tmp_path / "program", accounts.token("ada"))
    admin.close()
    settings = yaml.safe_load(proxy.kubeconfig(tmp_path).read_text())
    settings["users"][0]["user"] = {"exec": program.section}
    file = tmp_path / "kubeconfig-with-a-program"
    file.write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setenv("WINDLASS_LOGIN_SECONDS", str(LIMIT))
    return Login(program, file)


def test_local_trials_and_stops_continue_while_a_login_hangs(
    login: Login, namespace: Namespace, gate: Gate, tmp_path: Path
) -> None:
    kept, stopped = begun(namespace, gate), begun(namespace, gate)
    login.hang()
    before = login.program.started
    with ThreadPoolExecutor() as askers:
        futures = [askers.submit(python("", namespace).submit) for _ in range(8)]
        eventually(lambda: login.program.started > before, "it is to log in")
        local = askers.submit(wl.run(lambda: 7))
        assert local.result(timeout=PATIENCE) == 7
        done = Project(tmp_path / "project").run(BIN / "windlass", "stop", stopped.id)
        assert done.returncode == 0, done.stderr
        errors = [future.exception(timeout=PATIENCE) for future in futures]
    assert stopped.refresh().state == "STOPPED"
    for error in errors:
        assert isinstance(error, wl.KubernetesError)
        assert f"{login.program.path} did not answer within {LIMIT} s" in str(error)
    assert kept.refresh().state == "RUNNING"

    login.recover()
    gate.create("go")
    kept.wait(timeout=PATIENCE)
    assert kept.state == "SUCCEEDED" and kept.restarts == 0
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")
    login.program.wait_gone()


def credential_expires(login: Login, proxy: Proxy, home: Path) -> None:
    login.hang()
    proxy.cut()  # a watcher requests a new one


def server_starts_anew(login: Login, proxy: Proxy, home: Path) -> None:
    login.hang()
    kill_server(home)  # the next request starts another


@pytest.mark.parametrize(
    "happens",
    [credential_expires, pytest.param(server_starts_anew, marks=pytest.mark.thorough)],
)
def test_the_status_of_a_trial_names_the_hanging_login_program(
    happens: Callable[[Login, Proxy, Path], None],
    login: Login, proxy: Proxy, home_with_cluster: Path, namespace: Namespace, gate: Gate,
) -> None:  # fmt: skip
    login.program.expire()
    trial = begun(namespace, gate)
    happens(login, proxy, home_with_cluster)
    message = f"{login.program.path} did not answer within {LIMIT} s"
    eventually(lambda: message in replica_messages(trial), "it is reported")
    assert message in trial.message, "in the status line as well"
    assert wl.run(lambda: 7)() == 7

    login.recover()
    gate.create("go")
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED" and trial.restarts == 0
    assert log_lines(trial)[-1].endswith("done")
    login.program.wait_gone()


@pytest.mark.thorough
def test_a_server_stops_at_once_while_a_login_hangs(
    login: Login, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_LOGIN_SECONDS", str(PATIENCE))
    wl.server_info()  # starts a server
    login.hang()
    project = Project(tmp_path / "project")
    script = project.write("submit.py", SUBMIT.format(namespace=namespace.name))
    asking = project.start(script)
    try:
        eventually(lambda: login.program.started > 0, "it is to log in")
        done = project.run(BIN / "windlass", "server", "stop")
        assert done.returncode == 0, done.stderr
        login.program.wait_gone()
    finally:
        asking.kill()  # it would wait for the server to come back
        asking.communicate(timeout=PATIENCE)
