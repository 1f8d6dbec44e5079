"""`windlass metrics`: tables and curves of reported metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli.shells import Shell
from cli.terminals import PATIENCE, eventually
from job_requests import role
from windlass.client.resources.trial.trial import Trial

PROGRAM = """
import math
import windlass as wl
for step in range(200):
    wl.report(step, loss=9.0 if step == 100 else math.exp(-step / 50))
    wl.report(step, group="validation", loss=1.0)
wl.report(200, loss=float("nan"))
"""


@pytest.fixture(scope="module")
def reported(module_shell: Shell) -> Trial[Any]:
    return module_shell.submit_roles(role(PROGRAM)).wait(timeout=PATIENCE)


def test_a_table_of_all_metrics(module_shell: Shell, reported: Trial[Any]) -> None:
    head, loss, validation = module_shell.good("metrics", str(reported.id)).splitlines()
    assert head.split() == ["METRIC", "LAST", "MIN", "MAX", "MEAN", "STEP", "COUNT"]
    assert loss.split()[:4] == ["loss", "nan", "0.0186856", "9"]
    assert validation.split() == ["validation/loss", "1", "1", "1", "1", "199", "200"]
    record = module_shell.json("metrics", str(reported.id), "--json")
    assert record["validation/loss"]["count"] == 200


def test_the_points_of_one_metric(module_shell: Shell, reported: Trial[Any]) -> None:
    lines = module_shell.good("metrics", str(reported.id), "loss").splitlines()
    assert lines[0] == "0\t1\tworker-0.1"
    assert lines[-1] == "200\tnan\tworker-0.1"
    assert len(lines) == 201
    few = module_shell.good("metrics", str(reported.id), "loss", "-n", "20").splitlines()
    assert "100\t9\tworker-0.1" in few
    assert len(few) <= 20
    grouped = module_shell.good("metrics", str(reported.id), "loss", "-g", "validation", "--json")
    points = [json.loads(line) for line in grouped.splitlines()]
    assert len(points) == 200
    assert (points[0]["step"], points[0]["value"], points[0]["name"]) == (0, 1.0, "validation/loss")


def test_the_metrics_of_all_trials_of_an_experiment(
    module_shell: Shell, reported: Trial[Any]
) -> None:
    other = module_shell.submit_roles(role(PROGRAM)).wait(timeout=PATIENCE)
    name = reported.experiment
    assert other.experiment == name
    record = module_shell.json("metrics", "-e", name, "--json")
    assert {str(reported.id), str(other.id)} <= record.keys()
    lines = module_shell.good("metrics", "-e", name, "loss").splitlines()
    assert f"200\tnan\tworker-0.1\t{reported.id}" in lines
    assert f"200\tnan\tworker-0.1\t{other.id}" in lines
    assert "an experiment with -e" in module_shell("metrics").stderr
    assert "There is no experiment" in module_shell("metrics", "-e", "nothing", "loss").stderr


def test_a_curve_is_drawn_as_wide_as_the_terminal(
    module_shell: Shell, reported: Trial[Any]
) -> None:
    terminal = module_shell.terminal("metrics", str(reported.id), "loss", "--plot", columns=60)
    with terminal.closing():
        assert terminal.end() == 0
        head, *curve, below, odd = [line.rstrip() for line in terminal.lines if line.strip()]
    assert head.startswith(f"loss  trial {reported.id} (mnist)  last nan  min 0.0186856  max 9")
    assert all(len(line) <= 60 for line in curve)
    assert all("┤" in line for line in curve)
    spike = curve[0].index("┤") + 1 + (60 - curve[0].index("┤") - 1) // 2
    # The spike is in the middle of every line.
    assert all(set(line[spike - 2 : spike + 2]) - {" "} for line in curve)
    assert below.split() == ["0", "199"]
    assert odd == "Not drawn, because they are NaN or infinite: 1 of the points"


def test_a_terminal_without_braille_gets_stars(module_shell: Shell, reported: Trial[Any]) -> None:
    plain = module_shell.good(
        "metrics", str(reported.id), "loss", "--plot", PYTHONIOENCODING="ascii", COLUMNS="50"
    )
    assert plain.isascii()
    assert any(set(line.partition("|")[2]) == {" ", "*"} for line in plain.splitlines())


def test_several_trials_and_metrics_are_printed_together(
    module_shell: Shell, reported: Trial[Any]
) -> None:
    program = "import windlass as wl\nfor step in range(3): wl.report(step, loss=step, rate=2.5)"
    other = module_shell.submit_roles(role(program), name="other").wait(timeout=PATIENCE)
    both = str(reported.id), str(other.id)
    head, *rows = module_shell.good("metrics", *both).splitlines()
    assert head.split()[:3] == ["TRIAL", "METRIC", "LAST"]
    assert [row.split()[:2] for row in rows] == [
        [both[0], "loss"], [both[0], "validation/loss"], [both[1], "loss"], [both[1], "rate"],
    ]  # fmt: skip
    assert set(module_shell.json("metrics", *both)) == set(both)
    points = module_shell.good("metrics", *both, "loss", "rate").splitlines()
    assert points[0] == f"0\t1\tworker-0.1\tloss\t{both[0]}"
    assert points[-1] == f"2\t2.5\tworker-0.1\trate\t{both[1]}"
    assert len(points) == 201 + 3 + 3

    terminal = module_shell.terminal("metrics", *both, "loss", "rate", "--plot", columns=70)
    with terminal.closing():
        assert terminal.end() == 0
        a, b, c, d, *drawn = [line.rstrip() for line in terminal.lines if line.strip()]
    assert a.startswith(f"A  loss  trial {both[0]} (mnist)  last nan")
    assert b.startswith(f"B  loss  trial {both[1]} (other)  last 2")
    assert c.startswith(f"C  rate  trial {both[0]} (mnist)  nothing reported")
    assert d.startswith(f"D  rate  trial {both[1]} (other)  last 2.5")
    curves = "".join(line.partition("┤")[2] for line in drawn)
    assert curves.count("A") > 2  # along the whole curve
    assert "B" in curves and "D" in curves and "C" not in curves
    plain = module_shell.good(
        "metrics", *both, "loss", "rate", "--plot", PYTHONIOENCODING="ascii", COLUMNS="70"
    )
    assert plain.isascii()
    letters = "".join(line.partition("|")[2] for line in plain.splitlines())
    assert set(letters) == {" ", "A", "B", "D"}
    for wrong, what in (
        (["loss", both[0]], "'loss' is not a trial id"),
        ([*both, "loss", "-f"], "--follow works for one trial"),
        ([*both, *(f"m{n}" for n in range(14)), "--plot"], "26 curves are the most"),
    ):
        done = module_shell("metrics", *wrong)
        assert done.returncode == 2 and what in done.stderr


def test_points_are_printed_as_they_arrive(module_shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    program = f"""
import windlass as wl
wl.report_progress(0.5)
wl.report(1, loss=0.5)
wait_for({str(gate)!r})
wl.report(2, loss=0.25)
"""
    trial = module_shell.submit_roles(role(program))
    terminal = module_shell.terminal("metrics", str(trial.id), "loss", "-f")
    with terminal.closing():
        terminal.until("STEP         VALUE  REPLICA")
        terminal.until("1           0.5  worker-0.1")
        eventually(lambda: "RUNNING 50%" in module_shell.good("ls"), "how far it is")
        assert "50%" in module_shell.good("show", str(trial.id))
        gate.touch()
        assert terminal.end() == 0
        assert "2          0.25  worker-0.1" in terminal.text


def test_a_missing_metric_is_reported(module_shell: Shell, reported: Trial[Any]) -> None:
    number = str(reported.id)
    for args in (["los"], ["los", "--plot"]):
        done = module_shell("metrics", number, *args)
        assert done.returncode == 1
        assert "has no metric 'los'. Did you mean 'loss'?" in done.stderr
        assert "Traceback" not in done.stderr
    done = module_shell("metrics", number, "--plot")
    assert "Name a metric. The metrics are: loss, validation/loss." in " ".join(done.stderr.split())
    assert done.returncode == 2
    assert "Remove --max-points" in module_shell("metrics", number, "loss", "-f", "-n", "3").stderr
    silent = module_shell.submit_roles(role("pass")).wait(timeout=PATIENCE)
    done = module_shell("metrics", str(silent.id))
    assert (done.returncode, done.stdout) == (0, "")
    assert "has reported no metrics" in done.stderr
    done = module_shell("metrics", str(silent.id), "loss")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has reported no metrics: there is no 'loss'" in done.stderr


def test_the_number_of_points_is_as_requested(module_shell: Shell, reported: Trial[Any]) -> None:
    for count in (1, 2, 3, 5):
        lines = module_shell.good("metrics", str(reported.id), "loss", "-n", str(count))
        assert len(lines.splitlines()) == count


def test_a_curve_of_only_nan_has_no_minimum_and_maximum(module_shell: Shell) -> None:
    program = 'import windlass as wl\nwl.report(1, loss=float("nan"))'
    odd = module_shell.submit_roles(role(program)).wait(timeout=PATIENCE)
    head, *rest = module_shell.good("metrics", str(odd.id), "loss", "--plot").splitlines()
    assert head.endswith("last nan")
    assert "NaN or infinite: 1 of the points" in rest[-1]


def test_metric_names_of_the_trial_are_completed(module_shell: Shell, reported: Trial[Any]) -> None:
    words = f"windlass metrics {reported.id} val"
    done = module_shell(_WINDLASS_COMPLETE="zsh_complete", COMP_WORDS=words, COMP_CWORD="3")
    assert done.stdout.splitlines()[:2] == ["plain", "validation/loss"]


def test_a_logarithmic_axis_leaves_out_zero_and_negative_values(module_shell: Shell) -> None:
    program = """
