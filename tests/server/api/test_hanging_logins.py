"""A hanging login program of a cluster blocks one thread of the server, not all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from kube.kubeconfig_files import write_kubeconfig
from server_requests import API, Server

pytestmark = pytest.mark.thorough

AT_ONCE = 33  # more than a server has threads on any machine

# Reports its start, and logs in only after a signal of the test.
HANGING = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
(folder / f"runs-{os.getpid()}").touch()
while not (folder / "go").exists():
    time.sleep(0.05)
sys.exit("nobody is logged in")
"""


@pytest.fixture
def hanging(tmp_path: Path, fresh_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which the login program reports its start and waits for the test."""
    folder = tmp_path / "login"
    folder.mkdir()
    how = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": sys.executable,
        "args": ["-c", HANGING, str(folder)],
        "interactiveMode": "Never",
    }
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", "lab", exec=how)))
    monkeypatch.setenv("WINDLASS_LOGIN_SECONDS", str(10 * PATIENCE))  # the test ends the program
    yield folder
    (folder / "go").touch()


def test_a_hanging_login_program_leaves_the_server_responsive(
    hanging: Path, fresh_home: Path
) -> None:
    wl.server_info()  # starts a server
    server = Server(fresh_home)
    role = {"executable": {"type": "process", "argv": ["true"]}}
    body = json.dumps({"spec": {"roles": [role], "backend": "kubernetes"}}).encode()

    def manifests(_number: int) -> int:
        path = f"{API}/kubernetes/manifests"
        return server.ask("POST", path, body, Content_Type="application/json")[0]

    with ThreadPoolExecutor(AT_ONCE + 1) as askers:
        futures = [askers.submit(manifests, number) for number in range(AT_ONCE)]
        try:
            eventually(lambda: any(hanging.iterdir()), "it is to log in")
            # Operations that need threads of the server: upload code, reconcile and run a job.
            other = askers.submit(lambda: wl.run(lambda: 7)())
            assert other.result(timeout=PATIENCE) == 7
            assert len(list(hanging.iterdir())) == 1
            assert not any(future.done() for future in futures)
        finally:
            (hanging / "go").touch()
        assert {future.result(timeout=PATIENCE) for future in futures} == {200}
