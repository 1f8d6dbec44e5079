"""An output of a notebook cell that is updated in place.

A notebook has no terminal, and its file keeps everything that a cell prints. Status lines therefore
go to one output of the cell. Each update replaces this output, so that only the last one is saved.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections import deque
from typing import Any

_MOST_NOTES = 5


def in_notebook() -> bool:
    """Return whether this process runs the cells of a notebook.

    This check does not import IPython.
    """
    ipython = sys.modules.get("IPython")
    get_shell = getattr(ipython, "get_ipython", None)
    shell = get_shell() if get_shell is not None else None
    return getattr(shell, "kernel", None) is not None


class CellOutput:
    """One output of the cell that currently runs. It appears with the first call of `show`."""

    def __init__(self) -> None:
        self._id = ""
        self._html = ""
        self._display: Any = importlib.import_module("IPython.display")

    @property
    def is_shown(self) -> bool:
        """Whether the cell has this output already."""
        return bool(self._id)

    def show(self, html: str, text: str) -> None:
        """Replace the output. Content that the output already shows is not sent again."""
        if html == self._html:
            return
        self._html = html
        content = {"text/plain": text, "text/html": html}
        if self._id:
            self._display.update_display(content, display_id=self._id, raw=True)
        else:
            self._id = f"windlass-{os.urandom(8).hex()}"
            self._display.display(content, display_id=self._id, raw=True)


class CellStatus:
    """The status of a wait in a notebook cell: notes that stay, and a status that changes."""

    def __init__(self) -> None:
        self.overall = ""  # the state of all trials of a `map`, which then stands for the notes
        self._output = CellOutput()
        self._notes: deque[str] = deque(maxlen=_MOST_NOTES)
        self._status = ""
        self._clock = ""
        self._line = ""
        self._lock = threading.Lock()

    @property
    def is_shown(self) -> bool:
        """Whether the cell has this output already."""
        return self._output.is_shown

    def note(self, text: str) -> None:
        """Add a note that stays."""
        with self._lock:
            self._notes.append(text)
            self._show()

    def update(self, status: str, clock: str = "", line: str = "") -> None:
        """Replace the status and its time. `line` is output that the program has not ended yet."""
        with self._lock:
            self._status, self._clock, self._line = status, clock, line
            self._show()

    def end(self, status: str = "") -> None:
        """Remove the status.

        If a status was shown and the cell has no notes, show `status` as a note.
        """
        with self._lock:
            if status and self.is_shown and not self._notes:
                self._notes.append(status)
            self._status = self._clock = self._line = ""
            self._show()

    def _show(self) -> None:
        from windlass.display.html.status import status_html

        notes = [self.overall] if self.overall else list(self._notes)
        html = status_html(notes, self._status, self._clock, self._line)
        self._output.show(html, "\n".join([*notes, self._status]).strip())
