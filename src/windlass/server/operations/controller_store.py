"""Stores the controller's decisions and the results of trials."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from windlass.home import Home
from windlass.model.job import Job
from windlass.model.records import Attempt, Cause, ErrorInfo, ResultInfo
from windlass.model.status import ConditionType, Event, JobStatus, Phase, Replica
from windlass.runtimes.paths import attempt_dir, attempts
from windlass.server.stores.blobs.base import BlobStore
from windlass.server.stores.checkpoints.store import CheckpointStore
from windlass.server.stores.logs.base import LogStore
from windlass.server.stores.metrics.base import MetricStore
from windlass.server.stores.private_files import PrivateFiles
from windlass.server.stores.trials.rows import Outcome
from windlass.server.stores.trials.store import TrialStore
from windlass.server.stores.work_folders import WorkFolders
from windlass.worker.common.atomic_files import remove_unfinished
from windlass.worker.common.file_reads import is_file, read_json

_LONGEST_TEXT = 100_000
_LARGEST_FILE = 4 << 20  # bytes; enough for two texts of `_LONGEST_TEXT` escaped characters


class ControllerStore:
    """Loads and saves jobs for the controller, and notifies the streams to clients."""

    def __init__(
        self,
        home: Home,
        trials: TrialStore,
        blobs: BlobStore,
        logs: LogStore,
        private: PrivateFiles,
        metrics: MetricStore,
        checkpoints: CheckpointStore,
        publish: Callable[[int], None],
    ) -> None:
        self._home = home
        self._trials = trials
        self._blobs = blobs
        self._logs = logs
        self._private = private
        self._metrics = metrics
        self._checkpoints = checkpoints
        self._publish = publish
        self._work_folders = WorkFolders(home.path / "trials")

    def load(self, uid: str) -> tuple[Job, JobStatus] | None:
        """Return a job and its status, or None if the job does not exist."""
        return self._trials.load(uid)

    def unfinished(self) -> Iterable[str]:
        """Return the uids of all unfinished jobs, oldest first."""
        return self._trials.unfinished()

    def save(
        self,
        uid: str,
        old: JobStatus,
        new: JobStatus,
        events: Sequence[Event],
        replicas: Sequence[Replica],
    ) -> bool:
        """Store a job's new status. When the job ends, also store its results.

        Returns False if the stored status is no longer `old`.
        """
        loaded = self._trials.load(uid)
        if loaded is None:
            return False
        job, _ = loaded
        # Read metrics and checkpoints first. A client that sees the end of an attempt must also see
        # everything that the attempt reported.
        ended = [replica.id for replica in replicas if replica.phase.is_final]
        self._metrics.read_to_end(job, ended)
        if ended:
            self._checkpoints.take_in(job.trial_id)
        if new.settled:
            self._checkpoints.tidy(job.trial_id)
            folders = [folder for _, folder in attempts(self._home.path, job.trial_id)]
            for folder in folders:
                remove_unfinished(str(folder))
            own = {folder.parent for folder in folders}
            events = [*events, *self._work_folders.settle(job.trial_id, own)]
        ends = new.is_finished and not old.is_finished
        outcome = self._collect(job, new, replicas) if ends else None
        if not self._trials.save(uid, old, new, events, replicas, outcome):
            return False
        if ends:
            self._private.erase(uid)
        if new.settled:
            self._metrics.forget(uid)
        self._publish(job.trial_id)
        return True

    def _collect(self, job: Job, status: JobStatus, replicas: Sequence[Replica]) -> Outcome:
        succeeded = status.holds(ConditionType.SUCCEEDED)
        ended = _ended(job, replicas, Phase.SUCCEEDED if succeeded else Phase.FAILED)
        decisive = _decisive(status, replicas, ended)
        if decisive is None:
            return Outcome()
        if succeeded:
            result = self._value(job, [decisive, *ended])
            return Outcome(exit_code=decisive.exit_code, signal=signal_of(decisive), result=result)
        directory = self._directory(job, decisive)
        return Outcome(
            exit_code=decisive.exit_code,
            signal=signal_of(decisive),
            cause=self._cause(job, status, decisive),
            error=self._error(directory),
        )

    def _cause(self, job: Job, status: JobStatus, decisive: Replica) -> Cause | None:
        if status.decisive is None:
            # No replica caused the failure: the job was stopped or ran out of time.
            return None
        return Cause(
            role=decisive.id.role,
            index=decisive.id.index,
            attempt=decisive.id.attempt,
            exit_code=decisive.exit_code,
            signal=signal_of(decisive),
            reason=decisive.reason,
            message=decisive.message,
            lines=self._logs.last_lines(job.trial_id, decisive.id),
        )

    def _directory(self, job: Job, replica: Replica) -> Path:
        return attempt_dir(self._home.path, job.trial_id, replica.id)

    def _value(self, job: Job, replicas: Sequence[Replica]) -> ResultInfo | None:
        """Return the result of the user's function.

        If the job has several replicas, only rank 0 writes a result.
        """
        directories = (self._directory(job, replica) for replica in replicas)
        left = (replica for replica in directories if is_file(replica / "result.pkl"))
        directory = next(left, None)
        return None if directory is None else self._result(directory)

    def _result(self, directory: Path) -> ResultInfo:
        digest, size = self._blobs.put_file(directory / "result.pkl")
        text = _text(_read_object(directory / "result.json"), "text")[:1000]
        return ResultInfo(digest=digest, size=size, text=text)

    def _error(self, directory: Path) -> ErrorInfo | None:
        fields = _read_object(directory / "error.json")
        if not fields:
            return None
        pickled: str | None = None
        if fields.get("pickled") and is_file(directory / "error.pkl"):
            pickled, _ = self._blobs.put_file(directory / "error.pkl")
        return ErrorInfo(
            type=_text(fields, "type")[:1000],
            message=_text(fields, "message")[:_LONGEST_TEXT],
            traceback=_text(fields, "traceback")[-_LONGEST_TEXT:],
            pickle=pickled,
        )


def _decisive(
    status: JobStatus, replicas: Sequence[Replica], ended: Sequence[Replica]
) -> Replica | None:
    """Return the attempt that decided a job's outcome, or else the first attempt in `ended`."""
    named = status.decisive
    if named is None:
        return ended[0] if ended else None
    seen = (replica for replica in replicas if replica.id == named)
    # `replicas` may no longer contain the named attempt.
    return next(seen, Replica(id=named, phase=Phase.UNKNOWN))


