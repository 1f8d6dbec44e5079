"""Resource usage of replicas: recorded beside reported metrics and excluded from tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually
from job_requests import role, submit

SHARES_HOME = True

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")


def test_every_replica_is_measured_and_tables_show_only_reported_metrics(
    home: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SYSTEM_METRICS", "0.2")
    go = tmp_path / "go"
    program = f"import windlass as wl; wl.report(0, loss=0.5); wait_for({str(go)!r})"
    trial = submit(role(program, replicas=2))

    def seen() -> set[int]:
        points = trial.metrics("system/memory_bytes")
        return {point.index for point in points if point.value > 1 << 20}

    try:
        eventually(
            lambda: "system/memory_bytes" in trial.refresh().summary_metrics, "it is reported"
        )
        eventually(lambda: seen() == {0, 1}, "both are looked at while they run")
    finally:
        go.touch()
    trial.wait(PATIENCE)
    summary = trial.summary_metrics["system/cpu_percent"]
    assert summary.count >= 2 and summary.max is not None and summary.max > 0
    page = project.run(BIN / "windlass", "show", str(trial.id)).stdout
    assert "system/" not in page
    assert "  CPU   " in page and "  memory   " in page and "loss" in page
    other = submit(role("import windlass as wl; wl.report(0, loss=0.5)")).wait(PATIENCE)
    table = str(wl.compare([trial, other]))
    assert "loss" in table and "system" not in table
    assert "memory_bytes" in str(wl.compare([trial, other], metrics="system/memory_bytes.max"))
    assert [change.name for change in trial.diff(other).metrics] == ["loss"], "two said it"
