"""Metrics reported by programs, and the summaries and points that clients read."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from metric_functions import (
    report_again,
    report_all,
    report_at_once,
    report_kinds,
    report_names,
    report_odd,
    report_without_descriptors,
)

import windlass as wl
from harness import PATIENCE, eventually, kill_server
from job_requests import role, submit
from windlass.client.client import default_client
from windlass.client.connection.experiment_events import ExperimentEvents
from windlass.model.metrics import Points
from windlass.model.records import TrialRecord

SHARES_HOME = True


def test_a_summary_aggregates_all_values(home: Path) -> None:
    trial = report_all.submit([4.0, 1.0, 2.0]).wait(timeout=PATIENCE)
    loss = trial.summary_metrics["loss"]
    assert (loss.count, loss.min, loss.max, loss.last, loss.step) == (3, 1.0, 4.0, 2.0, 2)
    assert loss.mean == pytest.approx(7 / 3)
    assert wl.get_trial(trial.id).summary_metrics == {"loss": loss}
    [listed] = [listed_trial for listed_trial in wl.list_trials() if listed_trial.id == trial.id]
    assert listed.summary_metrics == {"loss": loss}


def test_the_group_is_part_of_the_name(home: Path) -> None:
    trial = report_all.submit([1.0], group="validation").wait(timeout=PATIENCE)
    assert list(trial.summary_metrics) == ["validation/loss"]


def test_nan_and_infinities_are_kept(home: Path) -> None:
    trial = report_odd.submit().wait(timeout=PATIENCE)
    odd = trial.summary_metrics["odd"]
    assert (odd.count, odd.min, odd.max, odd.mean) == (6, -math.inf, math.inf, 1.5)
    assert odd.last is not None
    assert math.isnan(odd.last)
    none = trial.summary_metrics["none"]
    assert (none.count, none.min, none.max, none.mean) == (1, None, None, None)
    values = [point.value for point in trial.metrics("odd")]
    assert list(map(repr, values)) == ["nan", "inf", "2.5", "-inf", "0.5", "nan"]
    # The sum exceeds a float: the mean is wrong, but all other statistics are correct.
    assert trial.summary_metrics["validation/huge"].max == 1.7e308
    assert {"validation/a/b", "validation/größe, [m]"} < set(trial.summary_metrics)


def test_numbers_of_every_kind_are_accepted_and_other_values_are_refused(home: Path) -> None:
    trial = report_kinds.submit()
    result = trial.result(timeout=PATIENCE)
    kinds = list(trial.metrics("kind"))
    assert [point.value for point in kinds] == [1, 1, 0.5, 0.25, 2, 3, 4, 5, 6.5]
    assert {point.step for point in kinds} == {5}
    assert list(trial.summary_metrics) == ["kind"]
    hint = "Report numbers: for a tensor with many elements, their mean or norm."
    assert result[:10] == [
        f"TypeError: loss: '0.5' is not a number.\n  {hint}",
        f"TypeError: loss: None is not a number.\n  {hint}",
        f"TypeError: loss: array([1, 2]) is not a number.\n  {hint}",
        f"ValueError: loss: {'1' + '0' * 98}… is too large for a float.\n  Report its logarithm.",
        "TypeError: report: no metric is named.\n"
        "  Pass metrics as keyword arguments: wl.report(0, loss=0.5)",
        "TypeError: report: no metric is named. {'loss': 1} is in the place of the group.\n"
        "  Pass metrics as keyword arguments: wl.report(1, loss=1)",
        "TypeError: step: 'loss' is not a whole number.\n"
        "  The step comes first, then metrics as keyword arguments: wl.report(1, loss=0.25)",
        f"TypeError: loss: array([], dtype=float64) is not a number.\n  {hint}",
        f"TypeError: loss: array(['1'], dtype='<U1') is not a number.\n  {hint}",
        "ValueError: step: -1 is not between 0 and 2**63 - 1.\n"
        "  Count from 0: wl.report(0, loss=0.1).",
    ]
    assert "taken" not in result
    assert all(len(text) < 300 for text in result)


def test_an_invalid_metric_value_raises_invalid_argument_for_the_author(home: Path) -> None:
    trial = report_all.submit(["low"]).wait(timeout=PATIENCE)
    with pytest.raises(wl.InvalidArgument, match="loss: 'low' is not a number") as caught:
        trial.result()
    assert isinstance(caught.value, TypeError)
    assert caught.value.hint is not None
    lines = list(trial.logs())
    assert lines[-2] == "windlass.InvalidArgument: loss: 'low' is not a number."
    assert trial.error is not None and trial.error.type == "windlass.InvalidArgument"


def test_the_number_of_metrics_is_limited(home: Path) -> None:
    trial = report_names.submit(1001)
    assert trial.result(timeout=PATIENCE).startswith("m1000: a trial has at most 1000 metrics")
    assert len(trial.summary_metrics) == 1000


def test_an_unknown_metric_name_suggests_a_known_one(home: Path) -> None:
    trial = report_all.submit([1.0]).wait(timeout=PATIENCE)
    with pytest.raises(KeyError) as caught:
        trial.summary_metrics["los"]
    assert f"Trial {trial.id} (report_all) has no metric 'los'. Did you mean 'loss'?" in str(
        caught.value
    )
    assert trial.summary_metrics.get("los") is None
    with pytest.raises(wl.NotFound) as of_points:
        list(trial.metrics("los"))
    assert str(of_points.value) == str(caught.value)
    silent = report_all.submit([]).wait(timeout=PATIENCE)
    with pytest.raises(KeyError, match="has reported no metrics"):
        silent.summary_metrics["loss"]
    with pytest.raises(wl.NotFound, match="has reported no metrics: there is no 'loss'"):
        list(silent.metrics("loss"))
    with pytest.raises(wl.NotFound, match="None of the 2 trials has a metric 'x'"):
        list(wl.get_metrics([silent, report_all.submit([]).wait(timeout=PATIENCE)], "x"))
    assert list(silent.metrics()) == []


def test_a_metric_is_visible_while_the_trial_runs(home: Path, tmp_path: Path) -> None:
    """Also the second of two consecutive reports, which share one notification."""
    trial = report_all.submit([1.0, 2.0], gate=str(tmp_path / "go"))

    def count() -> int:
        metrics = trial.refresh().summary_metrics
        return metrics["loss"].count if metrics else 0

    eventually(lambda: count() == 2, "both are counted")
    eventually(lambda: trial.refresh().state == "RUNNING", "it is known to run")
    assert [point.value for point in trial.metrics()] == [1.0, 2.0]
    assert list(trial.metrics("accuracy")) == []  # it may still arrive
    (tmp_path / "go").touch()
    trial.wait(timeout=PATIENCE)
    assert trial.summary_metrics["loss"].count == 2


def test_threads_and_forks_can_report_at_once(home: Path) -> None:
    trial = report_at_once.submit(threads=3, forks=2, points=200).wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    summary = trial.summary_metrics["n"]
    assert summary.count == 3 * 3 * 200
    assert summary.mean == 99.5
    counts = dict.fromkeys(range(200), 0)
    for point in trial.metrics("n"):
        counts[int(point.value)] += 1
    assert set(counts.values()) == {9}


def test_a_program_may_close_inherited_descriptors(home: Path) -> None:
    trial = report_without_descriptors.submit().wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    assert trial.summary_metrics["loss"].count == 2


def test_points_of_repeated_steps_keep_their_attempt(home: Path) -> None:
    trial = report_again.submit(4).wait(timeout=PATIENCE)
    assert trial.result() == 3
    points = [(point.attempt, point.step) for point in trial.metrics("loss")]
    assert points == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3)]
    loss = trial.summary_metrics["loss"]
    assert (loss.count, loss.min, loss.last, loss.step) == (4, 10.0, 33.0, 3)


def test_every_replica_may_report(home: Path) -> None:
    program = "import windlass as wl\nwl.report(1, loss=index, seen=index)"
    workers = role(program, replicas=3)
    trial = submit(workers, role(program, "evaluator")).wait(timeout=PATIENCE)
    loss = trial.summary_metrics["loss"]
    assert (loss.count, loss.min, loss.max) == (4, 0, 2)
    values = {(point.role, point.index): point.value for point in trial.metrics("seen")}
    assert values == {("evaluator", 0): 0, ("worker", 0): 0, ("worker", 1): 1, ("worker", 2): 2}


def test_outside_of_a_trial_reporting_does_nothing(tmp_path: Path) -> None:
    program = """
