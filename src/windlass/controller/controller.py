"""The controller, which reconciles each job that may have changed.

A reconciliation loads the job, lists its replicas, lets the engine decide, stores the status, and
only then lets the runtime act. An attempt is therefore stored before the runtime creates it. If the
process dies between the two steps, the next reconciliation completes the decision, and no attempt
is created twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from windlass.controller.actions import Actions
from windlass.controller.admission import AdmissionQueue
from windlass.controller.capacity_grants import CapacityGrants, device_key, wants_capacity
from windlass.controller.clock import Clock, SystemClock
from windlass.controller.expectations import Expectations
from windlass.controller.failure_log import FailureLog
from windlass.controller.latency import LatencyHistogram
from windlass.controller.queue import WorkQueue
from windlass.controller.resyncs import LONGEST_RESYNC, Resyncs
from windlass.controller.store import JobStore
from windlass.engine.cleanup import settle
from windlass.engine.decide import decide
from windlass.engine.decision import Decision
from windlass.engine.sizes import effective_spec
from windlass.engine.slots import is_alive
from windlass.model.errors import WindlassError
from windlass.model.job import Job
from windlass.model.status import Event, JobStatus, Replica
from windlass.runtimes.base import Runtime

GRACE = 10.0
_SAVE_TRIES = 10
_ADDRESSES = "addresses"

_log = logging.getLogger(__name__)


class StatusKeepsChanging(RuntimeError):
    """A status could not be stored because other threads or processes kept changing it."""


class Controller:
    """Reconciles jobs in worker threads.

    Call `start` to start the workers, `wake` to schedule a job, and `stop` to stop the workers. If
    there is no admission queue, every job is admitted at once.
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
        self.latency = LatencyHistogram()
        self._store = store
        self._runtime = runtime
        self._clock = clock or SystemClock()
        self._workers = workers
        self._grants = CapacityGrants(admission, self.wake, on_queue_moved)
        self._expectations = Expectations()
        self._failures = FailureLog()
        self._resyncs = Resyncs()
        self._actions = Actions(
            store,
            runtime,
            self._expectations,
            self._failures,
            clock=self._clock,
            grace=grace,
            is_over=lambda: self.queue.is_shut,
        )
        self._threads: list[threading.Thread] = []
        self._unconfirmed: set[str] = set()  # prepared jobs that are not stored yet
        # These dicts need no lock, because only one worker at a time reconciles a job.
        self._saved: dict[str, tuple[Replica, ...]] = {}  # the last stored replicas, by job
        self._epochs: dict[str, float] = {}  # the wall time when `monotonic` was 0, by job

    def start(self) -> None:
        """Schedule all jobs that are not settled, and start the workers."""
        self.recover()
        for number in range(self._workers):
            thread = threading.Thread(
                target=self._work_for_ever, name=f"controller-{number}", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def recover(self) -> None:
        """Schedule all jobs that are not settled.

        Each job first regains its capacity or its position in the admission queue.
        """
        self._runtime.watch(self.wake)
        uids = list(self._store.unfinished())
        if self.admission is not None:
            for uid in uids:
                if loaded := self._store.load(uid):
                    self._grants.restore(*loaded)
        for uid in uids:
            self.wake(uid)

    @property
    def has_died(self) -> bool:
        """True if a worker thread ended although `stop` was not called."""
        is_one_gone = any(not thread.is_alive() for thread in self._threads)
        return is_one_gone and not self.queue.is_shut

    def stop(self, timeout: float | None = None) -> None:
        """Stop each worker after its current action.

        Replicas keep running. The next controller carries out the remaining stored decisions.
        """
        self.queue.shutdown()
        for thread in self._threads:
            thread.join(timeout)
        self._threads.clear()

    def start_failure(self, uid: str) -> str:
        """Return why a job's replicas cannot be started at present, or "". Thread-safe."""
        return self._failures.latest(uid)

    def wake(self, uid: str) -> None:
        """Schedule a reconciliation of a job. Thread-safe."""
        self.queue.add(uid)

    def prepare(self, job: Job) -> tuple[JobStatus, Sequence[Event]]:
        """Return the first status and events of a job that is about to be stored.

        If there is enough free capacity, the job is admitted. The status lists the replicas that
        the first reconciliation will create. Call `confirm` once the job is stored, or `abandon` if
        the job could not be stored.
        """
        self._unconfirmed.add(job.uid)
        now = self._clock.now()
        status = self._grants.grant(job, JobStatus())
        try:
            status = self._addressed(job, status)
        except Exception as error:  # noqa: BLE001  # the first reconciliation retries and records it
            _log.warning("job %s: no addresses yet: %s", job.uid, error)
        decision = decide(job.spec, status, (), now)
        status = msgspec.structs.replace(decision.status, last_reconcile_time=now)
        return status, decision.events

    def confirm(self, uid: str) -> None:
        """Schedule a prepared job that was stored.

        A job that waits for capacity is scheduled for a later time, but only as a precaution,
        because its admission schedules it earlier.
        """
        self._unconfirmed.discard(uid)
        if self.admission is not None and self.admission.is_waiting(uid):
            self.queue.add_after(uid, LONGEST_RESYNC)
        else:
            self.wake(uid)

    def abandon(self, uid: str) -> None:
        """Release the capacity of a prepared job that could not be stored."""
        self._unconfirmed.discard(uid)
        self.wake(uid)

    def work(self, timeout: float | None = None) -> bool:
        """Reconcile the next job that is due. Return False if no job was due."""
        uid = self.queue.get(timeout)
        if uid is None:
            return False
        began = time.perf_counter()
        try:
            if self.reconcile(uid):
                self.queue.forget(uid)
            else:
                self.queue.add_rate_limited(uid)
        except WindlassError as error:  # the cluster may be unreachable or busy
            _log.warning("job %s: the reconciliation will be retried: %s", uid, error.message)
            self.queue.add_rate_limited(uid)
        except Exception:  # noqa: BLE001  # one job's error must not affect other jobs
            _log.exception("job %s: the reconciliation failed and will be retried", uid)
            self.queue.add_rate_limited(uid)
        finally:
            self.latency.add(time.perf_counter() - began)
            self.queue.done(uid)
        return True

    def reconcile(self, uid: str) -> bool:
        """Reconcile a job once. Return False if an action failed and must be retried."""
        for _ in range(_SAVE_TRIES):
            is_unconfirmed = uid in self._unconfirmed  # `submit` may store the job while this runs
            loaded = self._store.load(uid)
            if loaded is None:
                if not is_unconfirmed:  # an unconfirmed job keeps the capacity that it was granted
                    self._forget(uid)
                return True
            job, stored = loaded
            status = self._grants.grant(job, stored)
            replicas = tuple(self._runtime.list(job))
            now = self._now(uid, status)
            wait = self._expectations.outstanding(uid, replicas, now)
            if wait > 0:
                self.queue.add_after(uid, wait)
                return True
            status = self._grants.without_scaled_away(job, status, replicas)
            present = _effective(job, status)
            try:
                status = self._addressed(present, status)
            except Exception as error:  # noqa: BLE001  # recorded and retried
                self._record_address_failure(uid, stored, replicas, error)
                return False
            decision = decide(present.spec, status, replicas, now)
            saved = self._save(uid, stored, decision, replicas, now)
            if saved is not None:
                break
        else:
            raise StatusKeepsChanging(
                f"job {uid}: its status changed {_SAVE_TRIES} times meanwhile"
            )
        all_done = self._actions.act(present, saved, decision, replicas, now)
        if all_done and decision.delete:
            saved = self._settle(job, saved, replicas, now)
        self._grants.reclaim(job, saved, replicas)
        self._schedule_next_reconcile(uid, saved, decision, replicas)
        return all_done

    def _work_for_ever(self) -> None:
        while self.work():
            pass

    def _now(self, uid: str, status: JobStatus) -> float:
        """Return the time of a reconciliation. This time never decreases for a started job.

        A change of the system clock must not affect a job's deadline or its restart delays.
        """
        if status.start_time is None and uid not in self._epochs:
            return self._clock.now()  # the job never started in this process
        passed = self._clock.monotonic()
        return self._epochs.setdefault(uid, self._clock.now() - passed) + passed

    def _addressed(self, job: Job, status: JobStatus) -> JobStatus:
        """Return the status after adding the address of every replica.

        A job without a framework that has only one replica needs no address.
        """
        spec = job.spec
        if not spec.framework and len(spec.roles) == 1 and spec.roles[0].replicas <= 1:
            return status
        if not status.admitted or not wants_capacity(job, status):
            return status
        addresses_so_far = status.addresses
        if all(
            device_key(role.name, index) in addresses_so_far
            for role in spec.roles
            for index in range(role.replicas)
        ):
            return status
        addresses = self._runtime.addresses(job, addresses_so_far)
        return msgspec.structs.replace(status, addresses=addresses)

    def _save(
        self,
        uid: str,
        stored: JobStatus,
        decision: Decision,
        replicas: tuple[Replica, ...],
        now: float,
    ) -> JobStatus | None:
        """Store the decided status and return it, or return None if the stored status changed."""
        is_news = replicas != self._saved.get(uid, ()) and not stored.settled
        if decision.status == stored and not is_news and not decision.events:
            return stored
        new = msgspec.structs.replace(decision.status, last_reconcile_time=now)
        if not self._store.save(uid, stored, new, decision.events, replicas):
            return None
        self._saved[uid] = replicas
        return new

    def _record_address_failure(
        self, uid: str, status: JobStatus, replicas: Sequence[Replica], error: Exception
    ) -> None:
        what = "finding addresses for the replicas"
        now = self._clock.now()
        events = self._failures.record(uid, _ADDRESSES, "AddressesFailed", what, error, now)
        if events and not self._store.save(uid, status, status, events, replicas):
            self._failures.forget(uid)  # the next reconciliation records the event again

    def _settle(
        self, job: Job, status: JobStatus, replicas: Sequence[Replica], now: float
    ) -> JobStatus:
        """Mark a finished job as settled if its last replicas were deleted.

        Return the job's new or unchanged status.
        """
        settled = settle(job.spec, status, replicas, now)
        if settled is status:
            return status
        if not self._store.save(job.uid, status, settled, (), replicas):
            self.wake(job.uid)
            return status
        return settled

    def _schedule_next_reconcile(
        self, uid: str, status: JobStatus, decision: Decision, replicas: Sequence[Replica]
    ) -> None:
        if status.settled:
            self._forget(uid)
            return
        waits = [] if decision.requeue_after is None else [decision.requeue_after]
        if not waits or not status.is_finished or any(is_alive(replica) for replica in replicas):
            waits.append(self._resyncs.after(uid, status, replicas))
        self.queue.add_after(uid, min(waits))

    def _forget(self, uid: str) -> None:
        self._expectations.forget(uid)
        self._resyncs.forget(uid)
        self._saved.pop(uid, None)
        self._failures.forget(uid)
        self._actions.forget(uid)
        self._epochs.pop(uid, None)
        self.queue.cancel(uid)
        self._runtime.release(uid)
        self._grants.forget(uid)


def _effective(job: Job, status: JobStatus) -> Job:
    """Return the job, reduced to the replicas that have capacity.

    The additional replicas of a growing job still wait for capacity.
    """
    spec = effective_spec(job.spec, status.sizes)
    return job if spec is job.spec else msgspec.structs.replace(job, spec=spec)
