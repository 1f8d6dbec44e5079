"""The server's log file, `server.log`. Its size is limited even if an error repeats forever."""

from __future__ import annotations

import logging
import os
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

_LARGEST = 10 << 20  # bytes in the current file; the previous file has at most the same size
_OFTEN = 20  # the most entries of one kind to write per `_PERIOD`
_PERIOD = 60.0
_MOST_KINDS = 1000


def open_log(path: Path, largest: int = _LARGEST) -> None:
    """Write this process's log records to a file."""
    handler = _LogFile(path, maxBytes=largest, backupCount=1, encoding="utf-8")
    handler.addFilter(RepetitionFilter())
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", handlers=[handler]
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


class _LogFile(RotatingFileHandler):
    """A log file that is replaced when it is full.

    If standard output or standard error refers to the old file, it is redirected to the new file,
    because crashes and child processes write to these descriptors.
    """

    def doRollover(self) -> None:
        redirected = [fd for fd in (1, 2) if _is_open_file(fd, self.baseFilename)]
        super().doRollover()
        if self.stream is not None:
            for fd in redirected:
                os.dup2(self.stream.fileno(), fd)


def _is_open_file(fd: int, path: str) -> bool:
    """Return whether a descriptor refers to the file at a path."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


class RepetitionFilter(logging.Filter):
    """Drops log entries that repeat too often, and logs how many were dropped.

    Entries from the same line of source code count as repetitions even if their texts differ.
    """

    def __init__(self, often: int = _OFTEN, period: float = _PERIOD) -> None:
        super().__init__()
        self._often = often
        self._period = period
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}  # the period's start, entries

    def filter(self, record: logging.LogRecord) -> bool:
        kind = (record.pathname, record.lineno)
        now = time.monotonic()
        start, count = self._counts.get(kind, (now, 0))
        if now - start >= self._period:
            dropped = count - self._often
            if dropped > 0:
                record.msg = f"{record.getMessage()} (and {dropped} more of this kind before)"
                record.args = ()
            start, count = now, 0
        if len(self._counts) >= _MOST_KINDS:
            self._counts.clear()
        self._counts[kind] = (start, count + 1)
        return count < self._often