import sys
import windlass as wl
wl.rank()
assert "windlass.worker.program.report" not in sys.modules
assert wl.report(1, loss=0.1) is None
assert wl.report("no step", loss="not a number", group=3) is None
assert wl.should_stop() is False
assert wl.current_trial() is None
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_many_points_are_returned_in_pieces(home: Path) -> None:
    """More points than fit into one response or one transaction."""
    program = "import windlass as wl\nfor n in range(100_000): wl.report(n, n=n, other=0.123456789)"
    trial = submit(role(program)).wait(timeout=PATIENCE)
    size = (Path(trial.directory) / "worker-0" / "1" / "metrics").stat().st_size
    assert size > 4 << 20
    summary = trial.summary_metrics["n"]
    assert (summary.count, summary.mean, summary.last) == (100_000, 49_999.5, 99_999)
    points: list[Any] = list(trial.metrics("n"))
    assert [point.step for point in points] == list(range(100_000))
    assert [point.value for point in points] == list(range(100_000))


@pytest.mark.thorough
def test_a_follower_of_an_experiment_gets_each_point_once_across_a_server_kill(
    fresh_home: Path, tmp_path: Path
) -> None:
    gates = [tmp_path / "first", tmp_path / "second"]
    program = f"""
import windlass as wl
for turn, gate in enumerate({list(map(str, gates))!r}):
    for step in range(5):
        wl.report(turn * 5 + step, loss=index, other=1)
    wait_for(gate)
wl.report(10, loss=float("nan"))
"""
    experiment = wl.create_experiment("followed")
    trial = submit(role(program, replicas=2), name="followed")
    following = ExperimentEvents(
        default_client().transport, experiment.id, metric="loss", timeout=PATIENCE
    )
    steps: dict[int, list[int]] = {0: [], 1: []}
    values: list[object] = []
    for news in following:
        if isinstance(news, TrialRecord) and news.state.is_final:
            break  # after all its reports
        if isinstance(news, Points):
            assert (news.trial_id, news.name) == (trial.id, "loss")
            assert news.start == len(steps[news.index])
            steps[news.index] += news.steps
            values += news.values
        if gates and all(len(step) == 15 - 5 * len(gates) for step in steps.values()):
            kill_server(fresh_home)
            gates.pop(0).touch()
    assert steps == {0: list(range(11)), 1: list(range(11))}
    assert values.count("nan") == 2
