"""The first replica that failed is named, not those that failed because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE
from replicas import LITTLE, check_gone, exit_codes, shell

# The third dies first. The others notice this, and die with their own message.
FIRST = """
if [ $WINDLASS_INDEX = 2 ]; then
    for number in 1 2 3; do echo "step $number"; done
    echo "CUDA out of memory" >&2
    exit 41
fi
while [ ! -e ../../worker-2/1/exit.json ]; do sleep 0.02; done
echo "lost connection to a peer" >&2
exit 1
"""


@pytest.mark.parametrize("framework", [None, "torch"])
def test_the_first_failure_is_named_with_its_last_lines_only(
    home: Path, framework: str | None
) -> None:
    worker = wl.Job(shell(FIRST), executor=LITTLE, replicas=4, restart_policy="Never")
    trial = wl.JobGroup(worker=worker, framework=framework).submit()
    with pytest.raises(wl.TrialFailed) as failed:
        trial.result(timeout=PATIENCE)
    cause = trial.cause
    assert cause is not None
    assert (cause.role, cause.index, cause.attempt, cause.exit_code) == ("worker", 2, 1, 41)
    # Each of the two streams has its own order.
    assert {*cause.lines} == {"step 1", "step 2", "step 3", "CUDA out of memory"}
    assert trial.exit_code == 41
    assert "worker-2" in trial.message
    assert "\n" not in trial.message
    text = str(failed.value)
    assert "worker-2" in text
    assert "CUDA out of memory" in text
    assert "lost connection to a peer" not in text
    check_gone(trial)


@pytest.mark.parametrize("scope", ["replica", "job"])
def test_after_too_many_restarts_the_last_failure_is_named(home: Path, scope: str) -> None:
    script = '[ $WINDLASS_INDEX != 1 ] && exec sleep 600; echo "try $WINDLASS_ATTEMPT"; exit 41'
    worker = wl.Job(shell(script), executor=LITTLE, replicas=3, restart_policy="OnFailure")
    trial = wl.JobGroup(worker=worker, restart_scope=scope, backoff_limit=1).submit()
    trial.wait(timeout=PATIENCE)
    assert (trial.state, trial.record.reason) == ("FAILED", "BackoffLimitExceeded")
    cause = trial.cause
    assert cause is not None
    assert (cause.role, cause.index, cause.attempt, cause.exit_code) == ("worker", 1, 2, 41)
    assert cause.lines == ("try 2",)
    check_gone(trial)


# A program that dies may leave children that end later, such as data loaders.
SLOW_TO_GO = """
if [ $WINDLASS_INDEX = 2 ]; then
    sh -c 'trap "" TERM; while :; do sleep 0.1; done' &
    echo $$ > "$1.part"; mv "$1.part" "$1"
    echo "CUDA out of memory" >&2
    exit 41
fi
while [ ! -e "$1" ] || kill -0 $(cat "$1") 2> /dev/null; do sleep 0.02; done
echo "lost connection to a peer" >&2
exit 1
"""


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
@pytest.mark.parametrize("scope", ["job", pytest.param("replica", marks=pytest.mark.thorough)])
def test_the_first_failure_is_named_although_its_children_ended_later(
    home: Path, tmp_path: Path, policy: str, scope: str
) -> None:
    run = shell(SLOW_TO_GO, tmp_path / "pid")
    worker = wl.Job(run, executor=LITTLE, replicas=4, restart_policy=policy)
    trial = wl.JobGroup(worker=worker, restart_scope=scope, backoff_limit=0).submit()
    trial.wait(timeout=PATIENCE)
    cause = trial.cause
    assert cause is not None
    assert (cause.role, cause.index, cause.exit_code) == ("worker", 2, 41), trial.message
    assert cause.lines == ("CUDA out of memory",)
    check_gone(trial)


@pytest.mark.thorough
def test_all_replicas_restart_if_the_first_failure_is_retryable(home: Path, tmp_path: Path) -> None:
    """The first replica was killed, which is retried. Its death caused the permanent failures."""
    script = "[ $WINDLASS_ATTEMPT = 1 ] || exit 0" + SLOW_TO_GO.replace("exit 41", "kill -KILL $$")
    run = shell(script, tmp_path / "pid")
    worker = wl.Job(run, executor=LITTLE, replicas=3, restart_policy="ExitCode")
    trial = wl.JobGroup(worker=worker, restart_scope="job").submit()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert trial.restarts == 1
    assert exit_codes(trial, "worker-2") == [137, 0]
    check_gone(trial)
