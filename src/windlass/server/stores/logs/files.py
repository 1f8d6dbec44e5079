"""A log store in files, which reads the log segments that supervisors write.

A segment is one attempt's log file. A supervisor is the process that starts an attempt's program.
"""

from __future__ import annotations

import stat
from pathlib import Path

from windlass.model.status import ReplicaId
from windlass.runtimes import paths
from windlass.server.stores.logs.base import HITS, PAGE, WHOLE_LOG, LogSelection, Page, Slice
from windlass.server.stores.logs.cursors import format_cursor, parse_cursor
from windlass.server.stores.logs.merge import (
    Search,
    Segment,
    count_matches,
    find_unread,
    read_merged,
    read_one,
    search_merged,
    tail_merged,
    to_log_part,
)
from windlass.server.stores.logs.pattern import Pattern
from windlass.worker.common.file_reads import retried
from windlass.worker.logs import segment_reader

_LAST_LINES = 20  # the number of log lines to show with a failed attempt's error
_MOST_SEARCHED = 512 * 1024  # the bytes at the end of a log to search for these lines
_PATIENCE = 2.0  # seconds to retry reading after an I/O error
_LONGEST_LINE = 2000  # characters per line


class FileLogStore:
    """A log store that reads a home's log files."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def segments(self, trial_id: int, whose: LogSelection = WHOLE_LOG) -> list[Segment]:
        """Return a trial's log segments, sorted by role, index and attempt."""
        return [
            Segment((replica.role, replica.index, replica.attempt), str(path / paths.LOG))
            for replica, path in paths.attempts(self._home, trial_id)
            if whose.holds((replica.role, replica.index, replica.attempt))
            and _is_log(path / paths.LOG)
        ]

    def read(
        self,
        trial_id: int,
        cursor: str | None,
        stream: str | None = None,
        whose: LogSelection = WHOLE_LOG,
        *,
        size: int = PAGE,
    ) -> Page:
        """Return the log records that follow a cursor, reading at most `size` stored bytes."""
        positions = parse_cursor(cursor)
        unread = find_unread(self.segments(trial_id, whose), positions, whose.window)
        if len(unread) > 1:
            return read_merged(unread, positions, stream, size)
        if not unread:
            return Page([], format_cursor(positions), False)
        # A single segment needs no merge, and most trials have only one.
        records, after = read_one(unread[0], size)
        key = unread[0].segment.key
        parts = [to_log_part(key, record) for record in records if stream in (None, record[1])]
        has_more = unread[0].start < after < unread[0].end
        positions[key] = after
        return Page(parts, format_cursor(positions), has_more)

    def tail(
        self, trial_id: int, lines: int, stream: str | None = None, whose: LogSelection = WHOLE_LOG
    ) -> Page:
        """Return the last `lines` lines of a trial's log."""
        return tail_merged(self.segments(trial_id, whose), lines, stream, whose.window)

    def search(
        self,
        trial_id: int,
        pattern: Pattern,
        cursor: str | None,
        stream: str | None = None,
        whose: LogSelection = WHOLE_LOG,
        *,
        limit: int = HITS,
        is_followed: bool = False,
        time: Slice | None = None,
    ) -> Page:
        """Return up to `limit` lines of a trial's log that match a pattern and follow a cursor.

        Stop early when `time` is over.
        """
        positions = parse_cursor(cursor)
        unread = find_unread(self.segments(trial_id, whose), positions, whose.window)
        query = Search(pattern, stream, limit, is_followed)
        return search_merged(unread, positions, query, time or Slice())

    def count(
        self,
        trial_id: int,
        pattern: Pattern,
        cursor: str | None,
        stream: str | None = None,
        whose: LogSelection = WHOLE_LOG,
        *,
        time: Slice | None = None,
    ) -> tuple[int, str, bool]:
        """Count the lines of a trial's log that match a pattern and follow a cursor.

        Stop early when `time` is over. Return the count, the cursor after the searched lines, and
        whether more lines follow.
        """
        positions = parse_cursor(cursor)
        unread = find_unread(self.segments(trial_id, whose), positions, whose.window)
        return count_matches(unread, positions, Search(pattern, stream), time or Slice())

    def last_lines(self, trial_id: int, replica: ReplicaId) -> tuple[str, ...]:
        """Return an attempt's last lines, including only the last state of each progress bar."""
        path = paths.attempt_dir(self._home, trial_id, replica) / paths.LOG
        if not _is_log(path):
            return ()
        try:
            lines, _ = retried(
                lambda: segment_reader.tail(str(path), _LAST_LINES, limit=_MOST_SEARCHED), _PATIENCE
            )
        except OSError:
            return ()  # the attempt's end must be recorded even if the disk stays unreadable
        texts = (line.text.decode("utf-8", "replace") for line in lines)
        return tuple(_shorten(text.rstrip("\r").rpartition("\r")[2]) for text in texts)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 1] + "…"


def _is_log(path: Path) -> bool:
    """Return whether a log is a regular file or missing.

    A trial may have replaced the log, for example with a pipe, which would block the reader.
    """
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return True
