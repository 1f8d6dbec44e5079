"""The benchmarks run, and their report has the documented shape. No test judges a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import PATIENCE, eventually
from windlass.worker.common.process_identity import is_alive

ROOT = Path(__file__).parent.parent


def bench(
    *arguments: str | Path, temporary: Path, cache: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the benchmarks as `make bench` does, with temporary files in a folder of the test."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *map(str, arguments)],
        cwd=ROOT,
        env={
            **os.environ,
            "TMPDIR": str(temporary),
            **({"XDG_CACHE_HOME": str(cache)} if cache else {}),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of the cheapest figures."""
    folder = tmp_path_factory.mktemp("bench")
    temporary = folder / "tmp"
    temporary.mkdir()
    written = folder / "report.json"
    done = bench("--only", "help,warm-call", "--skip-peers", "--json", written, temporary=temporary)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(temporary.iterdir()) == [], "the benchmarks left something"
    loaded: dict[str, Any] = json.loads(written.read_bytes())
    return {**loaded, "printed": done.stdout}


@pytest.mark.thorough
def test_every_figure_has_a_value_a_ratio_and_a_verdict(report: dict[str, Any]) -> None:
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert list(figures) == ["help", "warm-call.p50", "warm-call.p95"]
    for figure in figures.values():
        value, budget = figure["value"], figure["budget"]
        assert figure["error"] == ""
        assert value["unit"] == "ms"
        assert value["bare"] > 0
        assert value["low"] <= value["high"]
        assert value["ratio"] == pytest.approx(value["amount"] / value["bare"])
        assert figure["ok"] is (value[budget["of"]] <= budget["limit"])
    budgets = [figure["budget"]["text"] for figure in figures.values()]
    assert budgets == ["≤ 5 × bare", "≤ 1.5 × bare", "≤ 2 × bare"]


@pytest.mark.thorough
def test_the_report_names_the_machine_and_the_versions(report: dict[str, Any]) -> None:
    assert report["version"] == 1
    assert report["machine"]["cores"] >= 1
    assert report["machine"]["python"].split()[1] == sys.version.split()[0]
    assert report["yardstick"].startswith("python -c pass")
    assert report["bare"]["samples"] > 40
    assert report["conditions"] in report["printed"]


@pytest.mark.thorough
def test_the_table_shows_each_figure(report: dict[str, Any]) -> None:
    printed = report["printed"]
    for figure in report["figures"]:
        [row] = [line for line in printed.splitlines() if line.startswith(figure["name"] + " ")]
        assert figure["title"] in row


@pytest.mark.thorough
def test_an_unavailable_peer_is_reported_and_the_other_peers_run(tmp_path: Path) -> None:
    written = tmp_path / "report.json"
    no_folder = tmp_path / "file"
    no_folder.touch()
    done = bench("--only", "import", "--json", written, temporary=tmp_path, cache=no_folder)
    assert done.returncode == 0, done.stderr
    [imported, _] = json.loads(written.read_bytes())["figures"]
    assert imported["value"]["samples"] == 20
    assert [peer["name"] for peer in imported["peers"]] == ["submitit", "ray"]
    assert all(peer["value"] is None for peer in imported["peers"])
    assert all("cannot be installed" in peer["note"] for peer in imported["peers"])
    assert "cannot be installed" in done.stdout


@pytest.mark.thorough
def test_an_interrupted_run_stops_its_server_and_leaves_nothing(tmp_path: Path) -> None:
    def find_server() -> Path | None:
        return next(tmp_path.glob("wlb-*/home/server.json"), None)

    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "--only", "warm-call", "--skip-peers"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        eventually(lambda: find_server() is not None, "the server of a benchmark")
        record = find_server()
        assert record is not None
        server = json.loads(record.read_bytes())
        running.send_signal(signal.SIGINT)
        _, complaint = running.communicate(timeout=PATIENCE)
    assert running.returncode == 128 + signal.SIGINT, complaint
    assert "Traceback" not in complaint
    assert list(tmp_path.iterdir()) == []
    assert not is_alive(server["pid"], server["identity"])


def test_an_unknown_name_is_refused_with_a_list_of_names(tmp_path: Path) -> None:
    done = bench("--only", "speed", temporary=tmp_path)
    assert done.returncode == 2
    assert "there is no speed; choose one of: import, help, first-value" in done.stderr
