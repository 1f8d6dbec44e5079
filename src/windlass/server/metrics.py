"""Metrics: what trials report is read as it comes, and what it comes to is kept.

A nudge says that an attempt has reported something. What is new in its file is read, and
counted in one transaction with how far it was read. A nudge may be lost, so the end of an
attempt and the start of the server have everything read, too.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path

import msgspec

from windlass.model.job import Job
from windlass.model.records import Summary, TrialRecord
from windlass.model.status import Event, EventKind, ReplicaId
from windlass.runtimes import layout
from windlass.runtimes.attempts import Attempt
from windlass.runtimes.nudges import Source
from windlass.server import summaries
from windlass.server.chunks import make_chunk
from windlass.server.database import Connection, Database
from windlass.server.metricfile import PIECE, read_reports
from windlass.server.rows import add_events
from windlass.server.summaries import Added, Stale, Tally
from windlass.server.trials import TrialStore
from windlass.worker.reporting import MOST_NAMES

_LOOK_AGAIN = 0.06  # seconds after a nudge: programs do not nudge twice within 0.05
_LONGEST_REST = 1.0
_NOW = 0.0
_TRY_AGAIN = 1.0  # seconds until a disk that was full is tried again
_log = logging.getLogger("windlass")


class MetricStore:
    """Reads what attempts report, and keeps the summaries of it."""

    def __init__(
        self,
        home: Path,
        database: Database,
        trials: TrialStore,
        publish: Callable[[int, int], None],
    ) -> None:
        """`publish` is told a trial and its experiment when there are new points."""
        self._home = home
        self._db = database
        self._trials = trials
        self._publish = publish
        self._read: dict[str, set[ReplicaId]] = {}  # attempts that ended, by the uid of their job

    def read_to_end(self, job: Job, ended: Iterable[ReplicaId]) -> None:
        """Count all that attempts reported, which have ended."""
        read = self._read.setdefault(job.uid, set())
        for replica in sorted(set(ended) - read):
            source = Source(job.uid, job.trial_id, replica)
            size = _size(self._path(source))  # a stray may write for ever
            while (counting := self.count_new(source)) is not None:
                try:
                    start, end = counting.result()
                except Stale:
                    continue
                if end == start or end >= size:
                    break
            read.add(replica)

    def forget(self, uid: str) -> None:
        """Nothing of a job is left that may report something."""
        self._read.pop(uid, None)

    def count_new(self, source: Source) -> Future[tuple[int, int]] | None:
        """Begin to count the next piece of what is new; none if nothing is.

        The future is done once it is stored, and says from where to where that goes in the file;
        `Stale` if somebody else counted meanwhile.
        """
        trial_id, replica = source.trial_id, source.replica
        path = self._path(source)
        if not _size(path):
            return None
        known = self._db.read(lambda each: summaries.known_of(each, trial_id, replica))
        start = known.positions.get(replica.attempt, 0)
        reports, end = read_reports(path, start)
        if end == start:
            return None

        def reread(attempt: int, steps: Mapping[str, int], position: int) -> dict[str, Tally]:
            earlier = msgspec.structs.replace(replica, attempt=attempt)
            return _tallies_before(
                self._path(Source(source.uid, trial_id, earlier)), steps, position
            )

        shares, adds = summaries.shares_with(known, replica.attempt, reports.columns, reread)
        progress = reports.progress.share if reports.progress else None
        piece = summaries.Piece(source.uid, trial_id, replica, end, known, shares, adds, progress)
        added: Added | None = None

        def change(connection: Connection) -> tuple[int, int]:
            nonlocal added
            added = summaries.add(connection, piece)
            if added is None:  # it is of no trial that there is
                return start, start
            if added.left_out:
                _tell_of_limit(connection, trial_id, added.left_out)
            return start, end

        def then(_done: tuple[int, int]) -> None:
            if added is not None and (added.summaries or progress is not None):
                changed = added.summaries
                self._trials.note(trial_id, lambda record: _with_metrics(record, changed, progress))
                self._publish(trial_id, added.experiment_id)

        return self._db.submit(change, then)

    def make_chunk(self, source: Source) -> bool:
        """Have some of what was reported at hand in columns; whether there was some to do."""
        return make_chunk(self._path(source))

    def _path(self, source: Source) -> Path:
        folder = layout.attempt_dir(self._home, source.trial_id, source.replica)
        return folder / layout.METRICS


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _tallies_before(path: Path, steps: Mapping[str, int], end: int) -> dict[str, Tally]:
    """What metrics come to in a file up to a position, of each the points before a step."""
    found, position = dict.fromkeys(steps, Tally()), 0
    while position < end:
        reports, after = read_reports(path, position, end)
        if after == position:
            break
        for name in steps.keys() & reports.columns.keys():
            tally = summaries.tally_of(reports.columns[name].below(steps[name]))
            found[name] = found[name].plus(tally)
        position = after
    return found


def _with_metrics(
    record: TrialRecord, changed: dict[str, Summary], progress: float | None
) -> TrialRecord:
    metrics = dict(sorted({**record.metrics, **changed}.items())) if changed else record.metrics
    if progress is None:
        progress = record.progress
    return msgspec.structs.replace(record, metrics=metrics, progress=progress)


def _tell_of_limit(connection: Connection, trial_id: int, name: str) -> None:
    """Say once that a trial has more metrics than it may have."""
    query = "SELECT 1 FROM events WHERE trial_id = :trial_id AND reason = 'TooManyMetrics'"
    if connection.value(query, {"trial_id": trial_id}):
        return
    message = f"{MOST_NAMES} metrics are the most that a trial has: there is no summary of {name!r}"
    event = Event(
        time=time.time(), kind=EventKind.WARNING, reason="TooManyMetrics", message=message
    )
    add_events(connection, trial_id, [event])


class MetricReader:
    """A thread that reads what attempts report when it is told of them."""

    def __init__(self, store: MetricStore) -> None:
        self._store = store
        self._due: dict[Source, float] = {}  # when to look at which attempt
        self._for_later: dict[Source, None] = {}  # to be made chunks of, when there is time
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windlass-metrics", daemon=True)
        self._thread.start()

    def look(self, source: Source) -> None:
        """Look at an attempt, now and once more a little later; from any thread."""
        with self._changed:
            self._due[source] = _NOW
            self._changed.notify()

    def catch_up(self, home: Path, jobs: Iterable[Job]) -> None:
        """Look at all that was reported while nobody looked."""
        for job in jobs:
            for replica, path in layout.attempts(home, job.trial_id):
                if (path / layout.METRICS).exists() and Attempt(job.uid, replica, path).is_of(
                    job.uid
                ):
                    self.look(Source(job.uid, job.trial_id, replica))

    def close(self) -> None:
        """End the thread; what was not read is read at the next start."""
        with self._changed:
            self._closing.set()
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            due = self._take_due()
            if due is None:
                return
            if not due:
                self._make_chunk()
                continue
            began = time.monotonic()
            # All of them are stored by one commit.
            begun = [(source, is_nudged, self._begin(source)) for source, is_nudged in due]
            for source, is_nudged, counting in begun:
                self._finish(source, is_nudged, counting)
            # However much is reported, others have half of the time.
            self._closing.wait(min(time.monotonic() - began, _LONGEST_REST))

    def _take_due(self) -> list[tuple[Source, bool]] | None:
        """Wait for what is to be looked at now, and whether it was nudged; none at the end.

        Nothing, if there is time for something else meanwhile.
        """
        with self._changed:
            while not self._closing.is_set():
                now = time.monotonic()
                due = [(each, at == _NOW) for each, at in self._due.items() if at <= now]
                if due:
                    for source, _ in due:
                        del self._due[source]
                    return due
                if self._for_later:
                    return []
                soonest = min(self._due.values(), default=None)
                self._changed.wait(None if soonest is None else soonest - now)
            return None

    def _make_chunk(self) -> None:
        source = next(iter(self._for_later))
        began = time.monotonic()
        try:
            is_done = not self._store.make_chunk(source)
        except Exception:  # noqa: BLE001 -- it is in the file as well
            _log.exception("the metrics of %s cannot be put into columns", source)
            is_done = True
        if is_done:
            del self._for_later[source]
        self._closing.wait(min(time.monotonic() - began, _LONGEST_REST))

    def _begin(self, source: Source) -> Future[tuple[int, int]] | None:
        try:
            return self._store.count_new(source)
        except Exception:  # noqa: BLE001 -- one file's fault is not the others'
            _log.exception("the metrics of %s cannot be read", source)
            return None

    def _finish(
        self, source: Source, is_nudged: bool, counting: Future[tuple[int, int]] | None
    ) -> None:
        self._for_later[source] = None
        # What is reported right after a nudge is told by no other.
        due = time.monotonic() + _LOOK_AGAIN if is_nudged else None
        try:
            start, end = counting.result() if counting is not None else (0, 0)
            if end - start > PIECE // 2:  # there may be more
                due = _NOW
        except Stale:
            due = _NOW
        except sqlite3.OperationalError as error:
            _log.warning("metrics cannot be stored: %s", error)
            due = time.monotonic() + _TRY_AGAIN
        except Exception:  # noqa: BLE001 -- as above
            _log.exception("the metrics of %s cannot be stored", source)
        if due is not None:
            with self._changed:
                self._due.setdefault(source, due)
