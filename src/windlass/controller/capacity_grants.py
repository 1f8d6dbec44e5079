"""Keeps the capacity in each job's status equal to the capacity in the admission queue.

The status records granted capacity before the job uses it, and stops listing released capacity
before another job gets it. The status is therefore true even if the process dies between two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from windlass.controller.admission import AdmissionQueue
from windlass.engine.admission import Moves
from windlass.engine.sizes import has_all, sizes_left, sizes_of, with_sizes
from windlass.engine.slots import is_alive
from windlass.model.job import Job
from windlass.model.status import ConditionType, JobStatus, Replica


class CapacityGrants:
    """Grants capacity to jobs, reclaims it, and wakes admitted jobs.

    A job that runs elsewhere than on the server is always admitted, because its backend's own
    scheduler decides which jobs wait. If there is no admission queue, every job is admitted.
    """

    def __init__(
        self,
        admission: AdmissionQueue | None,
        wake: Callable[[str], None],
        on_queue_moved: Callable[[], None],
    ) -> None:
        self._admission = admission
        self._wake = wake
        self._on_queue_moved = on_queue_moved

    def restore(self, job: Job, status: JobStatus) -> None:
        """Give a job the capacity, or the position in the queue, that its stored status records.

        The controller calls this for all jobs before the first reconciliation.
        """
        if self._admission is None or not job.spec.capabilities.runs_on_server:
            return
        priority, (created, moves) = job.spec.priority, _queue_position(job, status)
        if status.admitted:
            spec = with_sizes(job.spec, status.sizes) if status.sizes else job.spec
            devices = {_slot(key): indices for key, indices in status.devices.items()}
            self._admission.restore(job.uid, spec, priority, created, devices, moves)
        if wants_capacity(job, status):
            self._admission.submit(job.uid, job.spec, priority, created, moves)

    def grant(self, job: Job, status: JobStatus) -> JobStatus:
        """Grant a job capacity if enough is free, and return the job's updated status."""
        if status.admitted and has_all(job.spec, status.sizes):
            self._withdraw_growth(job, status)
            return status
        if not wants_capacity(job, status):
            self._withdraw_growth(job, status)
            return status
        wanted = sizes_of(job.spec)
        if self._admission is None or not job.spec.capabilities.runs_on_server:
            sizes = _at_most(wanted, status.sizes, wanted)
            return msgspec.structs.replace(status, admitted=True, sizes=sizes)
        self._admission.submit(job.uid, job.spec, job.spec.priority, *_queue_position(job, status))
        self._admit(besides=job.uid)
        allocation = self._admission.allocation_of(job.uid)
        if allocation is None:
            return status
        sizes = _at_most(wanted, status.sizes, allocation.sizes)
        devices = {
            device_key(role, index): indices
            for (role, index), indices in allocation.devices.items()
            if index < sizes.get(role, 0)
        }
        return msgspec.structs.replace(status, admitted=True, sizes=sizes, devices=devices)

    def without_scaled_away(
        self, job: Job, status: JobStatus, replicas: Sequence[Replica]
    ) -> JobStatus:
        """Return a job's status without the capacity of removed replicas that have ended."""
        left = sizes_left(job.spec, status.sizes, replicas)
        if left is status.sizes or not wants_capacity(job, status):
            return status
        devices = {
            key: indices
            for key, indices in status.devices.items()
            if _slot(key)[1] < left.get(_slot(key)[0], 0)
        }
        return msgspec.structs.replace(status, sizes=left, devices=devices)

    def reclaim(self, job: Job, status: JobStatus, replicas: Sequence[Replica]) -> None:
        """Release the capacity that a job's stored status no longer lists."""
        if self._admission is None:
            return
        is_over = status.is_finished and not any(is_alive(replica) for replica in replicas)
        is_suspended = status.holds(ConditionType.SUSPENDED) and not status.admitted
        if is_over or is_suspended:
            self.forget(job.uid)
            return
        if not status.admitted or not status.generation:
            return  # the spec never changed, so the sizes match
        allocation = self._admission.allocation_of(job.uid)
        if allocation is None or allocation.sizes == status.sizes:
            return
        # Keep capacity that was granted just now, because the status does not list it yet.
        most = {
            role.name: max(role.replicas, status.sizes.get(role.name, 0)) for role in job.spec.roles
        }
        self._admission.shrink(job.uid, job.spec, most)
        self._admit()

    def forget(self, uid: str) -> None:
        """Release all capacity of a job."""
        if self._admission is not None:
            self._admission.release(uid)
            self._admit()

    def _withdraw_growth(self, job: Job, status: JobStatus) -> None:
        """Withdraw an admitted job's request for more capacity."""
        if self._admission is not None and status.admitted and status.generation:
            self._admission.withdraw(job.uid)

    def _admit(self, besides: str = "") -> None:
        if self._admission is not None:
            admitted = self._admission.admit_waiting()
            for uid in admitted:
                if uid != besides:
                    self._wake(uid)
            if admitted:
                self._on_queue_moved()


def wants_capacity(job: Job, status: JobStatus) -> bool:
    """Return True if a job is unfinished, not suspended, and not stopping."""
    return not (status.is_finished or job.spec.suspend or status.stop_requested)


def device_key(role: str, index: int) -> str:
    """Return the key under which a status stores a replica's devices and address."""
    return f"{role}-{index}"


def _queue_position(job: Job, status: JobStatus) -> tuple[float, Moves]:
    """Return the parts of a job's queue position: its age, and the moves that users requested.

    If the job was never moved, its trial ID serves as its age.
    """
    return status.queue_position or (float(job.trial_id), ())


def _slot(key: str) -> tuple[str, int]:
    role, _, index = key.rpartition("-")
    return role, int(index)


def _at_most(
    wanted: Mapping[str, int], has: Mapping[str, int], granted: Mapping[str, int]
) -> dict[str, int]:
    """Return how many replicas of each role a job is permitted to have.

    A job keeps the sizes that it has, and gains the granted sizes up to the wanted sizes.
    """
    return {
        role: max(has.get(role, 0), min(granted.get(role, 0), size))
        for role, size in wanted.items()
    }
