"""Examining a cluster that is not there, or keeps silent."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from kube_room.kubeconfigs import write_kubeconfig
from windlass.home import Home
from windlass.kube.examining import examine

URL = "http://127.0.0.1:1"


def test_that_no_cluster_is_known_is_told_apart_from_one_that_cannot_be_used(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = examine(Home.find(), url=URL)
    assert not nothing.is_known and not nothing.server
    monkeypatch.setenv("KUBECONFIG", str(place / "missing"))
    missing = examine(Home.find(), url=URL)
    assert missing.is_known and not missing.server
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


def test_a_login_that_takes_for_ever_is_left_as_well(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = place / "ended"
    program = f"import os, time\nwhile not os.path.exists({str(ended)!r}): time.sleep(0.1)"
    how = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": sys.executable,
        "args": ["-c", program],
        "interactiveMode": "Never",
    }
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(place / "config", "lab", exec=how)))
    try:
        seen = examine(Home.find(), url=URL, within=0.5)
    finally:
        ended.touch()
    assert seen.is_known and not seen.server
    [finding] = seen.findings
    assert "who logs us in took longer than 0.5 s" in finding.text
