"""The decision for a job: the actions that the runtime should take and the job's next status."""

from __future__ import annotations

import msgspec

from windlass.model.status import Event, JobStatus, ReplicaId


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one reconciliation. The caller must store `status` before it acts.

    >>> Decision(status=JobStatus()).is_idle
    True
    """

    status: JobStatus
    create: tuple[ReplicaId, ...] = ()
    delete: tuple[ReplicaId, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_after: float | None = None  # seconds until the job must be reconciled again

    @property
    def is_idle(self) -> bool:
        """True if the decision contains no action for the runtime."""
        return not self.create and not self.delete