import windlass as wl
for step, loss in enumerate([1, 0.1, 0, float("nan"), -2, 0.001]):
    wl.report(step, loss=loss, debt=-1)
"""
    number = str(module_shell.submit_roles(role(program)).wait(timeout=PATIENCE).id)
    shown = module_shell.good("metrics", number, "loss", "--plot", "--log", LINES="8", COLUMNS="40")
    _, top, *_, odd, low = shown.splitlines()
    assert top.split()[0] == "1"
    assert "\n0.001 " in shown
    assert odd.endswith("NaN or infinite: 1 of the points")
    assert low == "Not drawn on a logarithmic axis, because they are zero or negative: 2"
    debts = module_shell.good("metrics", number, "debt", "--plot", "--log")
    assert "No positive points were reported." in debts
    assert "--log needs --plot" in module_shell("metrics", number, "loss", "--log").stderr


@pytest.mark.finding("U19")
def test_system_metrics_are_printed_only_on_request_and_with_times(
    module_shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SYSTEM_METRICS", "0.2")
    gate = tmp_path / "gate"
    program = f"import windlass as wl\nwl.report(7, loss=0.5)\nwait_for({str(gate)!r})"
    trial = module_shell.submit_roles(role(program))
    number = str(trial.id)
    eventually(lambda: "system/cpu_percent" in trial.refresh().summary_metrics, "a sample")
    gate.touch()
    trial.wait(timeout=PATIENCE)

    done = module_shell("metrics", number)
    assert "loss" in done.stdout and "system/" not in done.stdout
    hint = f"System metrics (CPU, memory, disk, GPU): windlass metrics {number} --system"
    assert done.stderr.splitlines() == [hint]
    assert list(module_shell.json("metrics", number, "--json")) == ["loss"]

    moment = r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d"
    lines = module_shell.good("metrics", number, "--system").splitlines()[1:]
    assert lines and all(re.match(rf"system/\S+ .* {moment} +\d+$", line) for line in lines)
    points = module_shell.good("metrics", number, "system/processes").splitlines()
    assert points and all(re.match(rf"{moment}\t1\t", line) for line in points)
    plot = module_shell.good("metrics", number, "-g", "system", "processes", "--plot")
    assert re.search(moment, plot.splitlines()[-1])
    terminal = module_shell.terminal("metrics", number, "-g", "system", "processes")
    with terminal.closing():
        assert terminal.end() == 0
    assert "TIME" in terminal.lines[0]
    assert "--system prints a table" in module_shell("metrics", number, "x", "--system").stderr
