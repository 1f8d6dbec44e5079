"""Acting: a runtime is to do what was decided, and what it could not do is told."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial

from windlass.controller.clock import Clock
from windlass.controller.expectations import Expectations
from windlass.controller.failures import Failures
from windlass.controller.rooms import device_key
from windlass.controller.store import JobStore
from windlass.engine.deadline import seconds_alone
from windlass.engine.decision import Decision
from windlass.engine.messages import name_of
from windlass.engine.slots import is_alive
from windlass.model.job import Assignment, Job
from windlass.model.status import Event, JobStatus, Replica, ReplicaId
from windlass.runtimes.protocol import NotYet, Runtime

_log = logging.getLogger(__name__)


class _Outcome(Enum):
    """What came of something that a runtime was to do."""

    DONE = "done"  # or what it waits for will be told
    LATER = "later"
    FAILED = "failed"


class Acting:
    """Has a runtime end and begin attempts, until `is_over`: then another may act."""

    def __init__(
        self,
        store: JobStore,
        runtime: Runtime,
        expectations: Expectations,
        failures: Failures,
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
        # Of each job only one worker at a time touches its entry.
        self._graces: dict[str, float] = {}  # that those told to end have heard of

    def act(
        self,
        job: Job,
        status: JobStatus,
        decision: Decision,
        replicas: Sequence[Replica],
        now: float,
    ) -> bool:
        """Have the runtime do it; whether it took everything on."""
        self._expectations.expect(
            job.uid, creates=decision.create, deletes=decision.delete, now=now
        )
        events: list[Event] = []
        all_done = True
        grace = status.stop_grace if status.stop_requested else self._grace
        for replica in (*decision.delete, *self._to_hurry(job.uid, status, replicas)):
            act = partial(self._runtime.delete, job.uid, replica, grace)
            outcome = self._try(act, job.uid, replica, "DeleteFailed", events)
            all_done &= outcome is _Outcome.DONE
        all_done &= self._create(job, status, decision.create, now, events)
        if all_done:
            self._failures.forget(job.uid)
        if events and not self._store.save(job.uid, status, status, events, replicas):
            self._failures.forget(job.uid)  # the next try tells of them again
        return all_done

    def forget(self, uid: str) -> None:
        """The job is over."""
        self._graces.pop(uid, None)

    def _create(
        self,
        job: Job,
        status: JobStatus,
        replicas: Sequence[ReplicaId],
        now: float,
        events: list[Event],
    ) -> bool:
        """Have attempts begin; whether all were taken on.

        After one that failed no other is tried in this look: most likely it would fail, too, and
        each may take long, while nobody sees what else becomes of the job. In the next look those
        that never failed come first.
        """
        in_order = self._failures.rarest_first(job.uid, replicas)
        all_done = True
        for place, replica in enumerate(in_order):
            given = Assignment(
                devices=status.devices.get(device_key(replica.role, replica.index), ()),
                addresses=status.addresses,
                seconds=seconds_alone(job.spec, status, now),
            )
            act = partial(self._have_created, job, replica, given)
            outcome = self._try(act, job.uid, replica, "CreateFailed", events)
            if outcome is _Outcome.FAILED:
                self._expectations.withdraw(job.uid, *in_order[place + 1 :])
                return False
            all_done &= outcome is _Outcome.DONE
        return all_done

    def _have_created(self, job: Job, replica: ReplicaId, given: Assignment) -> None:
        self._runtime.create(job, replica, given)
        self._expectations.created(job.uid, replica)

    def _to_hurry(
        self, uid: str, status: JobStatus, replicas: Sequence[Replica]
    ) -> list[ReplicaId]:
        """Those told to end before, if there is less time for it now than they heard of."""
        if not status.stop_requested or status.stop_grace >= self._graces.get(uid, math.inf):
            return []
        self._graces[uid] = status.stop_grace
        return [each.id for each in replicas if each.deleting and is_alive(each)]

    def _try(
        self,
        act: Callable[[], None],
        uid: str,
        replica: ReplicaId,
        reason: str,
        events: list[Event],
    ) -> _Outcome:
        """What came of it. A failure is an event when it is new, and once more when it stays."""
        if self._is_over():  # another may act by now; what is on record is done by whoever does
            self._expectations.withdraw(uid, replica)
            return _Outcome.LATER
        try:
            act()
        except NotYet as waits:  # for what, if it is told, is a reason for another look
            _log.debug("job %s: %s waits: %s", uid, name_of(replica), waits)
            self._expectations.withdraw(uid, replica)
            return _Outcome.DONE if waits.is_told else _Outcome.LATER
        except Exception as error:  # noqa: BLE001  # a runtime's trouble is told and tried again
            self._expectations.withdraw(uid, replica)
            what = "starting" if reason == "CreateFailed" else "stopping"
            about, now = f"{what} {name_of(replica)}", self._clock.now()
            events += self._failures.tell(uid, replica, reason, about, error, now)
            return _Outcome.FAILED
        self._failures.discard(uid, replica)
        return _Outcome.DONE
