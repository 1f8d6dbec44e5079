"""Tunnels trust only the certificates of the current login."""

from __future__ import annotations

import gc
import ssl
import weakref
from pathlib import Path

import pytest

from kube.kubeconfig_files import write_kubeconfig
from windlass.home import Home
from windlass.kube.api.connection import Connection, connect
from windlass.runtimes.kubernetes.agents.port_forward import Tunnels

LOGINS = 20  # enough that a new object gets the memory address of an old one


def login(folder: Path, *, is_trusted: bool) -> Connection:
    file = write_kubeconfig(folder / "config", "lab", server="https://127.0.0.1:1")
    made = connect(config_file=str(file), home=Home(folder / "home"))
    made.api.configuration.verify_ssl = is_trusted
    return made


def mode_of(tunnels: Tunnels, connection: Connection) -> ssl.VerifyMode:
    context = tunnels._context(connection)
    assert isinstance(context, ssl.SSLContext)
    return context.verify_mode


@pytest.mark.thorough
def test_a_login_does_not_inherit_trust_from_an_earlier_one(tmp_path: Path) -> None:
    tunnels = Tunnels(lambda: "http://127.0.0.1:1")
    for _ in range(LOGINS):
        assert mode_of(tunnels, login(tmp_path, is_trusted=False)) is ssl.CERT_NONE
        assert mode_of(tunnels, login(tmp_path, is_trusted=True)) is ssl.CERT_REQUIRED


def test_all_tunnels_of_a_login_share_its_trust(tmp_path: Path) -> None:
    tunnels = Tunnels(lambda: "http://127.0.0.1:1")
    connection = login(tmp_path, is_trusted=True)
    assert tunnels._context(connection) is tunnels._context(connection)


def test_nothing_is_kept_of_a_replaced_login(tmp_path: Path) -> None:
    tunnels = Tunnels(lambda: "http://127.0.0.1:1")
    first = login(tmp_path, is_trusted=False)
    context = weakref.ref(tunnels._context(first))
    gone = weakref.ref(first)
    del first
    tunnels._context(login(tmp_path, is_trusted=True))
    gc.collect()
    assert gone() is None and context() is None
