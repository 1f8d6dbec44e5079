"""The protocol of runtimes, which every backend implements for the controller and the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from windlass.home import Home
from windlass.model.job import Assignment, Job, JobSpec
from windlass.model.status import Replica, ReplicaId


class NotYet(Exception):
    """An attempt cannot start for a reason that is part of normal operation.

    The controller retries as soon as the runtime notifies it of a change. Where the runtime
    cannot observe the reason and sends no notification (`is_notified` is false), the controller
    retries after a pause.
    """

    def __init__(self, message: str, *, is_notified: bool = True) -> None:
        super().__init__(message)
        self.is_notified = is_notified


class NameHeld(NotYet):
    """An object that is being deleted still has the name of the attempt."""


class AttemptProcess(NamedTuple):
    """The process of an attempt on the server's machine."""

    devices: tuple[int, ...] | None = None  # None: the runtime does not grant devices
    pid: int | None = None


class ServerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a server that the runtimes of remote backends need."""

    home: Home
    token_for: Callable[[str], str]  # the token of the agents of a job, by the job's uid
    url: Callable[[], str]  # the server's address for its own process
    urls: Callable[[], Sequence[str]]  # the server's addresses for other machines; may be empty


class Runtime(Protocol):
    """Starts, stops and lists the replicas of jobs, as the controller needs it.

    A runtime makes no decisions. All methods may be called from any thread, and never for one
    job from two threads at a time.
    """

    def addresses(self, job: Job, assigned: Mapping[str, str]) -> dict[str, str]:
        """Return the address of each replica for its peers: "role-index" -> "host:port".

        The controller calls this before it creates the first replica and whenever the number of
        replicas changes. Addresses in `assigned` stay as they are. The controller stores the
        result, so that addresses survive restarts of replicas and of the server. The result is
        empty where no replica needs an address.
        """
        ...

    def create(self, job: Job, replica: ReplicaId, assignment: Assignment) -> None:
        """Start an attempt of a replica, unless the attempt was started before.

        Once this method returns, `list` reports the attempt. If the method raises, the controller
        calls it again later. `NotYet` is not a failure; `NameHeld` means that the remains of an
        older attempt still have the name.
        """
        ...

    def delete(self, job: Job, replica: ReplicaId, grace: float) -> None:
        """Stop an attempt, by force after `grace` seconds. An unknown attempt is ignored.

        The method does not wait for the end. The runtime may forget the ended attempt or keep it on
        record: only the newest attempt of a replica counts.
        """
        ...

    def list(self, job: Job) -> Sequence[Replica]:
        """Return the attempts of a job in their current state.

        A stopped attempt is `deleting` until its end. Ended attempts on record are not
        `deleting`: the flag means that the attempt still uses its capacity.
        """
        ...

    def watch(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with a job's uid whenever replicas of the job may have changed.

        The calls come from any thread, and may come without a change. This method returns at once.
        """
        ...

    def release(self, job_uid: str) -> None:
        """Release everything that a finished job holds beyond its replicas, such as addresses.

        Nothing happens for an unknown job. A job that continues gets new resources.
        """
        ...


class ServerRuntime(Runtime, Protocol):
    """The runtime of a backend, as the server needs it."""

    def validate(self, spec: JobSpec) -> list[str]:
        """Return the reasons why this backend cannot run a job, one sentence each.

        The runtime of a remote backend may wait for its cluster, and raises if the cluster
        does not answer.
        """
        ...

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Continue the unfinished jobs that an earlier server of this home left behind.

        The server calls this once, at its start. The method does not wait for a cluster. A
        started attempt is watched, and an attempt that was requested but never started is started.
        """
        ...

    def give_up(self, job_uid: str) -> None:
        """End a job that is being stopped even if its cluster does not answer.

        Nothing happens for an unknown job and for jobs on the server's machine.
        """
        ...

    def process_of(self, job: Job, replica: ReplicaId) -> AttemptProcess:
        """Return devices and process id of an attempt; both empty on other machines."""
        ...

    def watch_trials(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with a trial's id when its log may have grown or its agents have orders.

        The calls come from any thread, and may come without a change. This method returns at once.
        """
        ...

    def close(self) -> None:
        """Stop watching and free the resources of this object. Replicas continue to run."""
        ...
