"""The protocol that every runtime implements for the controller and for the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from windlass.home import Home
from windlass.model.job import Assignment, Job, JobSpec
from windlass.model.status import Replica, ReplicaId


class NotYet(Exception):
    """An attempt cannot start yet, for a reason that is part of normal operation.

    The controller retries as soon as the runtime notifies it of a change. If `is_notified` is
    false, the runtime cannot observe the reason and sends no notification. In that case, the
    controller retries after a pause.
    """

    def __init__(self, message: str, *, is_notified: bool = True) -> None:
        super().__init__(message)
        self.is_notified = is_notified


class NameHeld(NotYet):
    """An object that is being deleted still has the name that the attempt needs."""


class AttemptProcess(NamedTuple):
    """The process and the devices of an attempt on the server's machine."""

    devices: tuple[int, ...] | None = None  # None if the runtime does not assign devices
    pid: int | None = None


class ServerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The functions and settings of a server that the runtimes of remote backends use."""

    home: Home
    token_for: Callable[[str], str]  # returns the token of a job's agents, by the job's uid
    url: Callable[[], str]  # returns the server's address for its own process
    urls: Callable[[], Sequence[str]]  # the server's addresses for other machines


class Runtime(Protocol):
    """The methods by which the controller starts, stops and lists the replicas of jobs.

    A runtime makes no decisions. All methods may be called from any thread, but two threads never
    call them for the same job at the same time.
    """

    def addresses(self, job: Job, assigned: Mapping[str, str]) -> dict[str, str]:
        """Return the addresses by which replicas reach each other: "role-index" -> "host:port".

        The controller calls this before it creates the first replica and whenever the number of
        replicas changes. Addresses in `assigned` stay as they are. The controller stores the
        result, so that addresses survive restarts of replicas and of the server. The result is
        empty if no replica needs an address.
        """
        ...

    def create(self, job: Job, replica: ReplicaId, assignment: Assignment) -> None:
        """Start an attempt of a replica, unless it was already started.

        Once this method returns, `list` reports the attempt. If the method raises, the controller
        calls it again later. `NotYet` is not a failure. `NameHeld` means that an older object,
        which is still being deleted, has the name of the attempt.
        """
        ...

    def delete(self, job: Job, replica: ReplicaId, grace: float) -> None:
        """Stop an attempt. After `grace` seconds, stop it by force. Ignore an unknown attempt.

        The method does not wait until the attempt has ended. The runtime may forget the ended
        attempt or keep a record of it, because only the newest attempt of a replica counts.
        """
        ...

    def list(self, job: Job) -> Sequence[Replica]:
        """Return the current state of all attempts of a job.

        The flag `deleting` means that an attempt is stopping and still uses its capacity. Ended
        attempts that the runtime keeps on record do not have the flag.
        """
        ...

    def watch(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with a job's uid whenever replicas of the job may have changed.

        The calls come from any thread. A call may come although nothing changed. This method
        returns at once.
        """
        ...

    def release(self, job_uid: str) -> None:
        """Release the addresses and other resources of a finished job, except its replicas.

        An unknown job is ignored. If the job continues later, it gets new resources.
        """
        ...


class ServerRuntime(Runtime, Protocol):
    """The additional methods that the server needs from the runtime of a backend."""

    def validate(self, spec: JobSpec) -> list[str]:
        """Return the reasons why this backend cannot run a job, as one sentence per reason.

        The runtime of a remote backend may wait for its cluster. If the cluster does not answer,
        the method raises an error.
        """
        ...

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Continue the unfinished jobs that an earlier server of this home left behind.

        The server calls this once, when it starts. The method does not wait for a cluster. The
        runtime watches each attempt that was started, and starts each attempt that was requested
        but never started.
        """
        ...

    def give_up(self, job_uid: str) -> None:
        """End a job that is being stopped, even if its cluster does not answer.

        Unknown jobs and jobs on the server's machine are ignored.
        """
        ...

    def process_of(self, job: Job, replica: ReplicaId) -> AttemptProcess:
        """Return the devices and the process id of an attempt.

        Both fields are empty for attempts on other machines.
        """
        ...

    def watch_trials(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with a trial's id when its log may have grown or its agents have orders.

        The calls come from any thread. A call may come although nothing changed. This method
        returns at once.
        """
        ...

    def close(self) -> None:
        """Stop watching and free the resources of this object. Replicas continue to run."""
        ...
