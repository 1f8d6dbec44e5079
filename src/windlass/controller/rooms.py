"""Rooms: what room each job has, in its status and in the admission queue, kept in step.

What a job gains is in its status before it is used, and what it gives back is out of its status
before anybody else may have it: whoever dies in between leaves a status that is true.
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


class Rooms:
    """Gives jobs room, takes it back, and wakes those who got some.

    Without an admission queue there is room for everybody; and for whoever runs elsewhere: there
    it is for others to say who waits.
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
        """Before the first look at any job: else the first to be looked at would be let in."""
        if self._admission is None or not job.spec.is_local:
            return
        priority, (created, moves) = job.spec.priority, _standing(job, status)
        if status.admitted:
            spec = with_sizes(job.spec, status.sizes) if status.sizes else job.spec
            devices = {_place(key): given for key, given in status.devices.items()}
            self._admission.restore(job.uid, spec, priority, created, devices, moves)
        if wants_room(job, status):
            self._admission.submit(job.uid, job.spec, priority, created, moves)

    def give(self, job: Job, status: JobStatus) -> JobStatus:
        """The status with as much of the room it asks for as there is for it now."""
        if status.admitted and has_all(job.spec, status.sizes):
            self._stop_growing(job, status)
            return status
        if not wants_room(job, status):
            self._stop_growing(job, status)
            return status
        asked = sizes_of(job.spec)
        if self._admission is None or not job.spec.is_local:
            sizes = _at_most(asked, status.sizes, asked)
            return msgspec.structs.replace(status, admitted=True, sizes=sizes)
        self._admission.submit(job.uid, job.spec, job.spec.priority, *_standing(job, status))
        self._pass(besides=job.uid)
        room = self._admission.room_of(job.uid)
        if room is None:
            return status
        sizes = _at_most(asked, status.sizes, room.sizes)
        devices = {
            device_key(role, index): given
            for (role, index), given in room.devices.items()
            if index < sizes.get(role, 0)
        }
        return msgspec.structs.replace(status, admitted=True, sizes=sizes, devices=devices)

    def without_gone(self, job: Job, status: JobStatus, replicas: Sequence[Replica]) -> JobStatus:
        """The status without the room of what was scaled away and is gone."""
        left = sizes_left(job.spec, status.sizes, replicas)
        if left is status.sizes or not wants_room(job, status):
            return status
        devices = {
            key: given
            for key, given in status.devices.items()
            if _place(key)[1] < left.get(_place(key)[0], 0)
        }
        return msgspec.structs.replace(status, sizes=left, devices=devices)

    def take_back(self, job: Job, status: JobStatus, replicas: Sequence[Replica]) -> None:
        """Let others have what a job, by the status that is stored, no longer needs."""
        if self._admission is None:
            return
        is_over = status.is_finished and not any(is_alive(each) for each in replicas)
        is_suspended = status.holds(ConditionType.SUSPENDED) and not status.admitted
        if is_over or is_suspended:
            self.forget(job.uid)
            return
        if not status.admitted or not status.generation:
            return  # one whose spec never changed has what it asks for
        room = self._admission.room_of(job.uid)
        if room is None or room.sizes == status.sizes:
            return
        # What it has just been let grow by is not in its status yet: that it keeps.
        most = {
            role.name: max(role.replicas, status.sizes.get(role.name, 0)) for role in job.spec.roles
        }
        self._admission.shrink(job.uid, job.spec, most)
        self._pass()

    def forget(self, uid: str) -> None:
        """A job needs no room at all."""
        if self._admission is not None:
            self._admission.release(uid)
            self._pass()

    def _stop_growing(self, job: Job, status: JobStatus) -> None:
        """What it may have waited for it no longer wants; one not let in yet is not asked here."""
        if self._admission is not None and status.admitted and status.generation:
            self._admission.withdraw(job.uid)

    def _pass(self, besides: str = "") -> None:
        if self._admission is not None:
            admitted = self._admission.pass_()
            for uid in admitted:
                if uid != besides:
                    self._wake(uid)
            if admitted:
                self._on_queue_moved()


def wants_room(job: Job, status: JobStatus) -> bool:
    """Whether a job would use room if it had it."""
    return not (status.is_finished or job.spec.suspend or status.stop_requested)


def device_key(role: str, index: int) -> str:
    """By what a replica's devices and its address are found in a status."""
    return f"{role}-{index}"


def _standing(job: Job, status: JobStatus) -> tuple[float, Moves]:
    """Where it stands in the queue: by its age, unless it was moved."""
    return status.place or (float(job.trial_id), ())


def _place(key: str) -> tuple[str, int]:
    role, _, index = key.rpartition("-")
    return role, int(index)


def _at_most(
    asked: Mapping[str, int], has: Mapping[str, int], given: Mapping[str, int]
) -> dict[str, int]:
    """What it has, and of what it was given as much as it still asks for."""
    return {
        role: max(has.get(role, 0), min(given.get(role, 0), size)) for role, size in asked.items()
    }
