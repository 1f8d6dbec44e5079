"""Checks of a cluster that is missing or does not respond."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from kube.kubeconfig_files import write_kubeconfig
from windlass.home import Home
from windlass.kube.check_cluster import examine

URL = "http://127.0.0.1:1"


def test_a_missing_cluster_differs_from_an_unusable_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = examine(Home.find(), url=URL)
    assert not nothing.is_configured and not nothing.server
    monkeypatch.setenv("KUBECONFIG", str(place / "missing"))
    missing = examine(Home.find(), url=URL)
    assert missing.is_configured and not missing.server
    assert [finding.level for finding in missing.findings] == ["error"]


def test_a_cluster_without_a_response_is_abandoned_after_its_time_limit(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it only accepts connections
        path = write_kubeconfig(place / "config", "lab")
        record = json.loads(path.read_text())
        record["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        path.write_text(json.dumps(record))
        monkeypatch.setenv("KUBECONFIG", str(path))
        seen = examine(Home.find(), url=URL, within=0.5)
    assert seen.namespace == "of-lab"
    assert [finding.check for finding in seen.findings] == ["cluster", "reachable"]
    assert "took longer than 0.5 s" in seen.findings[-1].text
