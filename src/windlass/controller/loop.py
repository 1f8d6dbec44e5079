"""The loop: one look at a time at each job that may have changed.

A look loads the job, lists its replicas, has the engine decide, stores the status, and only then
has the runtime act. An attempt is therefore on record before it exists: whoever dies in between
leaves something that the next look completes, and nothing is ever made twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from windlass.controller.acting import Acting
from windlass.controller.admission import AdmissionQueue
from windlass.controller.clock import Clock, SystemClock
from windlass.controller.expectations import Expectations
from windlass.controller.failures import Failures
from windlass.controller.queue import WorkQueue
from windlass.controller.resyncs import LONGEST_RESYNC, Resyncs
from windlass.controller.rooms import Rooms, device_key, wants_room
from windlass.controller.store import JobStore
from windlass.controller.timing import Timing
from windlass.engine.cleaning import settle
from windlass.engine.decide import decide
from windlass.engine.decision import Decision
from windlass.engine.sizes import effective_spec
from windlass.engine.slots import is_alive
from windlass.model.errors import WindlassError
from windlass.model.job import Job
from windlass.model.status import Event, JobStatus, Replica
from windlass.runtimes.protocol import Runtime

GRACE = 10.0
_SAVE_TRIES = 10
_ADDRESSES = "addresses"

_log = logging.getLogger(__name__)


class StatusKeepsChanging(RuntimeError):
    """A status could not be stored because others kept changing it."""


class Controller:
    """Brings jobs to where they should be; see `start`, `wake` and `stop`.

    Without an admission queue every job is let in as soon as it is seen.
    """

    def __init__(
        self,
        store: JobStore,
        runtime: Runtime,
        clock: Clock | None = None,
        *,
        admission: AdmissionQueue | None = None,
        workers: int = 2,
        grace: float = GRACE,
        on_queue_moved: Callable[[], None] = lambda: None,
    ) -> None:
        self.admission = admission
        self.queue = WorkQueue(clock)
        self.timing = Timing()
        self._store = store
        self._runtime = runtime
        self._clock = clock or SystemClock()
        self._workers = workers
        self._rooms = Rooms(admission, self.wake, on_queue_moved)
        self._expectations = Expectations()
        self._failures = Failures()
        self._resyncs = Resyncs()
        self._acting = Acting(
            store,
            runtime,
            self._expectations,
            self._failures,
            clock=self._clock,
            grace=grace,
            is_over=lambda: self.queue.is_shut,
        )
        self._threads: list[threading.Thread] = []
        self._beginning: set[str] = set()  # jobs that ask for room and are being stored
        # Of each job only one worker at a time touches its entries.
        self._saved: dict[str, tuple[Replica, ...]] = {}
        self._epochs: dict[str, float] = {}  # when `monotonic` was 0, by the clock of back then

    def start(self) -> None:
        """Take up all jobs that are not settled, and begin to work."""
        self.recover()
        for number in range(self._workers):
            thread = threading.Thread(
                target=self._work_for_ever, name=f"controller-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def recover(self) -> None:
        """Learn which jobs there are; those that have room keep it, the others their place."""
        self._runtime.watch(self.wake)
        uids = list(self._store.unfinished())
        if self.admission is not None:
            for uid in uids:
                if loaded := self._store.load(uid):
                    self._rooms.restore(*loaded)
        for uid in uids:
            self.wake(uid)

    @property
    def has_died(self) -> bool:
        """Whether one of its workers is gone, though nobody has stopped them."""
        is_one_gone = any(not thread.is_alive() for thread in self._threads)
        return is_one_gone and not self.queue.is_shut

    def stop(self, timeout: float | None = None) -> None:
        """Take no more looks; those being taken do no more than what is under way.

        Replicas live on, and what is on record and was not done is done by whoever comes next.
        """
        self.queue.shutdown()
        for thread in self._threads:
            thread.join(timeout)
        self._threads.clear()

    def wake(self, uid: str) -> None:
        """Have a look at a job, soon; from any thread."""
        self.queue.add(uid)

    def begin(self, job: Job) -> tuple[JobStatus, Sequence[Event]]:
        """The first status of a job that is about to be stored, and what happened to it.

        It is let in, if there is room, and its replicas are on record: the first look makes
        them. `begun` is to be called once it is stored, or `abandon` if it could not be.
        """
        self._beginning.add(job.uid)
        now = self._clock.now()
        status = self._rooms.give(job, JobStatus())
        try:
            status = self._addressed(job, status)
        except Exception as error:  # noqa: BLE001  # the first look asks again, and tells of it
            _log.warning("job %s: no addresses yet: %s", job.uid, error)
        decision = decide(job.spec, status, (), now)
        status = msgspec.structs.replace(decision.status, last_reconcile_time=now)
        return status, decision.events

    def begun(self, uid: str) -> None:
        """A job that `begin` was asked about is stored: look at it, unless it waits for room."""
        self._beginning.discard(uid)
        if self.admission is not None and self.admission.is_waiting(uid):
            self.queue.add_after(uid, LONGEST_RESYNC)  # woken when there is room
        else:
            self.wake(uid)

    def abandon(self, uid: str) -> None:
        """A job that `begin` was asked about could not be stored: it keeps no room."""
        self._beginning.discard(uid)
        self.wake(uid)

    def work(self, timeout: float | None = None) -> bool:
        """Take one look at the next job that is due; whether there was one."""
        uid = self.queue.get(timeout)
        if uid is None:
            return False
        began = time.perf_counter()
        try:
            if self.reconcile(uid):
                self.queue.forget(uid)
            else:
                self.queue.add_rate_limited(uid)
        except WindlassError as error:  # in the order of things: a cluster is away, or busy
            _log.warning("job %s: will be looked at again: %s", uid, error.message)
            self.queue.add_rate_limited(uid)
        except Exception:  # noqa: BLE001  # one job's trouble must not end the work on all others
            _log.exception("job %s: will be looked at again", uid)
            self.queue.add_rate_limited(uid)
        finally:
            self.timing.add(time.perf_counter() - began)
            self.queue.done(uid)
        return True

    def reconcile(self, uid: str) -> bool:
        """One look at a job. False if something could not be done and is to be tried again."""
        for _ in range(_SAVE_TRIES):
            is_beginning = uid in self._beginning  # before the look: it may be stored meanwhile
            loaded = self._store.load(uid)
            if loaded is None:
                if not is_beginning:  # else it was let in by another, and keeps its room
                    self._forget(uid)
                return True
            job, stored = loaded
            status = self._rooms.give(job, stored)
            replicas = tuple(self._runtime.list(job))
            now = self._now(uid, status)
            wait = self._expectations.outstanding(uid, replicas, now)
            if wait > 0:
                self.queue.add_after(uid, wait)
                return True
            status = self._rooms.without_gone(job, status, replicas)
            present = _effective(job, status)
            try:
                status = self._addressed(present, status)
            except Exception as error:  # noqa: BLE001  # a runtime's trouble is told and tried again
                self._tell_of_addresses(uid, stored, replicas, error)
                return False
            decision = decide(present.spec, status, replicas, now)
            saved = self._save(uid, stored, decision, replicas, now)
            if saved is not None:
                break
        else:
            raise StatusKeepsChanging(
                f"job {uid}: its status changed {_SAVE_TRIES} times meanwhile"
            )
        all_done = self._acting.act(present, saved, decision, replicas, now)
        if all_done and decision.delete:
            saved = self._settle(job, saved, replicas, now)
        self._rooms.take_back(job, saved, replicas)
        self._plan_next_look(uid, saved, decision, replicas)
        return all_done

    def _work_for_ever(self) -> None:
        while self.work():
            pass

    def _now(self, uid: str, status: JobStatus) -> float:
        """The time for a look. For a job that has begun it passes evenly, though the clock be set:

        else its deadline, and the pause before its next attempt, would be off by as much.
        """
        if status.start_time is None and uid not in self._epochs:
            return self._clock.now()  # else it is suspended: what was planned is of its own time
        passed = self._clock.monotonic()
        return self._epochs.setdefault(uid, self._clock.now() - passed) + passed

    def _addressed(self, job: Job, status: JobStatus) -> JobStatus:
        """The status with the address of every replica that there may be now.

        A replica that is alone and has no framework meets nobody.
        """
        spec = job.spec
        if not spec.framework and len(spec.roles) == 1 and spec.roles[0].replicas <= 1:
            return status
        if not status.admitted or not wants_room(job, status):
            return status
        known = status.addresses
        if all(
            device_key(role.name, index) in known
            for role in spec.roles
            for index in range(role.replicas)
        ):
            return status
        addresses = self._runtime.addresses(job, known)
        return msgspec.structs.replace(status, addresses=addresses)

    def _save(
        self,
        uid: str,
        stored: JobStatus,
        decision: Decision,
        replicas: tuple[Replica, ...],
        now: float,
    ) -> JobStatus | None:
        """The status as it now stands in the store, or none if it had changed there."""
        is_news = replicas != self._saved.get(uid, ()) and not stored.settled
        if decision.status == stored and not is_news and not decision.events:
            return stored
        new = msgspec.structs.replace(decision.status, last_reconcile_time=now)
        if not self._store.save(uid, stored, new, decision.events, replicas):
            return None
        self._saved[uid] = replicas
        return new

    def _tell_of_addresses(
        self, uid: str, status: JobStatus, replicas: Sequence[Replica], error: Exception
    ) -> None:
        what = "finding addresses for the replicas"
        now = self._clock.now()
        events = self._failures.tell(uid, _ADDRESSES, "AddressesFailed", what, error, now)
        if events and not self._store.save(uid, status, status, events, replicas):
            self._failures.forget(uid)  # the next try tells of it again

    def _settle(
        self, job: Job, status: JobStatus, replicas: Sequence[Replica], now: float
    ) -> JobStatus:
        """What ended has been deleted and may be reported for ever: that is the end of it."""
        settled = settle(job.spec, status, replicas, now)
        if settled is status:
            return status
        if not self._store.save(job.uid, status, settled, (), replicas):
            self.wake(job.uid)
            return status
        return settled

    def _plan_next_look(
        self, uid: str, status: JobStatus, decision: Decision, replicas: Sequence[Replica]
    ) -> None:
        if status.settled:
            self._forget(uid)
            return
        waits = [] if decision.requeue_after is None else [decision.requeue_after]
        if not waits or not status.is_finished or any(is_alive(each) for each in replicas):
            waits.append(self._resyncs.after(uid, status, replicas))
        self.queue.add_after(uid, min(waits))

    def _forget(self, uid: str) -> None:
        self._expectations.forget(uid)
        self._resyncs.forget(uid)
        self._saved.pop(uid, None)
        self._failures.forget(uid)
        self._acting.forget(uid)
        self._epochs.pop(uid, None)
        self.queue.cancel(uid)
        self._runtime.release(uid)
        self._rooms.forget(uid)


def _effective(job: Job, status: JobStatus) -> Job:
    """The job as it may be now: one that grows waits for room for what it gains."""
    spec = effective_spec(job.spec, status.sizes)
    return job if spec is job.spec else msgspec.structs.replace(job, spec=spec)
