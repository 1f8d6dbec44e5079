"""Passes each call to the runtime of the right backend.

To add a backend, create a folder beside this file, add an entry to `REMOTE_BACKENDS` and one to
`model/backends.py`, and add an executor class to `authoring/public/executors.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from windlass.model.backends import KUBERNETES, LOCAL
from windlass.model.errors import Unsupported
from windlass.model.job import Assignment, Job, JobSpec
from windlass.model.status import Replica, ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.base import AttemptProcess, ServerContext, ServerRuntime


class RemoteBackend(NamedTuple):
    """A backend whose runtime is created only when the first job needs it."""

    create: Callable[[ServerContext], ServerRuntime]
    has_jobs: Callable[[Path], bool]  # whether a home's jobs may have objects there


def _kubernetes(server: ServerContext) -> ServerRuntime:
    # imported late, because most servers never need this module
    from windlass.runtimes.kubernetes.runtime import create_runtime

    return create_runtime(server)


REMOTE_BACKENDS: Mapping[str, RemoteBackend] = {
    KUBERNETES: RemoteBackend(_kubernetes, lambda home: paths.job_records_dir(home).is_dir()),
}


class Runtimes:
    """A runtime that passes each call to the runtime of the job's backend.

    A remote backend's runtime is created only when a job needs it, because most servers have only
    local jobs.
    """

    def __init__(
        self,
        local: ServerRuntime,
        server: ServerContext,
        remote: Mapping[str, RemoteBackend] = REMOTE_BACKENDS,
    ) -> None:
        self._server = server
        self._remote = remote
        self._lock = threading.Lock()
        self._created: dict[str, ServerRuntime] = {LOCAL: local}
        self._on_change: list[Callable[[str], None]] = []
        self._on_trial: list[Callable[[int], None]] = []
        for name, backend in remote.items():
            if backend.has_jobs(server.home.path):
                self._created[name] = backend.create(server)

    def validate(self, spec: JobSpec) -> list[str]:
        """Return the reasons why a job's backend cannot run the job."""
        return self._runtime(spec).validate(spec)

    def addresses(self, job: Job, assigned: Mapping[str, str]) -> dict[str, str]:
        """Return the addresses at which a job's replicas reach each other."""
        return self._runtime(job.spec).addresses(job, assigned)

    def create(self, job: Job, replica: ReplicaId, assignment: Assignment) -> None:
        """Start a replica's attempt unless it was already started."""
        self._runtime(job.spec).create(job, replica, assignment)

    def delete(
        self, job: Job, replica: ReplicaId, grace: float, *, interrupt: bool = False
    ) -> None:
        """Stop an attempt, by force after `grace` seconds."""
        self._runtime(job.spec).delete(job, replica, grace, interrupt=interrupt)

    def list(self, job: Job) -> Sequence[Replica]:
        """Return the current state of all attempts of a job."""
        return self._runtime(job.spec).list(job)

    def process_of(self, job: Job, replica: ReplicaId) -> AttemptProcess:
        """Return an attempt's devices and process id."""
        return self._runtime(job.spec).process_of(job, replica)

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Continue the unfinished jobs that an earlier server of this home left behind."""
        by_backend: dict[str, list[Job]] = {name: [] for name in self._created}
        for job in jobs:
            by_backend.setdefault(job.spec.backend, []).append(job)
        for name, unfinished in by_backend.items():
            # jobs of an unknown backend were left by a newer server
            if name == LOCAL or name in self._remote:
                self._named(name).adopt(unfinished)

    def give_up(self, job_uid: str) -> None:
        """End a job that is being stopped, even if its cluster does not answer."""
        for runtime in self._all():
            runtime.give_up(job_uid)

    def release(self, job_uid: str) -> None:
        """Release a finished job's addresses and other resources, but not its replicas."""
        for runtime in self._all():
            runtime.release(job_uid)

    def watch(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with a job's uid whenever the job's replicas may have changed."""
        with self._lock:
            self._on_change.append(callback)
            for runtime in self._created.values():
                runtime.watch(callback)

    def watch_trials(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the id of each trial whose log may have grown.

        `callback` is also called with a trial's id if a new order, such as to stop, waits for one
        of the trial's agents.
        """
        with self._lock:
            self._on_trial.append(callback)
            for runtime in self._created.values():
                runtime.watch_trials(callback)

    def close(self) -> None:
        """Close all runtimes. Replicas continue to run."""
        for runtime in reversed(self._all()):
            runtime.close()

    def _all(self) -> Sequence[ServerRuntime]:
        with self._lock:
            return tuple(self._created.values())

    def _runtime(self, spec: JobSpec) -> ServerRuntime:
        return self._named(spec.backend)

    def _named(self, backend: str) -> ServerRuntime:
        """Return the runtime of a backend. The first call for a backend creates its runtime."""
        with self._lock:
            runtime = self._created.get(backend)
            if runtime is None:
                runtime = self._created[backend] = self._create(backend)
            return runtime

    def _create(self, backend: str) -> ServerRuntime:
        if backend not in self._remote:
            names = ", ".join(f'"{name}"' for name in (LOCAL, *self._remote))
            raise Unsupported(f"This server has no backend {backend!r}.", hint=f"It has: {names}.")
        runtime = self._remote[backend].create(self._server)
        for on_change in self._on_change:
            runtime.watch(on_change)
        for on_trial in self._on_trial:
            runtime.watch_trials(on_trial)
        return runtime
