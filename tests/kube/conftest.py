"""Fixtures for the tests of `windlass.kube`, none of which needs a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a cluster, with its own home."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "WINDLASS_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "windlass"))
    return tmp_path
