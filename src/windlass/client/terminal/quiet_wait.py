"""Shows a trial's state while a program waits for the trial without printing its output."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from windlass.client.connection.wait_reports import is_screen_open
from windlass.client.terminal.status_line import share_of, status_text
from windlass.client.terminal.view import View
from windlass.client.terminal.wait_notice import WaitNotice
from windlass.model.records import TrialRecord


@contextmanager
def showing_wait() -> Iterator[Callable[[TrialRecord], None]]:
    """Show a trial's state during the `with` block.

    Yield a function that must be called with each new record of the trial.

    Only the main thread shows a state, because several waits would overwrite each other.
    """
    if is_screen_open() or threading.current_thread() is not threading.main_thread():
        yield lambda _: None
        return
    with View() as view, WaitNotice(view, reports_running=True) as notice:
        newest: TrialRecord | None = None

        def show(trial: TrialRecord) -> None:
            nonlocal newest
            newest = trial
            view.status(status_text(trial), share_of(trial))
            notice.update(trial)

        try:
            yield show
        except BaseException:
            if view.cell is not None and view.cell.is_shown and newest is not None:
                view.cell.note(f"stopped waiting for {status_text(newest)}")
            raise
