"""Examining a cluster that is not there, or keeps silent."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from kube.kubeconfig_files import write_kubeconfig
from windlass.home import Home
from windlass.kube.check_cluster import examine

URL = "http://127.0.0.1:1"


def test_that_no_cluster_is_known_is_told_apart_from_one_that_cannot_be_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = examine(Home.find(), url=URL)
    assert not nothing.is_configured and not nothing.server
    monkeypatch.setenv("KUBECONFIG", str(place / "missing"))
    missing = examine(Home.find(), url=URL)
    assert missing.is_configured and not missing.server
    assert [each.level for each in missing.findings] == ["error"]


def test_a_cluster_that_says_nothing_is_left_after_the_time_that_it_has(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes connections, and no more
        path = write_kubeconfig(place / "config", "lab")
        said = json.loads(path.read_text())
        said["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        path.write_text(json.dumps(said))
        monkeypatch.setenv("KUBECONFIG", str(path))
        seen = examine(Home.find(), url=URL, within=0.5)
    assert seen.namespace == "of-lab"
    assert [each.check for each in seen.findings] == ["cluster", "reachable"]
    assert "took longer than 0.5 s" in seen.findings[-1].text