def _ended(job: Job, replicas: Sequence[Replica], phase: Phase) -> list[Replica]:
    """Return the attempts that ended in this phase and are the newest of their replica.

    The attempts are in the order of the job's roles and, within a role, of their indices.
    """
    newest: dict[tuple[str, int], Replica] = {}
    for replica in replicas:
        key = (replica.id.role, replica.id.index)
        if key not in newest or newest[key].id.attempt < replica.id.attempt:
            newest[key] = replica
    order = {role.name: position for position, role in enumerate(job.spec.roles)}
    ended = [replica for replica in newest.values() if replica.phase is phase]
    return sorted(ended, key=lambda r: (order.get(r.id.role, len(order)), r.id.index))


def signal_of(end: Replica | Attempt) -> str:
    """Return the name of the signal that ended an attempt, or "" if no signal did."""
    code = end.exit_code
    if code is None or code <= 128 or end.reason not in ("Signal", "Stopped"):
        return ""
    try:
        return signal.Signals(code - 128).name
    except ValueError:
        return f"signal {code - 128}"


def _text(fields: dict[str, Any], name: str) -> str:
    """Return a field of a JSON object as text.

    Unpaired surrogates, which cannot be stored, are escaped.
    """
    return str(fields.get(name, "")).encode("utf-8", "backslashreplace").decode()


def _read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object that a trial's process wrote and that can contain anything."""
    return read_json(str(path), _LARGEST_FILE) or {}
