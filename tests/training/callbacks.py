"""Helpers for the tests of all callbacks: a trial that is killed, resumes, and is stopped."""

from __future__ import annotations

from typing import Any

import windlass as wl
from harness import PATIENCE, eventually

LITTLE = wl.Local(cpus=0.5)


def steps(trial: wl.Trial[Any], name: str, attempt: int) -> list[int]:
    """The steps at which an attempt reported a metric, without repetitions."""
    reported_steps = [metric.step for metric in trial.metrics(name) if metric.attempt == attempt]
    return sorted(set(reported_steps))


def run_until_asked_to_stop(script: str, enough: int, **job: Any) -> wl.Trial[Any]:
    """Run a script that dies once and resumes, and ask it to stop after enough steps."""
    executable = wl.PythonScript(script)
    options = {"executor": LITTLE, "restart_policy": "OnFailure", "backoff_limit": 1, **job}
    trial = wl.Job(executable, **options).submit()

    def has(attempt: int, step: int) -> bool:
        summary = trial.refresh().summary_metrics.get("loss")
        is_far = summary is not None and (summary.step or 0) >= step
        newest = max((attempt.attempt for attempt in trial.attempts), default=1)
        return trial.is_finished or (is_far and newest >= attempt)

    # One after the other: on a busy machine, importing a framework takes a minute.
    eventually(lambda: has(1, 1), "the first attempt trains")
    eventually(lambda: has(2, 1), "there is a second attempt")
    eventually(lambda: has(2, enough), "it is far enough")
    assert not trial.is_finished, output_of(trial)
    trial.ask_to_stop("that is enough")
    trial.wait(timeout=PATIENCE)
    assert trial.state == "SUCCEEDED", output_of(trial)
    assert trial.restarts == 1
    assert trial.progress is not None and 0 < trial.progress < 1  # of the many that were planned
    return trial


def output_of(trial: wl.Trial[Any]) -> str:
    """The output of a trial."""
    return "\n".join(map(str, trial.logs()))
