"""A failed job of several replicas names the first failure, its reason, and its last lines."""

from __future__ import annotations

from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE
from job_requests import role, submit
from server_requests import Server
from windlass.model.job import RestartPolicy

SHARES_HOME = True


@pytest.fixture(autouse=True)
def at_home(home: Path) -> None:
    """Every test uses the server of the file."""


# The others die because they lost their peer, and print much more about it.
DEATH = """
if name == "worker-1":
    print("loading", flush=True)
    print("step 1\\rstep 2", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("CUDA out of memory", file=sys.stderr)
    os.kill(os.getpid(), signal.SIGKILL)
wait_for(os.path.join({home!r}, "trials", os.environ["WINDLASS_TRIAL_ID"], "worker-1/1/exit.json"))
for number in range(100):
    print("peer is gone", number)
sys.exit(9)
"""


def test_the_first_failed_replica_is_named_with_its_last_lines(home: Path) -> None:
    trial = submit(role(DEATH.format(home=str(home)), replicas=3))
    with pytest.raises(wl.TrialFailed) as failed:
        trial.result(PATIENCE)
    error = failed.value
    assert error.message == (
        f"Trial {trial.id} (mnist) failed: worker-1 (attempt 1) was killed by SIGKILL "
        "(exit code 137)."
    )
    assert (error.role, error.index, error.attempt) == ("worker", 1, 1)
    assert (error.exit_code, error.signal) == (137, "SIGKILL")
    assert error.log_tail == ("loading", "step 2", "CUDA out of memory")
    assert "the accelerator ran out of memory" in str(error), "a tip looks at these lines"
    assert f"windlass logs {trial.id} --role worker --index 1" in str(error)
    cause = trial.cause
    assert cause is not None
    assert (cause.role, cause.index, cause.attempt) == ("worker", 1, 1)
    assert (cause.exit_code, cause.signal, cause.reason) == (137, "SIGKILL", "Signal")
    assert cause.lines == error.log_tail
    assert "\n" not in trial.message
    assert (trial.exit_code, trial.record.signal) == (137, "SIGKILL")
    assert wl.get_trial(trial.id).cause == cause, "it is in the record"


def test_after_exhausted_restarts_the_last_failure_counts(tmp_path: Path) -> None:
    program = 'print("attempt", attempt); sys.exit(3 if index == 1 else 0)'
    failing = role(program, replicas=2, restart_policy=RestartPolicy.ON_FAILURE)
    trial = submit(failing, backoff_limit=1).wait(PATIENCE)
    assert (trial.state, trial.restarts) == ("FAILED", 1)
    assert trial.cause is not None
    assert (trial.cause.index, trial.cause.attempt) == (1, 2)
    assert trial.cause.lines == ("attempt 2",)
    assert [replica.attempt for replica in trial.replicas] == [1, 2]


def test_floods_and_endless_lines_are_shortened(tmp_path: Path) -> None:
    program = """
for number in range(100_000):
    print("line", number)
for number in range(30_000):
    sys.stdout.write("\\r" + "#" * 300)
print("\\r" + "z" * 5000)
print("bye", end="", flush=True)
sys.exit(1)
"""
    trial = submit(role(program)).wait(PATIENCE)
    assert trial.cause is not None
    lines = trial.cause.lines
    assert lines[-1] == "bye"
    assert lines[-2].startswith("zzz")
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 2000
    with pytest.raises(wl.TrialFailed) as failed:
        trial.result()
    assert failed.value.role is None, "one replica needs no name"


def test_a_trial_that_succeeds_or_is_stopped_has_no_cause(tmp_path: Path) -> None:
    assert submit(role("print(name)", replicas=2)).wait(PATIENCE).cause is None
    waiting = submit(role(f"wait_for({str(tmp_path / 'never')!r})", replicas=2))
    stopped = waiting.stop(grace=0).wait(PATIENCE)
    assert (stopped.state, stopped.cause) == ("STOPPED", None)


def test_a_trial_that_runs_out_of_time_has_no_cause_of_failure(tmp_path: Path) -> None:
    never = f"print(name); wait_for({str(tmp_path / 'never')!r})"
    failing = "sys.exit(3)"  # repeated failures do not cause the end
    trial = submit(
        role(never, "worker", 2),
        role(failing, "ps", restart_policy=RestartPolicy.ON_FAILURE),
        active_deadline=1.0,
    )
    with pytest.raises(wl.TrialFailed, match=r"ran out of time \(deadline 1s\)") as failed:
        trial.result(PATIENCE)
    assert (trial.cause, failed.value.role) == (None, None)


def test_the_log_can_be_filtered_by_replica(home: Path) -> None:
    program = "print(f'{name} out'); print(f'{name} err', file=sys.stderr)"
    trial = submit(role(program, "chief"), role(program, replicas=2)).wait(PATIENCE)
    assert sorted(trial.logs()) == sorted(
        f"{name} {stream}"
        for name in ("chief-0", "worker-0", "worker-1")
        for stream in ("err", "out")
    )
    assert set(trial.logs(role="worker", stream="stdout")) == {"worker-0 out", "worker-1 out"}
    [line] = trial.logs(role="worker", index=1, stream="stderr")
    assert (line, line.role, line.replica_index, line.attempt) == ("worker-1 err", "worker", 1, 1)
    assert set(trial.logs(index=1)) == {"worker-1 out", "worker-1 err"}
    assert set(trial.logs(role="chief", tail=5)) == {"chief-0 out", "chief-0 err"}
    assert list(trial.logs(role="chief", search="err")) == ["chief-0 err"]
    assert list(trial.logs(attempt=2)) == []
    with pytest.raises(wl.InvalidArgument, match="has no role 'ps'") as refused:
        list(trial.logs(role="ps"))
    assert "It has: chief, worker." in str(refused.value)
    with pytest.raises(wl.InvalidArgument, match="has no worker-2"):
        list(trial.logs(role="worker", index=2))
    server = Server(home)
    for wrong in ("index=-1", "attempt=0", "index=x"):
        assert server.ask("GET", f"/api/v1/trials/{trial.id}/logs?{wrong}")[0] == 400


def test_events_are_loaded_once_and_again_after_a_refresh(tmp_path: Path) -> None:
    trial = submit(role(f"wait_for({str(tmp_path / 'go')!r})"))
    before = trial.events
    (tmp_path / "go").touch()
    other = wl.get_trial(trial.id).wait(PATIENCE)
    assert trial.events is before
    assert trial.refresh().events == other.events
    assert trial.events[-1].reason == "Completed"


def test_replicas_are_shown_in_the_order_of_their_roles(tmp_path: Path) -> None:
    trial = submit(role("sys.exit(0)", "worker", 2), role("sys.exit(0)", "chief"), suspend=True)
    assert [repr(replica) for replica in trial.replicas] == [
        "<worker-0: Pending>",
        "<worker-1: Pending>",
        "<chief-0: Pending>",
    ]
    trial.resume().wait(PATIENCE)
    shown = repr(trial.replicas[1])
    assert shown.startswith("<worker-1 attempt 1: Succeeded, exit code 0, ran ")
    assert {replica.name for replica in trial.replicas} == {"worker-0", "worker-1", "chief-0"}
