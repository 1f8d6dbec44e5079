"""The timeline of `windlass show`: from records to lines, without a server."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.cli.output.timeline import Mark, TimelineEvent, build_timeline, draw, spell_names
from windlass.model.job import JobSpec, ProcessCall, RestartScope, Role
from windlass.model.records import Attempt, Cause, TrialRecord, TrialState
from windlass.model.status import Condition, ConditionType, Event, EventKind

START = 1_000_000.0


def record_of(
    state: TrialState, attempts: Sequence[Attempt] = (), *, replicas: int = 4, **more: object
) -> TrialRecord:
    """A trial of some workers."""
    scope = RestartScope.JOB if more.pop("together", True) else RestartScope.REPLICA
    role = Role(executable=ProcessCall(argv=("x",)), name="worker", replicas=replicas)
    fields = {
        "id": 7, "uid": "u", "name": "t", "experiment": "t", "experiment_id": 1, "project": "p",
        "state": state, "created": START, "attempts": tuple(attempts),
        "spec": JobSpec(roles=(role,), restart_scope=scope),
    }  # fmt: skip
    return TrialRecord(**{**fields, **more})  # type: ignore[arg-type] -- some of them, by name


def attempt_of(
    index: int, attempt: int = 1, *, began: float | None = None, ended: float | None = None,
    code: int | None = None, reason: str = "",
) -> Attempt:  # fmt: skip
    """One attempt of a worker, with times relative to the start."""
    phase = "Running" if ended is None else "Succeeded" if code == 0 else "Failed"
    return Attempt(
        role="worker", index=index, attempt=attempt, phase=phase, exit_code=code, reason=reason,
        started=None if began is None else START + began,
        ended=None if ended is None else START + ended,
    )  # fmt: skip


def event_of(after: float, reason: str, message: str, *, warn: bool = False) -> Event:
    """An event at this many seconds after the start."""
    kind = EventKind.WARNING if warn else EventKind.NORMAL
    return Event(time=START + after, kind=kind, reason=reason, message=message)


def timeline(record: TrialRecord, events: Sequence[Event] = ()) -> list[tuple[str, str]]:
    """The marks and texts of a timeline."""
    return [(moment.mark.name, moment.text) for moment in build_timeline(record, events)]


def test_a_successful_call_is_three_lines() -> None:
    record = record_of(
        TrialState.SUCCEEDED, [attempt_of(0, began=0.1, ended=0.9, code=0)], replicas=1
    )
    events = [
        event_of(0.0, "ReplicaStarting", "starting worker-0 attempt 1"),
        event_of(1.0, "Completed", "succeeded"),
    ]
    lines = draw(build_timeline(record, events))
    assert [(line.when.strip(), line.sign, line.text) for line in lines[1:]] == [
        ("+100ms", "●", "running"),
        ("+1s", "✓", "succeeded"),
    ]


def test_replicas_with_equal_events_share_a_line_and_a_restart_names_its_cause() -> None:
    first = [attempt_of(i, began=1 + i / 10, ended=9.5, code=143, reason="Stopped") for i in (0, 2)]
    killed = attempt_of(1, began=1.1, ended=9, code=137, reason="Signal")
    again = [attempt_of(i, 2, began=11, ended=20, code=0) for i in range(3)]
    events = [
        event_of(0, "ReplicaStarting", "starting worker-0 attempt 1"),
        event_of(
            9.1, "ReplicaRestarting",
            "worker-1 (attempt 1) was killed by SIGKILL (exit code 137); restart 1 of 6", warn=True,
        ),
        event_of(9.2, "ReplicaStopping", "stopping worker-0 attempt 1: another takes its place"),
        event_of(20.1, "Completed", "succeeded"),
    ]  # fmt: skip
    record = record_of(TrialState.SUCCEEDED, [*first, killed, *again], replicas=3)
    assert timeline(record, events) == [
        ("CREATED", "created"),
        ("STARTED", "running: 3 replicas (worker-0 … worker-2)"),
        ("FAILED", "worker-1 was killed by SIGKILL (exit code 137)"),
        ("RESTART", "restart 1 of 6: all replicas"),
        ("NOTE", "2 replicas (worker-0, worker-2) stopped"),
        ("STARTED", "running: 3 replicas (worker-0 … worker-2), attempt 2"),
        ("DONE", "3 replicas (worker-0 … worker-2) succeeded"),
        ("DONE", "succeeded"),
    ]


def test_only_the_failed_replica_restarts_with_that_scope() -> None:
    attempts = [
        attempt_of(0, began=1),
        attempt_of(1, began=1, ended=2, code=1),
        attempt_of(1, 2, began=3),
    ]
    events = [
        event_of(
            2, "ReplicaRestarting", "worker-1 (attempt 1) failed with exit code 1; restart 1 of 6"
        ),
    ]
    record = record_of(TrialState.RUNNING, attempts, replicas=2, together=False)
    assert timeline(record, events)[2:] == [
        ("FAILED", "worker-1 failed with exit code 1"),
        ("RESTART", "restart 1 of 6: worker-1"),
        ("STARTED", "running: worker-1, attempt 2"),
        ("NOW", "running"),
    ]


def test_the_cause_of_a_failure_is_shown_once() -> None:
    attempts = [attempt_of(0, began=1, ended=3, code=143, reason="Stopped"),
                attempt_of(1, began=1, ended=2, code=1)]  # fmt: skip
    record = record_of(
        TrialState.FAILED, attempts, replicas=2, cause=Cause(role="worker", index=1, attempt=1)
    )
    failed = event_of(
        2.1, "ReplicaFailed", "worker-1 (attempt 1) failed with exit code 1", warn=True
    )
    assert timeline(record, [failed])[2:] == [
        ("FAILED", "failed: worker-1 (attempt 1) failed with exit code 1"),
        ("NOTE", "worker-0 stopped"),
    ]


def test_replicas_that_start_together_share_a_line_in_any_attempt() -> None:
    attempts = [attempt_of(0, 2, began=5), attempt_of(1, 2, began=5.1), attempt_of(2, 1, began=5.2)]
    assert timeline(record_of(TrialState.RUNNING, attempts, replicas=3))[1] == (
        "STARTED", "running: 3 replicas (worker-0 … worker-2), attempts 1 and 2",
    )  # fmt: skip


def test_a_restart_without_a_known_end_says_why() -> None:
    vanished = event_of(2, "ReplicaRestarting", "worker-1 (attempt 1) vanished; restart 1 of 6")
    record = record_of(TrialState.RESTARTING, [attempt_of(1, began=1)])
    assert ("RESTART", "worker-1 (attempt 1) vanished; restart 1 of 6") in timeline(
        record, [vanished]
    )


def test_suspensions_resumptions_scaling_and_unknown_events_stand_out() -> None:
    events = [
        event_of(1, "Suspended", "suspended"),
        event_of(2, "Resumed", "resumed"),
        event_of(3, "Scaled", "worker 2 -> 4"),
        event_of(4, "SomethingNew", "that nobody here knows"),
        event_of(5, "SomethingBad", "", warn=True),
    ]
    assert timeline(record_of(TrialState.SUSPENDED, message="by you"), events)[1:] == [
        ("SUSPENDED", "suspended"),
        ("RESUMED", "resumed"),
        ("SCALED", "scaled: worker 2 -> 4"),
        ("NOTE", "that nobody here knows"),
        ("WARNING", "SomethingBad"),
        ("NOW", "suspended: by you"),
    ]


def test_waiting_for_capacity_is_shown_if_it_took_time() -> None:
    def waited(seconds: float) -> list[tuple[str, str]]:
        moment = START + seconds
        queued = Condition(
            type=ConditionType.QUEUED, status=False, reason="Admitted", last_update=moment,
            last_transition=moment,
        )  # fmt: skip
        return timeline(record_of(TrialState.STARTING, conditions=(queued,)))[1:-1]

    assert waited(75) == [("NOTE", "got capacity, after 1m 15s in the queue")]
    assert waited(0.01) == []


def test_a_pending_state_is_shown_as_the_present() -> None:
    record = record_of(TrialState.QUEUED, message="needs 4 CPUs, 2 free; 1st in queue")
    lines = draw(build_timeline(record, []))
    assert [(line.when.strip(), line.text) for line in lines[1:]] == [
        ("now", "queued: needs 4 CPUs, 2 free; 1st in queue")
    ]


def test_starts_and_stops_are_shown_until_they_take_effect() -> None:
    events = [
        event_of(0.1 * i, "ReplicaStarting", f"starting worker-{i} attempt 1") for i in range(4)
    ]
    stops = [
        event_of(5, "ReplicaStopping", f"stopping worker-{i} attempt 1: the job is suspended")
        for i in range(4)
    ]
    starting = record_of(TrialState.STARTING)
    assert timeline(starting, events)[1:-1] == [
        ("NOTE", "4 replicas (worker-0 … worker-3) starting")
    ]
    stopping = record_of(TrialState.SUSPENDED, [attempt_of(i, began=1) for i in range(4)])
    assert timeline(stopping, stops)[2:-1] == [
        ("NOTE", "4 replicas (worker-0 … worker-3) stopping: the job is suspended")
    ]


def test_a_line_wraps_only_if_it_is_too_long() -> None:
    moments = [
        TimelineEvent(START, Mark.CREATED, "created"),
        TimelineEvent(START + 1, Mark.FAILED, "worker-1 was killed by SIGKILL (exit code 137)"),
        TimelineEvent(START + 2, Mark.DONE, "succeeded"),
    ]
    lines = draw(moments, width=40)
    assert [line.sign for line in lines] == ["○", "✗", "│", "✓"]
    assert max(len(f"{line.when}  {line.sign}  {line.text}") for line in lines) <= 41
    assert len(draw(moments)) == 3


def test_a_plain_terminal_gets_plain_marks() -> None:
    names = spell_names([("worker", 0), ("worker", 1), ("worker", 2)])
    moments = [TimelineEvent(START, mark, names) for mark in Mark]
    for line in draw(moments, plain=True):
        assert f"{line.sign}{line.text}".isascii()


def test_the_middle_of_a_very_long_timeline_is_left_out() -> None:
    events = [event_of(i, "SomethingNew", f"event {i}") for i in range(1000)]
    moments = build_timeline(record_of(TrialState.RUNNING), events)
    assert len(moments) <= 61
    assert moments[-2].text == "event 999"
    gap = next(moment for moment in moments if moment.mark is Mark.GAP)
    assert "more; all of them: windlass show 7 --json" in gap.text
    assert int(gap.text.split()[0]) == 1002 - (len(moments) - 1)


def test_equal_times_are_printed_once() -> None:
    moments = [
        TimelineEvent(START, Mark.CREATED, "a"),
        *(TimelineEvent(START + 61, Mark.NOTE, t) for t in "bc"),
    ]
    assert [line.when.strip() for line in draw(moments)][1:] == ["+1m 1s", ""]
