"""What every place where replicas live can do: report what it sees, and do as it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from windlass.model.job import Assignment, Job, JobSpec
from windlass.model.status import Replica, ReplicaId


class NotYet(Exception):
    """An attempt cannot start as things are, and nobody need be told of it.

    It is asked for again once the runtime has told that something changed, and not before; or,
    where the runtime does not see what that is and so will tell nothing (`is_told`), after a pause.
    """

    def __init__(self, message: str, *, is_told: bool = True) -> None:
        super().__init__(message)
        self.is_told = is_told


class NameHeld(NotYet):
    """What has the name of an attempt is still on its way out."""


class Runtime(Protocol):
    """A place where replicas live. It decides nothing.

    All methods may be called from any thread, and never for one job from two at a time.
    """

    def validate(self, spec: JobSpec) -> list[str]:
        """What a user asked for that cannot be had here, one sentence a problem."""
        ...

    def addresses(self, job: Job, known: Mapping[str, str]) -> dict[str, str]:
        """Where each replica of a job will be reached by the others: "role-index" -> "host:port".

        Asked before any is created and whenever their number changed; what is known stays. The
        answer is stored, so that addresses stay the same over restarts of replicas and of ours.
        Empty where nobody needs them.
        """
        ...

    def create(self, job: Job, replica: ReplicaId, given: Assignment) -> None:
        """Start an attempt of a replica with what it is given; nothing if it was started.

        Once this returns, `list` reports it. Raises if it could not be asked for; it is then asked
        for again. What is in the order of things is `NotYet`, and `NameHeld` where what is left
        of an older attempt has its name.
        """
        ...

    def delete(self, job_uid: str, replica: ReplicaId, grace: float) -> None:
        """Have an attempt end, by force after so many seconds; nothing if there is none.

        Does not wait for the end. An ended attempt is forgotten, or kept on record: either is
        fine, the newest attempt is what counts.
        """
        ...

    def list(self, job: Job) -> Sequence[Replica]:
        """The attempts of a job as they are now.

        An attempt told to end is `deleting` until it has. Where ended attempts are kept on
        record they are not `deleting`: that would say their place is still taken.
        """
        ...

    def watch(self, callback: Callable[[str], None]) -> None:
        """Have `callback` called with a job's uid whenever something of its replicas changed.

        From any thread, and rather once too often than once too few. It returns at once.
        """
        ...

    def release(self, job_uid: str) -> None:
        """Let go of what is kept for a job beyond its replicas, as its addresses: it is over.

        Nothing if nothing is kept; a job that goes on after all is given it again.
        """
        ...

    def close(self) -> None:
        """Let go of what this object holds. Replicas live on."""
        ...
