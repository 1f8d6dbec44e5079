"""The protocols that a runtime implements for the controller and the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from windlass.home import Home
from windlass.model.job import Assignment, Job, JobSpec
from windlass.model.status import Replica, ReplicaId


class NotYet(Exception):
    """Raised if an attempt cannot start yet for a reason that is part of normal operation.

    The controller retries as soon as the runtime notifies it of a change. If `is_notified` is
    false, the runtime cannot observe when the reason goes away and sends no notification. In that
    case, the controller retries after a pause.
    """

    def __init__(self, message: str, *, is_notified: bool = True) -> None:
        super().__init__(message)
        self.is_notified = is_notified


class NameHeld(NotYet):
    """Raised while the name that an attempt needs is taken by an object that is being deleted."""


class AttemptProcess(NamedTuple):
    """The process and devices of an attempt that runs on the server's machine."""

    devices: tuple[int, ...] | None = None  # None if the runtime does not assign devices
    pid: int | None = None


class ServerContext(msgspec.Struct, frozen=True, kw_only=True):
    """The server's functions and settings that the runtimes of remote backends use."""

    home: Home
    token_for: Callable[[str], str]  # returns the token for a job's agents, by the job's uid
    url: Callable[[], str]  # returns the server's address for its own process
    urls: Callable[[], Sequence[str]]  # the server's addresses for other machines


class Runtime(Protocol):
    """The methods with which the controller starts, stops and lists the replicas of jobs.

    A runtime makes no decisions. All methods can be called from any thread, but never by two
    threads for the same job at the same time.
    """

    def addresses(self, job: Job, assigned: Mapping[str, str]) -> dict[str, str]:
        """Map "role-index" to "host:port" for the addresses at which replicas reach each other.

        The controller calls this method before it creates the first replica and whenever the number
        of replicas changes. Addresses in `assigned` stay the same. The controller stores the
        result, so that addresses survive replica and server restarts. The result is empty if no
        replica needs an address.
        """
        ...

    def create(self, job: Job, replica: ReplicaId, assignment: Assignment) -> None:
        """Start a replica's attempt unless it was already started.

        Once this method returns, `list` reports the attempt. If the method raises, the controller
        calls it again later. `NotYet` is not a failure. `NameHeld` means that an older object that
        is still being deleted has the attempt's name.
        """
        ...

    def delete(
        self, job: Job, replica: ReplicaId, grace: float, *, interrupt: bool = False
    ) -> None:
        """Stop an attempt, by force after `grace` seconds. Ignore an unknown attempt.

        The attempt's processes receive SIGTERM. If `interrupt` is true and the runtime controls the
        signals, SIGINT comes first and SIGTERM follows after half of the time.

        The method does not wait until the attempt has ended. The runtime may forget the ended
        attempt or keep a record of it, because only a replica's newest attempt counts.
        """
        ...

    def list(self, job: Job) -> Sequence[Replica]:
        """Return the current state of all attempts of a job.

        The flag `deleting` means that an attempt is stopping and still uses its capacity. It is not
        set for ended attempts that the runtime keeps on record.
        """
        ...

    def watch(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with a job's uid whenever the job's replicas may have changed.

        Calls may come from any thread, and also when nothing has changed. This method returns at
        once.
        """
        ...

    def release(self, job_uid: str) -> None:
        """Release a finished job's addresses and other resources, but not its replicas.

        An unknown job is ignored. If the job continues later, it gets new resources.
        """
        ...


class ServerRuntime(Runtime, Protocol):
    """The additional methods that the server needs from a backend's runtime."""

    def validate(self, spec: JobSpec) -> list[str]:
        """Return the reasons why this backend cannot run a job, one sentence per reason.

        A remote backend's runtime may wait for its cluster, and raises an error if the cluster does
        not answer.
        """
        ...

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Continue the unfinished jobs that an earlier server of this home left behind.

        The server calls this method once, when it starts. The method does not wait for a cluster.
        It watches each attempt that was started, and starts each attempt that was requested but
        never started.
        """
        ...

    def give_up(self, job_uid: str) -> None:
        """End a job that is being stopped, even if its cluster does not answer.

        Unknown jobs and jobs on the server's machine are ignored.
        """
        ...

    def process_of(self, job: Job, replica: ReplicaId) -> AttemptProcess:
        """Return an attempt's devices and process id.

        Both fields are empty for attempts on other machines.
        """
        ...

    def watch_trials(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the id of each trial that may have changed in one of two ways.

        Either the trial's log may have grown, or an order (such as to stop) may be waiting for one
        of its agents. Calls may come from any thread, and also when nothing has changed. This
        method returns at once.
        """
        ...

    def close(self) -> None:
        """Stop watching and free this object's resources. Replicas continue to run."""
        ...
