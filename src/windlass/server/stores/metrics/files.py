"""A metric store that reads the attempts' files and keeps summaries in the database.

The store reads the new part of a file after a notification from the program. One transaction stores
both the counted points and the new read position. Notifications may be lost, so the server also
reads an attempt's files when the attempt ends, and all files when the server starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

import msgspec

from windlass.model.job import Job
from windlass.model.metrics import FetchMetrics, Points
from windlass.model.records import Summary, TrialRecord
from windlass.model.status import Event, EventKind, ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.local.nudge_listener import Source
from windlass.server.db.base import Connection, Database
from windlass.server.db.event_rows import add_events
from windlass.server.stores.metrics import summaries
from windlass.server.stores.metrics.base import CurvePositions, Wanted
from windlass.server.stores.metrics.chunks import make_chunk, read_metrics
from windlass.server.stores.metrics.columns import Column
from windlass.server.stores.metrics.curves import fetch_curves
from windlass.server.stores.metrics.file_reader import read_reports
from windlass.server.stores.metrics.points import metric_files, new_points
from windlass.server.stores.metrics.summaries import Added, Stale, Tally
from windlass.worker.common.file_reads import file_size
from windlass.worker.program.report import MOST_NAMES

NoteChange = Callable[[int, Callable[[TrialRecord], TrialRecord]], None]


class FileMetricStore:
    """Reads the attempts' `metrics` files and stores the summaries."""

    def __init__(
        self,
        home: Path,
        database: Database,
        note: NoteChange,
        publish: Callable[[int, int], None],
    ) -> None:
        """Create the store.

        The store calls `note` to change a cached record and `publish` after new points.

        `publish` gets a trial's id and its experiment's id.
        """
        self._home = home
        self._db = database
        self._note = note
        self._publish = publish
        # Attempts that were read to their end, by job uid.
        self._read: dict[str, set[ReplicaId]] = {}

    def read_to_end(self, job: Job, ended: Iterable[ReplicaId]) -> None:
        """Read and count all metric points of attempts that have ended."""
        read = self._read.setdefault(job.uid, set())
        for replica in sorted(set(ended) - read):
            source = Source(job.uid, job.trial_id, replica)
            # Stop at the current end, because a process that outlived its attempt may write
            # forever.
            size = file_size(self._path(source))
            while (counting := self.count_new(source)) is not None:
                try:
                    start, end = counting.result()
                except Stale:
                    continue
                if end == start or end >= size:
                    break
            read.add(replica)

    def forget(self, uid: str) -> None:
        """Free the memory used for the metrics of a job that reports no more points."""
        self._read.pop(uid, None)

    def fetch_curves(self, request: FetchMetrics) -> bytes:
        """Return the requested curves in one binary message."""
        return fetch_curves(self._home, request)

    def new_points(self, trial_id: int, name: str, positions: CurvePositions) -> Iterator[Points]:
        """Yield the points of a metric that follow `positions`, and advance `positions`."""
        return new_points(self._home, trial_id, name, positions)

    def columns(
        self, trial_id: int, wanted: Wanted
    ) -> Iterator[tuple[ReplicaId, dict[str, Column]]]:
        """Yield all points of the metrics that `wanted` selects, in pieces.

        Each piece contains an attempt and, for each metric, a column of points that this attempt
        reported.
        """
        for replica, path in metric_files(self._home, trial_id):
            for columns, _ in read_metrics(path, wanted, 0):
                yield replica, columns

    def sizes(self, trial_id: int) -> tuple[int, ...]:
        """Return the size of each of a trial's metrics files.

        If a size changes, there are new points.
        """
        return tuple(file_size(path) for _, path in metric_files(self._home, trial_id))

    def count_new(self, source: Source) -> Future[tuple[int, int]] | None:
        """Start counting the next piece of new reports. Return None if there are no new reports.

        The future is done once the counts are stored. Its result is the start and end of the piece
        in the file. The future raises `Stale` if another thread counted the file meanwhile.
        """
        trial_id, replica = source.trial_id, source.replica
        path = self._path(source)
        if not file_size(path):
            return None
        counted = self._db.read(
            lambda connection: summaries.read_counted(connection, trial_id, replica)
        )
        start = counted.positions.get(replica.attempt, 0)
        reports, end = read_reports(path, start)
        if end == start:
            return None

        def reread(attempt: int, steps: Mapping[str, int], position: int) -> dict[str, Tally]:
            earlier = msgspec.structs.replace(replica, attempt=attempt)
            return _tallies_before(
                self._path(Source(source.uid, trial_id, earlier)), steps, position
            )

        shares, adds = summaries.shares_with(counted, replica.attempt, reports.columns, reread)
        progress = reports.progress.share if reports.progress else None
        piece = summaries.SummaryPiece(
            source.uid, trial_id, replica, end, counted, shares, adds, progress
        )
        added: Added | None = None

        def change(connection: Connection) -> tuple[int, int]:
            nonlocal added
            added = summaries.add(connection, piece)
            if added is None:  # the trial no longer exists
                return start, start
            if added.left_out:
                _warn_of_limit(connection, trial_id, added.left_out)
            return start, end

        def then(_done: tuple[int, int]) -> None:
            if added is not None and (added.summaries or progress is not None):
                changed = added.summaries
                self._note(trial_id, lambda record: _with_metrics(record, changed, progress))
                self._publish(trial_id, added.experiment_id)

        return self._db.submit(change, then)

    def make_chunk(self, source: Source) -> bool:
        """Write a columnar chunk of old metric reports.

        Return False if there was nothing to write.
        """
        return make_chunk(self._path(source))

    def _path(self, source: Source) -> Path:
        folder = paths.attempt_dir(self._home, source.trial_id, source.replica)
        return folder / paths.METRICS


def _tallies_before(path: Path, steps: Mapping[str, int], end: int) -> dict[str, Tally]:
    """Return the totals of metrics in a file, up to a position.

    For each metric, only the points below the metric's step in `steps` are counted.
    """
    tallies, position = dict.fromkeys(steps, Tally()), 0
    while position < end:
        reports, after = read_reports(path, position, end)
        if after == position:
            break
        for name in steps.keys() & reports.columns.keys():
            tally = summaries.count_column(reports.columns[name].below(steps[name]))
            tallies[name] = tallies[name].plus(tally)
        position = after
    return tallies


def _with_metrics(
    record: TrialRecord, changed: dict[str, Summary], progress: float | None
) -> TrialRecord:
    metrics = dict(sorted({**record.metrics, **changed}.items())) if changed else record.metrics
    if progress is None:
        progress = record.progress
    return msgspec.structs.replace(record, metrics=metrics, progress=progress)


def _warn_of_limit(connection: Connection, trial_id: int, name: str) -> None:
    """Warn that a trial has too many metrics, but only once per trial."""
    query = "SELECT 1 FROM events WHERE trial_id = :trial_id AND reason = 'TooManyMetrics'"
    if connection.value(query, {"trial_id": trial_id}):
        return
    message = f"a trial has summaries of at most {MOST_NAMES} metrics: {name!r} has none"
    event = Event(
        time=time.time(), kind=EventKind.WARNING, reason="TooManyMetrics", message=message
    )
    add_events(connection, trial_id, [event])
