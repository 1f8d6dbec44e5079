"""The protocol of the store that the controller uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from windlass.model.job import Job
from windlass.model.status import Event, JobStatus, Replica


class JobStore(Protocol):
    """Stores jobs and their statuses."""

    def load(self, uid: str) -> tuple[Job, JobStatus] | None:
        """Return a job and its status, or None if the job does not exist."""
        ...

    def save(
        self,
        uid: str,
        old: JobStatus,
        new: JobStatus,
        events: Sequence[Event],
        replicas: Sequence[Replica],
    ) -> bool:
        """Replace the status `old` with `new`, and store the events and the attempts.

        Returns False and stores nothing if the stored status differs from `old`. The caller then
        loads the job again.
        """
        ...

    def unfinished(self) -> Iterable[str]:
        """Yield the UIDs of all jobs that are not `settled`, oldest job first.

        These are unfinished jobs and finished jobs whose replicas may still run.
        """
        ...
