"""The thread that reads the `metrics` files of attempts when a nudge arrives."""

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

_LOOK_AGAIN = 0.06  # seconds after a nudge: programs do not nudge twice within 0.05
_LONGEST_REST = 1.0
_NOW = 0.0
_TRY_AGAIN = 1.0  # seconds until a disk that was full is tried again
_log = logging.getLogger("windlass")


class MetricReader:
    """A thread that reads the new reports of an attempt after a nudge."""

    def __init__(self, store: FileMetricStore) -> None:
        self._store = store
        self._due: dict[Source, float] = {}  # the time of the next read by attempt
        self._for_later: dict[Source, None] = {}  # attempts whose chunks are built when idle
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windlass-metrics", daemon=True)
        self._thread.start()

    def read_soon(self, source: Source) -> None:
        """Read an attempt now, and again a little later; callable from any thread."""
        with self._changed:
            self._due[source] = _NOW
            self._changed.notify()

    def catch_up(self, home: Path, jobs: Iterable[Job]) -> None:
        """Read all reports from the time without a server."""
        for job in jobs:
            for replica, path in paths.attempts(home, job.trial_id):
                if exists(path / paths.METRICS) and Attempt(job.uid, replica, path).is_of(job.uid):
                    self.read_soon(Source(job.uid, job.trial_id, replica))

    def close(self) -> None:
        """End the thread. The next start reads the rest."""
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
            # One commit stores all of them.
            begun = [(source, is_nudged, self._begin(source)) for source, is_nudged in due]
            for source, is_nudged, counting in begun:
                self._finish(source, is_nudged, counting)
            # However much is reported, others have half of the time.
            self._closing.wait(min(time.monotonic() - began, _LONGEST_REST))

    def _take_due(self) -> list[tuple[Source, bool]] | None:
        """Wait for attempts to read, each with whether it was nudged; return none at the end.

        Return an empty list if there is time for other work.
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
        except Exception:  # noqa: BLE001 -- the points are also in the file
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
        except Exception:  # noqa: BLE001 -- an invalid file must not stop the others
            _log.exception("the metrics of %s cannot be read", source)
        return None

    def _finish(
        self, source: Source, is_nudged: bool, counting: Future[tuple[int, int]] | None
    ) -> None:
        self._for_later[source] = None
        # Programs send no second nudge for reports right after a nudge.
        due = time.monotonic() + _LOOK_AGAIN if is_nudged else None
        try:
            start, end = counting.result() if counting is not None else (0, 0)
            if end - start > PIECE // 2:  # there may be more
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
