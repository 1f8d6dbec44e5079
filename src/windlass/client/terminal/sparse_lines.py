"""Decides when a file or a pipe gets a line about a wait."""

from __future__ import annotations

from windlass.client.connection.wait_reports import first_report_after

_LONGEST = 60.0  # seconds between two lines during a long wait


class SparseLines:
    """Allows a first line after 2 s of waiting, and more lines at growing intervals.

    A line is allowed only if its text differs from the previous line's.

    >>> lines = SparseLines()
    >>> [lines.is_due("queued", at) for at in (0.0, 1.0, 2.0, 3.0)]
    [False, False, True, False]
    >>> [lines.is_due("2nd in queue", at) for at in (3.0, 5.0, 6.0)]
    [False, False, True]
    """

    def __init__(self, since: float | None = None) -> None:
        self._since = since  # when the current wait started
        self._next = 0.0  # the earliest time for the next line
        self._first = first_report_after()
        self._pause = 2.0
        self._last = ""

    def is_due(self, text: str, now: float) -> bool:
        """Return whether to print `text` now.

        An empty text means that the program is not waiting.
        """
        if not text:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        if text == self._last or now < max(self._since + self._first, self._next):
            return False
        self._last = text
        self._pause = min(self._pause * 2, _LONGEST)
        self._next = now + self._pause
        return True
