"""Decides the next actions for one job.

The order of the checks is fixed, so that the outcome is deterministic. The engine first checks
whether the job succeeded, then whether it failed, then which replicas restart, and finally which
replicas to start. Roles are checked in their declared order, and replicas by index.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.engine import conditions
from windlass.engine.cleanup import clean
from windlass.engine.conditions import clear_condition, set_condition
from windlass.engine.deadline import active_seconds, deadline_left, deadline_message, has_capacity
from windlass.engine.decision import Decision
from windlass.engine.first_failure import failed_for_good, report_delay
from windlass.engine.messages import cut_cleanup, name_of
from windlass.engine.restarts import (
    Restarts,
    describe_slot_end,
    exceeds_limit,
    is_cause_open,
    limit_message,
    one_too_many,
    plan_restarts,
    repeat_message,
    repeated_failure,
)
from windlass.engine.sizes import resized_message, sizes_of
from windlass.engine.slots import Slot, histories, is_alive, observe, retired, strays
from windlass.engine.success import deciders_done, success_message
from windlass.model.job import JobSpec
from windlass.model.records import STOPPED_REASON
from windlass.model.status import (
    GIVEN_UP,
    ConditionType,
    Event,
    EventKind,
    JobStatus,
    Replica,
    ReplicaId,
)


def decide(spec: JobSpec, status: JobStatus, replicas: Sequence[Replica], now: float) -> Decision:
    """Decide the next actions for a job from its status and its observed replicas.

    >>> from windlass.model.job import ProcessCall, Role
    >>> spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))
    >>> decide(spec, JobStatus(), [], now=0.0).create
    ()
    >>> decide(spec, JobStatus(admitted=True), [], now=0.0).create
    (ReplicaId(role='main', index=0, attempt=1),)
    """
    if status.is_finished:
        return clean(spec, status, replicas, now)
    evaluation = _Evaluation(spec, status, replicas, now)
    deciders = deciders_done(spec, evaluation.slots)
    if deciders:
        message = success_message(evaluation.slots, deciders)
        return evaluation.finish(
            ConditionType.SUCCEEDED, conditions.COMPLETED_REASON, message, deciders[0]
        )
    if status.stop_requested:
        return evaluation.stop()
    if any(replica.reason == conditions.DEADLINE_REASON for replica in evaluation.replicas):
        # The supervisor enforced the deadline while no server reconciled the job.
        return evaluation.out_of_time()
    if any(replica.reason == conditions.INTERRUPTED_REASON for replica in evaluation.replicas):
        return evaluation.finish(ConditionType.FAILED, STOPPED_REASON, "interrupted")
    failed = failed_for_good(spec, evaluation.slots)
    report_left = None
    if failed is not None and status.admitted and not spec.suspend:
        report_left = evaluation.report_due(report_delay(spec, evaluation.slots))
    evaluation.update_status(
        failing_since=None if report_left is None else status.failing_since or now
    )
    if failed is not None and report_left is None:
        return evaluation.fail(failed)
    if spec.suspend:
        return evaluation.suspend()
    if not status.admitted:
        return evaluation.wait_for_admission()
    evaluation.begin()
    # The time until the deadline counts from the moment at which the job has capacity.
    left = (
        None
        if evaluation.status.start_time is None
        else deadline_left(spec, evaluation.status, now)
    )
    if left is not None and left <= 0:
        if failed is not None:  # reports about other replicas would come too late
            return evaluation.fail(failed)
        return evaluation.out_of_time()
    # While a replica seems to have failed for good, no replica restarts, because that failure may
    # have caused the others.
    restarts = plan_restarts(spec, evaluation.slots, now) if report_left is None else None
    if restarts is not None and not is_cause_open(spec, status, restarts, evaluation.slots, now):
        repeated = repeated_failure(spec, restarts)
        if repeated is not None:
            message = repeat_message(spec, repeated)
            return evaluation.finish(
                ConditionType.FAILED, conditions.REPEATED_REASON, message, repeated
            )
        if exceeds_limit(spec, status, restarts):
            last = one_too_many(spec, status, restarts)
            message = limit_message(spec, last)
            return evaluation.finish(ConditionType.FAILED, conditions.BACKOFF_REASON, message, last)
        evaluation.restart(restarts)
    if spec.restarts_together and report_left is None:
        evaluation.restart_resized()
    return evaluation.progress(left, report_left)


class _Evaluation:
    """The state of one `decide` call: holds the observed replicas and the decision so far."""

    def __init__(
        self, spec: JobSpec, status: JobStatus, replicas: Sequence[Replica], now: float
    ) -> None:
        self.spec = spec
        self.status = status
        self.replicas = sorted(replicas, key=lambda replica: replica.id)
        self.now = now
        self.slots = observe(spec, status, replicas)
        self.create: list[ReplicaId] = []
        self.delete: list[ReplicaId] = []
        self.events: list[Event] = []

    def finish(
        self, kind: ConditionType, reason: str, message: str, decisive: Slot | None = None
    ) -> Decision:
        """Return the decision to finish the job.

        `decisive` is the slot whose end decided the outcome, if any.
        """
        self.judge_created()
        self.set_condition(kind, reason, message)
        for outdated in (
            ConditionType.QUEUED,
            ConditionType.RUNNING,
            ConditionType.RESTARTING,
            ConditionType.SUSPENDED,
        ):
            self.clear_condition(outdated, reason, message)
        self.update_status(
            completion_time=max(self.now, self.status.start_time or self.now),
            decisive=decisive and decisive.id,
            replicas=histories(self.spec, self.slots, retired(self.spec, self.status, self.now)),
        )
        self.add_event(
            reason, message, warn=kind is ConditionType.FAILED and reason != STOPPED_REASON
        )
        return clean(self.spec, self.status, self.replicas, self.now, self.events)

    def stop(self) -> Decision:
        """Stop all replicas. Once no replica is alive, finish the job as stopped."""
        if not any(is_alive(replica) for replica in self.replicas):
            seen = [slot.current for slot in self.slots if slot.current is not None]
            left = next((replica.message for replica in seen if replica.reason == GIVEN_UP), "")
            reason = self.status.stop_reason or "stopped"
            message = f"{reason}; given up: {left}" if left else reason
            if self.status.stop_interrupts:
                message += cut_cleanup(seen, self.status.stop_grace / 2)
            return self.finish(ConditionType.FAILED, STOPPED_REASON, message)
        self.stop_replicas(self.replicas, "the job is being stopped")
        return self.decision()

    def report_due(self, takes: float) -> float | None:
        """Return how many more seconds to wait for reports about other replicas.

        `takes` is the longest time that such reports take. Returns None once that time has passed.
        """
        left = (self.status.failing_since or self.now) + takes - self.now
        return left if 0 < left <= takes else None  # if the clock was set back, do not wait

    def fail(self, failed: Slot) -> Decision:
        """Finish the job because the replica `failed` will not restart."""
        message = describe_slot_end(self.spec, failed)
        reason = conditions.REPLICA_FAILED_REASON
        return self.finish(ConditionType.FAILED, reason, message, failed)

    def out_of_time(self) -> Decision:
        """Finish the job because its deadline is up."""
        message = deadline_message(self.spec, self.replicas)
        return self.finish(ConditionType.FAILED, conditions.DEADLINE_REASON, message)

    def suspend(self) -> Decision:
        """Stop all replicas without counting this as a failure.

        After the suspension, successful replicas run again only if the job restarts as a whole.
        """
        self.judge_created()
        together = self.spec.restarts_together
        self.slots = [
            slot if slot.is_done and not together else slot.over(self.now) for slot in self.slots
        ]
        self.stop_replicas(self.replicas, "the job is suspended")
        if not self.status.holds(ConditionType.SUSPENDED):
            self.add_event(conditions.SUSPENDED_REASON, "suspended")
        self.set_condition(ConditionType.SUSPENDED, conditions.SUSPENDED_REASON, "suspended")
        for outdated in (ConditionType.QUEUED, ConditionType.RUNNING, ConditionType.RESTARTING):
            self.clear_condition(outdated, conditions.SUSPENDED_REASON, "suspended")
        self.update_status(active_seconds=active_seconds(self.status, self.now), start_time=None)
        if not any(is_alive(replica) for replica in self.replicas):
            self.update_status(admitted=False, devices={}, sizes={}, started_with={})
        return self.decision()

    def wait_for_admission(self) -> Decision:
        """Keep the job in the queue until all its replicas have capacity."""
        self.resume()
        self.set_condition(ConditionType.QUEUED, conditions.QUEUED_REASON, "")
        return self.decision()

    def begin(self) -> None:
        """Record the job's start time once it has capacity."""
        self.resume()
        self.clear_condition(ConditionType.QUEUED, conditions.ADMITTED_REASON, "")
        current = [slot.current for slot in self.slots if slot.current and not slot.awaits_next]
        if self.status.start_time is None and has_capacity(self.spec, current):
            self.update_status(start_time=self.now)

    def resume(self) -> None:
        if self.status.holds(ConditionType.SUSPENDED):
            self.add_event(conditions.RESUMED_REASON, "resumed")
        self.clear_condition(ConditionType.SUSPENDED, conditions.RESUMED_REASON, "")

    def restart(self, restarts: Restarts) -> None:
        """Schedule the next attempts of ended replicas, and have their old attempts deleted."""
        total = self.status.restarts + restarts.count
        limit = self.spec.backoff_limit
        for number, slot in enumerate(restarts.ended, start=self.status.restarts + 1):
            message = f"{describe_slot_end(self.spec, slot)}; restart {number} of {limit}"
            self.add_event(conditions.RESTARTING_REASON, message, warn=True)
            self.clear_condition(ConditionType.RUNNING, conditions.RESTARTING_REASON, message)
            self.set_condition(ConditionType.RESTARTING, conditions.RESTARTING_REASON, message)
        for before, after in zip(self.slots, restarts.slots, strict=True):
            is_replaced = after.awaits_next and not before.awaits_next
            if is_replaced and (current := before.current) and current.phase.is_final:
                self.delete.append(current.id)
        self.slots = list(restarts.slots)
        self.update_status(restarts=total)

    def restart_resized(self) -> None:
        """Restart all replicas if their number changed, because they know only the old number.

        Such a restart is not a failure. It does not count toward the restart limit and has no
        delay.
        """
        before, now_is = self.status.started_with, sizes_of(self.spec)
        if not before or before == now_is:
            return
        after = [slot.over(self.now) for slot in self.slots]
        if any(new is not old for new, old in zip(after, self.slots, strict=True)):
            message = resized_message(before, now_is)
            self.add_event(conditions.RESIZED_REASON, message)
            self.clear_condition(ConditionType.RUNNING, conditions.RESIZED_REASON, message)
            self.set_condition(ConditionType.RESTARTING, conditions.RESIZED_REASON, message)
        self.slots = after

    def progress(self, deadline: float | None, report_left: float | None) -> Decision:
        """Create missing replicas and stop surplus replicas.

        `deadline` is the seconds until the job's deadline. `report_left` is the seconds left to
        wait for reports about other replicas after one replica failed. During that wait, the
        conditions of the job stay unchanged.
        """
        going = strays(self.spec, self.replicas)
        self.stop_replicas(going, "it is no longer part of the job")
        for slot in self.slots:
            self.stop_replicas(slot.leftovers, "another attempt takes its place")
        waits = [due for due in (deadline, report_left) if due is not None]
        together = self.spec.restarts_together
        blocked = together and (
            bool(going)
            or any(
                slot.leftovers or (slot.history.not_before or 0.0) > self.now for slot in self.slots
            )
        )
        if together and not blocked:
            self.update_status(started_with=sizes_of(self.spec))
        for index, slot in enumerate(self.slots):
            due = slot.history.not_before
            if due is not None and due > self.now:
                waits.append(due - self.now)
            elif not slot.leftovers and not blocked:
                self.slots[index] = self.started(slot)
        if report_left is None:
            self.judge_progress()
        return self.decision(min(waits, default=None))

    def started(self, slot: Slot) -> Slot:
        """Return a replica's slot after requesting its next attempt, if it needs one."""
        history = slot.history
        is_new = history.attempt == 0 or slot.awaits_next
        is_unseen = history.phase is None and slot.current is None
        if not is_new and not is_unseen:
            return slot
        after = slot
        if is_new:
            after = slot.with_history(attempt=history.attempt + 1, not_before=None, phase=None)
            self.add_event("ReplicaStarting", f"starting {name_of(after.id)}")
        # If attempts of a replica share a name, older attempts must be deleted first.
        ended = [
            replica.id for replica in slot.seen if replica.phase.is_final and not replica.deleting
        ]
        self.delete.extend(ended)
        self.create.append(after.id)
        return after

    def judge_created(self) -> None:
        if self.slots and all(slot.was_created for slot in self.slots):
            self.set_condition(ConditionType.CREATED, conditions.CREATED_REASON, "")

    def judge_progress(self) -> None:
        if any(slot.is_new for slot in self.slots):
            self.clear_condition(ConditionType.CREATED, conditions.STARTING_REASON, "")
        else:
            self.judge_created()
        runs = any(slot.is_running for slot in self.slots)
        if runs and all(slot.is_running or slot.is_done for slot in self.slots):
            self.clear_condition(ConditionType.RESTARTING, conditions.RUNNING_REASON, "")
            self.set_condition(ConditionType.RUNNING, conditions.RUNNING_REASON, "")
        else:
            self.clear_condition(ConditionType.RUNNING, conditions.STARTING_REASON, "")

    def stop_replicas(self, replicas: Sequence[Replica], why: str) -> None:
        for replica in replicas:
            if is_alive(replica) and not replica.deleting and replica.id not in self.delete:
                self.delete.append(replica.id)
                self.add_event("ReplicaStopping", f"stopping {name_of(replica.id)}: {why}")

    def set_condition(self, kind: ConditionType, reason: str, message: str) -> None:
        self.status = set_condition(self.status, kind, reason, message, self.now)

    def clear_condition(self, kind: ConditionType, reason: str, message: str) -> None:
        self.status = clear_condition(self.status, kind, reason, message, self.now)

    def add_event(self, reason: str, message: str, *, warn: bool = False) -> None:
        kind = EventKind.WARNING if warn else EventKind.NORMAL
        self.events.append(Event(time=self.now, kind=kind, reason=reason, message=message))

    def update_status(self, **changes: object) -> None:
        self.status = msgspec.structs.replace(self.status, **changes)

    def decision(self, requeue_after: float | None = None) -> Decision:
        others = retired(self.spec, self.status, self.now)
        self.update_status(replicas=histories(self.spec, self.slots, others))
        return Decision(
            status=self.status,
            create=tuple(self.create),
            delete=tuple(self.delete),
            events=tuple(self.events),
            requeue_after=requeue_after,
        )
