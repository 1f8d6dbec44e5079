"""An index of the attempts that run in pods, built from the attempts' files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from windlass.model.job import JobSpec
from windlass.model.status import ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.kubernetes.attempts.pod_attempt import PodAttempt
from windlass.runtimes.kubernetes.objects import names as pod_names
from windlass.runtimes.kubernetes.objects.manifests import JobRecord, has_services


class AttemptIndex:
    """Finds a home's attempts that run in pods, by job."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._home = home
        self._clock = clock
        self._attempts: dict[str, dict[Path, PodAttempt]] = {}  # by job

    def one(self, record: JobRecord, spec: JobSpec | None, replica: ReplicaId) -> PodAttempt:
        """Return one attempt of a job, even if the attempt was never requested."""
        path = paths.attempt_dir(self._home, record.trial_id, replica)
        attempts = self._attempts.setdefault(record.uid, {})
        if path not in attempts:
            address = ""
            if spec is not None and has_services(spec):
                address = pod_names.address_of(
                    record.base, record.namespace, replica.role, replica.index
                )
            attempts[path] = PodAttempt(record.uid, replica, path, address, self._clock)
        return attempts[path]

    def all(self, record: JobRecord, spec: JobSpec) -> Iterable[PodAttempt]:
        """Yield the requested attempts of a job."""
        for replica, _ in paths.attempts(self._home, record.trial_id):
            attempt = self.one(record, spec, replica)
            if attempt.was_requested and attempt.is_of(record.uid):
                yield attempt

    def jobs_with(self, folder: Path) -> list[str]:
        """Return the uids of the jobs (usually one) to which an attempt's folder belongs."""
        return [uid for uid, attempts in list(self._attempts.items()) if folder in attempts]

    def forget(self, uid: str) -> None:
        """Drop the attempts of a finished job from the index."""
        self._attempts.pop(uid, None)
