"""What the controller needs of whoever keeps the jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from windlass.model.job import Job
from windlass.model.status import Event, JobStatus, Replica


class JobStore(Protocol):
    """Where jobs and their statuses are kept."""

    def load(self, uid: str) -> tuple[Job, JobStatus] | None:
        """A job and its status as they are now, or none if there is no such job."""
        ...

    def save(
        self,
        uid: str,
        old: JobStatus,
        new: JobStatus,
        events: Sequence[Event],
        replicas: Sequence[Replica],
    ) -> bool:
        """Put `new` in the place of `old`, with what happened and the attempts as they are.

        False, and nothing stored, if the status is no longer `old`: it is then loaded again.
        """
        ...

    def unfinished(self) -> Iterable[str]:
        """The jobs whose status is not `settled`, the oldest first.

        That is those not finished, and those finished of which something may still run.
        """
        ...
