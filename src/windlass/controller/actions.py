"""Carries out decisions through a runtime and records failures as events."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial

from windlass.controller.capacity_grants import device_key
from windlass.controller.clock import Clock
from windlass.controller.expectations import Expectations
from windlass.controller.failure_log import FailureLog
from windlass.controller.store import JobStore
from windlass.engine.deadline import seconds_alone
from windlass.engine.decision import Decision
from windlass.engine.messages import name_of
from windlass.engine.slots import is_alive
from windlass.model.job import Assignment, Job
from windlass.model.status import Event, JobStatus, Replica, ReplicaId
from windlass.runtimes.base import NotYet, Runtime

_log = logging.getLogger(__name__)


class _Outcome(Enum):
    """The outcome of one action of a runtime."""

    DONE = "done"  # or a notification will follow
    LATER = "later"
    FAILED = "failed"


class Actions:
    """Stops and starts attempts until `is_over`: then another instance may act."""

    def __init__(
        self,
        store: JobStore,
        runtime: Runtime,
        expectations: Expectations,
        failures: FailureLog,
        *,
        clock: Clock,
        grace: float,
        is_over: Callable[[], bool],
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._expectations = expectations
        self._failures = failures
        self._clock = clock
        self._grace = grace
        self._is_over = is_over
        # Only one worker at a time reconciles a job.
        self._graces: dict[str, float] = {}  # the last grace period that was passed on

    def act(
        self,
        job: Job,
        status: JobStatus,
        decision: Decision,
        replicas: Sequence[Replica],
        now: float,
    ) -> bool:
        """Carry out a decision. Return True if the runtime accepted all actions."""
        self._expectations.expect(
            job.uid, creates=decision.create, deletes=decision.delete, now=now
        )
        events: list[Event] = []
        all_done = True
        grace = status.stop_grace if status.stop_requested else self._grace
        for replica in (*decision.delete, *self._to_terminate_sooner(job.uid, status, replicas)):
            act = partial(self._runtime.delete, job, replica, grace)
            outcome = self._try(act, job.uid, replica, "DeleteFailed", events)
            all_done &= outcome is _Outcome.DONE
        all_done &= self._create(job, status, decision.create, now, events)
        if all_done:
            self._failures.forget(job.uid)
        if events and not self._store.save(job.uid, status, status, events, replicas):
            self._failures.forget(job.uid)  # the next attempt records them again
        return all_done

    def forget(self, uid: str) -> None:
        """Discard the state of a job."""
        self._graces.pop(uid, None)

    def _create(
        self,
        job: Job,
        status: JobStatus,
        replicas: Sequence[ReplicaId],
        now: float,
        events: list[Event],
    ) -> bool:
        """Create attempts. Return True if the runtime accepted all of them.

        A failure ends this reconciliation: the other attempts would most likely fail, too, and each
        may take long. The next reconciliation begins with the attempts that never failed.
        """
        in_order = self._failures.rarest_first(job.uid, replicas)
        all_done = True
        for position, replica in enumerate(in_order):
            assignment = Assignment(
                devices=status.devices.get(device_key(replica.role, replica.index), ()),
                addresses=status.addresses,
                seconds=seconds_alone(job.spec, status, now),
            )
            act = partial(self._create_one, job, replica, assignment)
            outcome = self._try(act, job.uid, replica, "CreateFailed", events)
            if outcome is _Outcome.FAILED:
                self._expectations.withdraw(job.uid, *in_order[position + 1 :])
                return False
            all_done &= outcome is _Outcome.DONE
        return all_done

    def _create_one(self, job: Job, replica: ReplicaId, assignment: Assignment) -> None:
        self._runtime.create(job, replica, assignment)
        self._expectations.created(job.uid, replica)

    def _to_terminate_sooner(
        self, uid: str, status: JobStatus, replicas: Sequence[Replica]
    ) -> list[ReplicaId]:
        """Return the stopping attempts whose grace period became shorter."""
        if not status.stop_requested or status.stop_grace >= self._graces.get(uid, math.inf):
            return []
        self._graces[uid] = status.stop_grace
        return [replica.id for replica in replicas if replica.deleting and is_alive(replica)]

    def _try(
        self,
        act: Callable[[], None],
        uid: str,
        replica: ReplicaId,
        reason: str,
        events: list[Event],
    ) -> _Outcome:
        """Run an action. A failure is recorded when it is new, and once more when it persists."""
        if self._is_over():  # another instance may act by now, and carries out the stored decision
            self._expectations.withdraw(uid, replica)
            return _Outcome.LATER
        try:
            act()
        except NotYet as waits:  # a notification, if one follows, wakes the job
            _log.debug("job %s: %s waits: %s", uid, name_of(replica), waits)
            self._expectations.withdraw(uid, replica)
            return _Outcome.DONE if waits.is_notified else _Outcome.LATER
        except Exception as error:  # noqa: BLE001  # recorded and retried
            self._expectations.withdraw(uid, replica)
            what = "starting" if reason == "CreateFailed" else "stopping"
            about, now = f"{what} {name_of(replica)}", self._clock.now()
            events += self._failures.record(uid, replica, reason, about, error, now)
            return _Outcome.FAILED
        self._failures.discard(uid, replica)
        return _Outcome.DONE
