"""The slots of a job: one slot per replica that the job should have.

A slot combines a replica's stored history with its observed attempts. `history.attempt` is the
number of the newest requested attempt. Once that attempt has ended or was asked to stop,
`history.not_before` is set to the earliest start time of the next attempt. Runtimes may report
ended attempts forever, so an older attempt counts only while it is alive. It is then a leftover,
which must end before the next attempt starts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.model.job import JobSpec, RestartPolicy, Role
from windlass.model.status import JobStatus, Phase, Replica, ReplicaHistory, ReplicaId

STOPPED_BY_US = "Stopped"


def is_alive(replica: Replica) -> bool:
    """Return True unless the runtime reports that an attempt has ended."""
    return not replica.phase.is_final


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that a job should have, including its stored history and observed attempts."""

    role: Role
    history: ReplicaHistory
    seen: tuple[Replica, ...] = ()  # sorted by attempt

    @property
    def id(self) -> ReplicaId:
        """The ID of the replica's newest requested attempt."""
        return ReplicaId(self.history.role, self.history.index, self.history.attempt)

    @property
    def current(self) -> Replica | None:
        """The replica's newest requested attempt, or None if the runtime does not report it."""
        if self.seen and self.seen[-1].id.attempt == self.history.attempt:
            return self.seen[-1]
        return None

    @property
    def awaits_next(self) -> bool:
        """True if the replica's newest attempt is over and another attempt is due."""
        return self.history.not_before is not None

    @property
    def is_done(self) -> bool:
        """True if the replica succeeded and will not restart."""
        return (
            not self.awaits_next
            and self.history.phase is Phase.SUCCEEDED
            and self.role.restart_policy is not RestartPolicy.ALWAYS
        )

    @property
    def is_running(self) -> bool:
        current = self.current
        return (
            not self.awaits_next
            and current is not None
            and current.phase is Phase.RUNNING
            and not current.deleting
        )

    @property
    def has_vanished(self) -> bool:
        """True if the newest attempt disappeared while alive and Windlass did not delete it."""
        return (
            not self.awaits_next
            and self.current is None
            and self.history.phase is not None
            and not self.history.phase.is_final
        )

    @property
    def was_created(self) -> bool:
        return self.history.attempt > 1 or self.history.phase is not None

    @property
    def is_new(self) -> bool:
        """True if no attempt of this replica was ever observed or deleted."""
        return not self.was_created and not self.awaits_next

    @property
    def leftovers(self) -> tuple[Replica, ...]:
        """The replica's older attempts that must end before the next attempt can start."""
        return tuple(
            replica
            for replica in self.seen
            if (is_alive(replica) or replica.deleting)
            and (replica.id.attempt < self.history.attempt or self.awaits_next)
        )

    def with_history(self, **changes: object) -> Slot:
        """Return a copy of the slot with changes to the replica's stored history."""
        return msgspec.structs.replace(
            self, history=msgspec.structs.replace(self.history, **changes)
        )

    def over(self, not_before: float) -> Slot:
        """Return the slot with its attempt marked as over.

        `not_before` is the time at which the next attempt can start. If the slot already has such a
        time, that time stays.
        """
        if self.history.attempt == 0 or (self.awaits_next and self.history.phase is None):
            return self
        due = self.history.not_before if self.history.not_before is not None else not_before
        return self.with_history(not_before=due, phase=None)


def observe(spec: JobSpec, status: JobStatus, replicas: Sequence[Replica]) -> list[Slot]:
    """Return the slots of a job, with roles in declared order and replicas by index.

    If an observed attempt is newer than the stored history, the record of that attempt was lost.
    The slot adopts that attempt, so that the attempt is not created twice.

    >>> from windlass.model.job import ProcessCall
    >>> spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))
    >>> seen = Replica(id=ReplicaId("main", 0, 1), phase=Phase.RUNNING)
    >>> [slot.history.attempt for slot in observe(spec, JobStatus(), [seen])]
    [1]
    """
    replicas_by_index: dict[tuple[str, int], list[Replica]] = {}
    for replica in replicas:
        replicas_by_index.setdefault((replica.id.role, replica.id.index), []).append(replica)
    remembered = {(history.role, history.index): history for history in status.replicas}
    slots = []
    for role in spec.roles:
        for index in range(role.replicas):
            seen = sorted(
                replicas_by_index.get((role.name, index), ()),
                key=lambda replica: replica.id.attempt,
            )
            history = remembered.get((role.name, index))
            if history is None:
                history = ReplicaHistory(role=role.name, index=index)
            if seen and seen[-1].id.attempt > history.attempt:
                history = msgspec.structs.replace(
                    history, attempt=seen[-1].id.attempt, not_before=None, phase=None
                )
            slot = Slot(role=role, history=history, seen=tuple(seen))
            slots.append(_remember(slot, status.stop_requested))
    return slots


def strays(spec: JobSpec, replicas: Sequence[Replica]) -> list[Replica]:
    """Return living replicas that the job no longer requests, highest index first."""
    wanted = {role.name: role.replicas for role in spec.roles}
    surplus = [
        replica
        for replica in replicas
        if is_alive(replica) and replica.id.index >= wanted.get(replica.id.role, 0)
    ]
    return sorted(surplus, key=lambda replica: (replica.id.index, replica.id), reverse=True)


def retired(spec: JobSpec, status: JobStatus, now: float) -> list[ReplicaHistory]:
    """Return the histories of replicas that the job no longer requests.

    If the job later requests such a replica again, the replica's attempt numbers continue.
    """
    wanted = {role.name: role.replicas for role in spec.roles}
    return [
        history
        if history.not_before is not None
        else msgspec.structs.replace(history, not_before=now, phase=None)
        for history in status.replicas
        if history.index >= wanted.get(history.role, 0) and history.attempt > 0
    ]


def histories(
    spec: JobSpec, slots: Sequence[Slot], others: Sequence[ReplicaHistory]
) -> tuple[ReplicaHistory, ...]:
    """Return the histories of `slots` and `others`, in declared order of roles, then by index."""
    role_order = {role.name: number for number, role in enumerate(spec.roles)}
    kept = [slot.history for slot in slots if slot.history.attempt > 0] + list(others)
    return tuple(
        sorted(
            kept,
            key=lambda history: (
                role_order.get(history.role, len(role_order)),
                history.role,
                history.index,
            ),
        )
    )


def _remember(slot: Slot, stopping: bool) -> Slot:
    current = slot.current
    if current is None or slot.awaits_next or slot.history.phase is Phase.SUCCEEDED:
        return slot
    phase = current.phase
    if phase is Phase.FAILED and current.deleting:
        # Another program deleted the replica, so it did not fail. The engine will see it disappear.
        return slot.with_history(phase=Phase.RUNNING)
    if phase is Phase.SUCCEEDED and stopping:
        # A process may exit with 0 because it was asked to stop. That exit is not a success.
        stopped = current.deleting or current.reason == STOPPED_BY_US
        phase = Phase.FAILED if stopped else phase
    if not phase.is_final:
        return slot.with_history(phase=phase)
    exit_code = 0 if phase is Phase.SUCCEEDED else current.exit_code
    return slot.with_history(phase=phase, last_exit_code=exit_code)
