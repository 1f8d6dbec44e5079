"""A job whose attempts fail early with the same exception is not restarted again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

import windlass as wl
from harness import Project, windlass
from replicas import LITTLE, attempts_of

pytestmark = pytest.mark.finding("U11")

SCRIPT = """
import os
if os.environ["WINDLASS_ATTEMPT"] in ("1", "2"):
    open("missing.csv")
"""


def submit(project: Project, **options: object) -> wl.Trial[object]:
    project.write("train.py", SCRIPT)
    script = wl.PythonScript(str(project.path / "train.py"))
    return wl.Job(script, executor=LITTLE, **options).submit()  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"replicas": 2}, {"framework": "torch", "replicas": 2}])
def test_the_same_early_exception_twice_fails_the_job(
    home: Path, project: Project, options: dict[str, object]
) -> None:
    trial = submit(project, **options).wait(timeout=60)
    assert (trial.state, trial.record.reason) == ("FAILED", "RepeatedFailure")
    assert max(attempt.attempt for attempt in trial.attempts) == 2
    repeated = "FileNotFoundError at train.py:3, as in the attempt before"
    assert repeated in trial.message
    with pytest.raises(wl.TrialFailed, match="stop_on_repeat=False"):
        trial.result()


def test_it_restarts_as_often_as_its_author_asked(home: Path, project: Project) -> None:
    trials = [
        submit(project, restart_policy="OnFailure"),
        submit(project, replicas=2, stop_on_repeat=False),
        submit(project, replicas=2, backoff_limit=4),
    ]
    for trial in trials:
        assert trial.wait(timeout=60).state == "SUCCEEDED"
        assert len(attempts_of(trial, "main-0")) == 3


def test_the_option_of_the_command_and_its_tip(home: Path, project: Project) -> None:
    project.write("train.py", SCRIPT)
    words = ["run", "--replicas", "2", "--cpus", "0.05"]
    failed = windlass(*words, "train.py", cwd=project.path)
    assert failed.returncode == 1
    assert failed.stderr.count("Traceback") <= 4
    assert "--restart-policy OnFailure or --no-stop-on-repeat" in failed.stderr
    retried = windlass(*words, "--no-stop-on-repeat", "train.py", cwd=project.path)
    assert retried.returncode == 0


def test_a_signal_or_another_exception_is_no_repetition(home: Path, project: Project) -> None:
    project.write(
        "train.py",
        """
        import os, signal, sys
        attempt = int(os.environ["WINDLASS_ATTEMPT"])
        if attempt < 3 and sys.argv[1] == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        if attempt < 3:
            raise (ValueError if attempt == 1 else KeyError)
        """,
    )
    script = wl.PythonScript(str(project.path / "train.py"))
    trials = [
        wl.Job(
            script,
            args=[how],
            executor=LITTLE,
            restart_policy="OnFailure",
            stop_on_repeat=True,
        ).submit()
        for how in ("signal", "exception")
    ]
    for trial in trials:
        trial.wait(timeout=60)
        assert (trial.state, trial.restarts) == ("SUCCEEDED", 2)
