"""The attempts of jobs that are in pods, as their files tell of them, by job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from windlass.model.job import JobSpec
from windlass.model.status import ReplicaId
from windlass.runtimes import layout
from windlass.runtimes.kubernetes import naming
from windlass.runtimes.kubernetes.attempts import PodAttempt
from windlass.runtimes.kubernetes.building import Claim, has_services


class KnownAttempts:
    """The attempts of a home that are in pods, by job."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._home = home
        self._clock = clock
        self._known: dict[str, dict[Path, PodAttempt]] = {}  # of each job

    def one(self, claim: Claim, spec: JobSpec | None, replica: ReplicaId) -> PodAttempt:
        """An attempt, whether or not it was asked for."""
        path = layout.attempt_dir(self._home, claim.trial_id, replica)
        known = self._known.setdefault(claim.uid, {})
        if path not in known:
            address = ""
            if spec is not None and has_services(spec):
                address = naming.address_of(
                    claim.base, claim.namespace, replica.role, replica.index
                )
            known[path] = PodAttempt(claim.uid, replica, path, address, self._clock)
        return known[path]

    def all(self, claim: Claim, spec: JobSpec) -> Iterable[PodAttempt]:
        """Those of a job that were asked for."""
        for replica, _ in layout.attempts(self._home, claim.trial_id):
            attempt = self.one(claim, spec, replica)
            if attempt.was_asked_for and attempt.is_of(claim.uid):
                yield attempt

    def jobs_with(self, folder: Path) -> list[str]:
        """The uid of the job whose attempt that folder is of."""
        return [uid for uid, known in list(self._known.items()) if folder in known]

    def forget(self, uid: str) -> None:
        """A job is over."""
        self._known.pop(uid, None)
