"""Steps that Windlass counts for reports without a step."""

from __future__ import annotations

from pathlib import Path

import pytest
from metric_functions import report_without_steps, report_wrongly

import windlass as wl
from harness import PATIENCE

SHARES_HOME = True


def steps(trial: wl.Trial[None], name: str, attempt: int = 1) -> list[int]:
    return [point.step for point in trial.metrics(name, attempt=attempt)]


@pytest.mark.finding("U24")
def test_reports_without_a_step_count_steps_across_metrics_and_a_resume(home: Path) -> None:
    trial = report_without_steps.submit(True).wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED"
    assert steps(trial, "loss") == [*steps(trial, "grad/norm"), 6] == [0, 1, 2, 3, 4, 5, 6]
    assert steps(trial, "accuracy") == steps(trial, "validation/loss") == [2, 5]
    # The checkpoint was saved when the reports were at step 5.
    assert steps(trial, "loss", 2) == [6, 7, 8, 9, 10, 11, 100, 50, 101]
    assert steps(trial, "accuracy", 2) == [8, 11, 100]
    longer = trial.continue_({"crash": False}).wait(timeout=PATIENCE)
    assert steps(longer, "loss")[:3] == [2, 3, 4]  # after the step of the checkpoint


@pytest.mark.finding("U24")
def test_a_refused_report_names_the_call_to_write(home: Path) -> None:
    misplaced, two, empty, nested, number = report_wrongly.submit().result(timeout=PATIENCE)
    assert 'To set the step: wl.report({"loss": 0.5}, step=10)' in misplaced
    assert "there are two steps, 1 and 2" in two
    assert "no metric is named" in empty and "wl.report(loss=0.5)" in empty
    assert nested.startswith("loss: {'train': 0.5} is not a number.")
    assert number.startswith("1 is not a valid metric name.")
