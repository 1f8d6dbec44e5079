"""Carries out the engine's decisions through a runtime, and records failures as events."""

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
    """The outcome of one request to a runtime."""

    DONE = "done"  # the runtime accepted the request, or will wake the job
    LATER = "later"  # the controller must send the request again
    FAILED = "failed"


class Actions:
    """Stops and starts attempts through a runtime.

    `is_over` returns True once the controller was shut down. From then on, no more requests are
    sent, because a different controller might already manage the same jobs.
    """

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
        # The urgency of the stop last sent to the runtime, by job. This dict needs no lock, because
        # only one worker at a time reconciles a job.
        self._urgencies: dict[str, tuple[float, bool]] = {}

    def act(
        self,
        job: Job,
        status: JobStatus,
        decision: Decision,
        replicas: Sequence[Replica],
        now: float,
    ) -> bool:
        """Carry out the engine's decision about a job.

        Return True if the runtime accepted everything.
        """
        self._expectations.expect(
            job.uid, creates=decision.create, deletes=decision.delete, now=now
        )
        events: list[Event] = []
        all_done = True
        grace, interrupt = _urgency(status) if status.stop_requested else (self._grace, False)
        for replica in (*decision.delete, *self._to_terminate_sooner(job.uid, status, replicas)):
            act = partial(self._runtime.delete, job, replica, grace, interrupt=interrupt)
            outcome = self._try(act, job.uid, replica, "DeleteFailed", events)
            all_done &= outcome is _Outcome.DONE
        all_done &= self._create(job, status, decision.create, now, events)
        if all_done:
            self._failures.forget(job.uid)
        if events and not self._store.save(job.uid, status, status, events, replicas):
            self._failures.forget(job.uid)  # the next reconciliation records the events again
        return all_done

    def forget(self, uid: str) -> None:
        """Discard the data that these actions keep about a job."""
        self._urgencies.pop(uid, None)

    def _create(
        self,
        job: Job,
        status: JobStatus,
        replicas: Sequence[ReplicaId],
        now: float,
        events: list[Event],
    ) -> bool:
        """Create attempts through the runtime. Return True if the runtime accepted all of them.

        After the first failure, the remaining attempts are skipped, because they would most likely
        fail too and each can take long. The next reconciliation begins with the attempts that have
        failed least often.
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
        """Return the stopping attempts that must be stopped with more urgency than before."""
        if not status.stop_requested:
            return []
        sent, now = self._urgencies.get(uid, (math.inf, True)), _urgency(status)
        if now[0] >= sent[0] and now[1] == sent[1]:
            return []
        self._urgencies[uid] = now
        return [replica.id for replica in replicas if replica.deleting and is_alive(replica)]

    def _try(
        self,
        act: Callable[[], None],
        uid: str,
        replica: ReplicaId,
        reason: str,
        events: list[Event],
    ) -> _Outcome:
        """Send one request to the runtime.

        Record a failure when it is new and once more if it persists.
        """
        if self._is_over():  # another instance may have taken over and act on the stored decision
            self._expectations.withdraw(uid, replica)
            return _Outcome.LATER
        try:
            act()
        except NotYet as waits:  # if `is_notified`, the runtime wakes the job later
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


def _urgency(status: JobStatus) -> tuple[float, bool]:
    """Return a requested stop's grace period, and whether it begins with SIGINT."""
    return status.stop_grace, status.stop_interrupts
