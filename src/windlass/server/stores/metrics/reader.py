"""The thread that reads new data in `metrics` files when a program sends a notification."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path

from windlass.model.job import Job
from windlass.runtimes import paths
from windlass.runtimes.local.attempt import Attempt
from windlass.runtimes.local.nudge_listener import Source
from windlass.server.db.errors import DatabaseUnavailable
from windlass.server.stores.metrics.file_reader import PIECE
from windlass.server.stores.metrics.files import FileMetricStore
from windlass.server.stores.metrics.summaries import Stale
from windlass.worker.common.file_reads import exists

# Seconds between the two reads after a notification. Programs send at most one per 0.05 s.
_LOOK_AGAIN = 0.06
_LONGEST_REST = 1.0
_NOW = 0.0
_TRY_AGAIN = 1.0  # seconds before the next try after a full disk
_log = logging.getLogger("windlass")


class MetricReader:
    """A thread that reads an attempt's new reports when its program sends a notification."""

    def __init__(self, store: FileMetricStore) -> None:
        self._store = store
        self._due: dict[Source, float] = {}  # the time of the next read, by attempt
        # Attempts whose chunks the thread will write when it is idle.
        self._for_later: dict[Source, None] = {}
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windlass-metrics", daemon=True)
        self._thread.start()

    def read_soon(self, source: Source) -> None:
        """Read an attempt's metric reports now and again a little later. Thread-safe."""
        with self._changed:
            self._due[source] = _NOW
            self._changed.notify()

    def catch_up(self, home: Path, jobs: Iterable[Job]) -> None:
        """Read all metric reports that programs made while no server was running."""
        for job in jobs:
            for replica, path in paths.attempts(home, job.trial_id):
                if exists(path / paths.METRICS) and Attempt(job.uid, replica, path).is_of(job.uid):
                    self.read_soon(Source(job.uid, job.trial_id, replica))

    def close(self) -> None:
        """End the thread that reads metrics. The next server reads the remaining reports."""
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
            # Start all reads first, so that one commit stores them together.
            begun = [(source, is_nudged, self._begin(source)) for source, is_nudged in due]
            for source, is_nudged, counting in begun:
                self._finish(source, is_nudged, counting)
            # Pause for as long as the reads took, so that other threads get half of the CPU time.
            self._closing.wait(min(time.monotonic() - began, _LONGEST_REST))

    def _take_due(self) -> list[tuple[Source, bool]] | None:
        """Wait until reads are due. Return the attempts to read, or None when the thread must end.

        Each attempt comes with a flag that is true if a notification caused the read. The list is
        empty if there is time for other work.
        """
        with self._changed:
            while not self._closing.is_set():
                now = time.monotonic()
                due = [(source, at == _NOW) for source, at in self._due.items() if at <= now]
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
        except Exception:  # noqa: BLE001 -- the `metrics` file still has the points
            _log.exception("the metrics of %s cannot be put into columns", source)
            is_done = True
        if is_done:
            del self._for_later[source]
        self._closing.wait(min(time.monotonic() - began, _LONGEST_REST))

    def _begin(self, source: Source) -> Future[tuple[int, int]] | None:
        try:
            return self._store.count_new(source)
        except (OSError, DatabaseUnavailable) as error:
            _log.warning("the metrics of %s cannot be read yet: %s", source, error)
            with self._changed:
                self._due.setdefault(source, time.monotonic() + _TRY_AGAIN)
        except Exception:  # noqa: BLE001 -- an invalid file must not stop other reads
            _log.exception("the metrics of %s cannot be read", source)
        return None

    def _finish(
        self, source: Source, is_nudged: bool, counting: Future[tuple[int, int]] | None
    ) -> None:
        self._for_later[source] = None
        # A program sends no second notification for reports made right after the first.
        due = time.monotonic() + _LOOK_AGAIN if is_nudged else None
        try:
            start, end = counting.result() if counting is not None else (0, 0)
            if end - start > PIECE // 2:  # there may be more to read
                due = _NOW
        except Stale:
            due = _NOW
        except DatabaseUnavailable as error:
            _log.warning("metrics cannot be stored: %s", error)
            due = time.monotonic() + _TRY_AGAIN
        except Exception:  # noqa: BLE001 -- as above
            _log.exception("the metrics of %s cannot be stored", source)
        if due is not None:
            with self._changed:
                self._due.setdefault(source, due)
