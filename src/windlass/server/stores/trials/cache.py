"""A cache of recent trials, because running trials are read all the time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from windlass.model.job import Job
from windlass.model.records import TrialRecord
from windlass.model.status import JobStatus

_MOST = 2000
# The fields of a trial record that change independently of the trial's status.
_APART = (
    "metrics", "progress", "asked_to_stop", "name", "description", "notes", "experiment", "project",
)  # fmt: skip


class StoredTrial(msgspec.Struct, frozen=True):
    """A trial's record and status, as stored in the database."""

    record: TrialRecord
    status: JobStatus

    @property
    def job(self) -> Job:
        """The part of the trial that the controller needs."""
        return self.record.job


class TrialCache:
    """A cache of the most recently used trials, by id and by uid.

    The writer adds every trial that it writes, in the order of the commits. A reader calls `mark`
    before it reads a trial from the database. The trial is then added only if nothing was written
    since, because it might be outdated.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._by_id: OrderedDict[int, StoredTrial] = OrderedDict()
        self._ids: dict[str, int] = {}
        self._writes = 0

    def get(self, trial_id: int) -> StoredTrial | None:
        """Return the trial that has this id, or None if it is not cached."""
        with self._lock:
            trial = self._by_id.get(trial_id)
            if trial is not None:
                self._by_id.move_to_end(trial_id)
            return trial

    def find(self, uid: str) -> StoredTrial | None:
        """Return the trial that has this uid, or None if it is not cached."""
        with self._lock:
            return self._by_id.get(self._ids.get(uid, 0))

    def mark(self) -> int:
        """Return the number of writes to the cache so far, to pass to `put_read`."""
        with self._lock:
            return self._writes

    def put_written(self, trial: StoredTrial) -> None:
        """Cache a trial that was just written to the database."""
        with self._lock:
            self._writes += 1
            self._put(trial)

    def put_changed(self, trial: StoredTrial) -> None:
        """Cache a trial whose status was just written to the database.

        Fields that change independently of the status keep their cached values, because the writer
        of the status may have read an older record. A trial that is not cached is not added.
        """
        with self._lock:
            self._writes += 1
            before = self._by_id.get(trial.record.id)
            if before is not None:
                apart = {name: getattr(before.record, name) for name in _APART}
                record = msgspec.structs.replace(trial.record, **apart)
                self._put(StoredTrial(record=record, status=trial.status))

    def change(self, trial_id: int, change: Callable[[TrialRecord], TrialRecord]) -> None:
        """If a trial is cached, change fields of its record that do not depend on its status."""
        with self._lock:
            self._writes += 1
            before = self._by_id.get(trial_id)
            if before is not None:
                self._put(StoredTrial(record=change(before.record), status=before.status))

    def put_read(self, trial: StoredTrial, mark: int) -> None:
        """Cache a trial that was read from the database unless it may be outdated.

        `mark` is the number of writes before the read. If there have been more writes since, the
        trial is not cached.
        """
        with self._lock:
            if mark == self._writes:
                self._put(trial)

    def drop(self, trial_id: int) -> None:
        """Remove a trial from the cache, so that it is read from the database again."""
        with self._lock:
            self._writes += 1
            trial = self._by_id.pop(trial_id, None)
            if trial is not None:
                del self._ids[trial.record.uid]

    def clear(self) -> None:
        """Remove all trials from the cache, because a name in some records has changed."""
        with self._lock:
            self._writes += 1
            self._by_id.clear()
            self._ids.clear()

    def _put(self, trial: StoredTrial) -> None:
        self._by_id[trial.record.id] = trial
        self._by_id.move_to_end(trial.record.id)
        self._ids[trial.record.uid] = trial.record.id
        while len(self._by_id) > self._most:
            _, oldest = self._by_id.popitem(last=False)
            del self._ids[oldest.record.uid]
