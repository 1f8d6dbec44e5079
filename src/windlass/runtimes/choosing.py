"""One runtime made of several: each job is with the one that its backend names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.model.errors import Unsupported
from windlass.model.job import KUBERNETES, LOCAL, Assignment, Job, JobSpec
from windlass.model.status import Replica, ReplicaId
from windlass.runtimes import layout
from windlass.runtimes.local import LocalRuntime, Place
from windlass.runtimes.nudges import Source
from windlass.runtimes.protocol import Runtime

if TYPE_CHECKING:
    from windlass.runtimes.kubernetes.runtime import KubernetesRuntime

BACKENDS = (LOCAL, KUBERNETES)


def has_claims(home: Path) -> bool:
    """Whether any job of a home ever had something in a cluster, and may have it still."""
    return layout.claims_dir(home).is_dir()


class Runtimes:
    """The processes of this machine and the pods of a cluster, as one place where replicas live.

    What is needed for pods is made when the first job asks for them: most servers never have one.
    """

    def __init__(
        self, local: LocalRuntime, make_pods: Callable[[], KubernetesRuntime], *, has_pods: bool
    ) -> None:
        self._local = local
        self._make_pods = make_pods
        self._lock = threading.Lock()
        self._pods: KubernetesRuntime | None = make_pods() if has_pods else None
        self._on_change: list[Callable[[str], None]] = []
        self._on_orders: list[Callable[[int], None]] = []

    @property
    def _kubernetes(self) -> KubernetesRuntime:
        """The runtime of pods, made if it is not there."""
        with self._lock:
            if self._pods is None:
                self._pods = self._make_pods()
                for on_change in self._on_change:
                    self._pods.watch(on_change)
                for on_orders in self._on_orders:
                    self._pods.watch_orders(on_orders)
            return self._pods

    @property
    def nudge_path(self) -> str:
        """The socket for nudges, to be named in `server.json`."""
        return self._local.nudge_path

    def validate(self, spec: JobSpec) -> list[str]:
        """What a spec asks for that cannot be had; of a cluster only where it can be asked."""
        return self._of(spec).validate(spec)

    def watch(self, callback: Callable[[str], None]) -> None:
        """Have the uid of each job told whose replicas may have changed."""
        self._local.watch(callback)
        with self._lock:
            self._on_change.append(callback)
            if self._pods is not None:
                self._pods.watch(callback)

    def watch_logs(self, callback: Callable[[int], None]) -> None:
        """Have the id of each trial told whose log may have grown, or who is told something."""
        self._local.watch_logs(callback)
        with self._lock:
            self._on_orders.append(callback)
            if self._pods is not None:
                self._pods.watch_orders(callback)

    def watch_metrics(self, callback: Callable[[Source], None]) -> None:
        """Have each attempt told that reported something, wherever it runs."""
        self._local.watch_metrics(callback)

    def watch_checkpoints(self, callback: Callable[[Source], None]) -> None:
        """Have each attempt told that saved a checkpoint, wherever it runs."""
        self._local.watch_checkpoints(callback)

    def addresses(self, job: Job, known: Mapping[str, str]) -> dict[str, str]:
        """Where each replica of a job will be reached by the others."""
        return self._of(job.spec).addresses(job, known)

    def create(self, job: Job, replica: ReplicaId, given: Assignment) -> None:
        """Start an attempt of a replica, unless it was started before."""
        self._of(job.spec).create(job, replica, given)

    def delete(self, job_uid: str, replica: ReplicaId, grace: float) -> None:
        """Have an attempt end, with so many seconds to do it in; nothing if it has."""
        self._with(job_uid).delete(job_uid, replica, grace)

    def give_up(self, job_uid: str) -> None:
        """Have a job that is being stopped end, should what it runs on not answer."""
        if self._has_pods(job_uid):
            self._kubernetes.give_up(job_uid)

    def list(self, job: Job) -> Sequence[Replica]:
        """How each attempt of a job stands."""
        return self._of(job.spec).list(job)

    def place_of(self, job_uid: str, trial_id: int, replica: ReplicaId) -> Place:
        """What an attempt was given, and the process it runs as, if that is of this machine."""
        if self._has_pods(job_uid):
            return Place(devices=None, pid=None)
        return self._local.place_of(job_uid, trial_id, replica)

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Take over what others left: to be called once, at the start. No cluster is waited for."""
        known = list(jobs)
        self._local.adopt(job for job in known if job.spec.is_local)
        away = [job for job in known if not job.spec.is_local]
        if away or self._pods is not None:
            self._kubernetes.adopt(away)

    def release(self, job_uid: str) -> None:
        """Let go of what is kept for a job beyond its replicas."""
        self._local.release(job_uid)
        if self._pods is not None:
            self._pods.release(job_uid)

    def close(self) -> None:
        """Let go of what this holds. What runs goes on running."""
        if self._pods is not None:
            self._pods.close()
        self._local.close()

    def _of(self, spec: JobSpec) -> Runtime:
        if spec.backend == LOCAL:
            return self._local
        if spec.backend == KUBERNETES:
            return self._kubernetes
        there = ", ".join(f'"{each}"' for each in BACKENDS)
        raise Unsupported(f"This server has no backend {spec.backend!r}.", hint=f"It has: {there}.")

    def _with(self, job_uid: str) -> Runtime:
        return self._kubernetes if self._has_pods(job_uid) else self._local

    def _has_pods(self, job_uid: str) -> bool:
        return self._pods is not None and self._pods.has(job_uid)
