"""Reports long waits for the server, so that none is silent.

A report is a line on stderr. If a view is drawing a status line, the view prints the report, so
that the two do not overwrite each other.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

VARIABLE = "WINDLASS_REPORT_WAITS"
_DEFAULT = 2.0  # seconds
_LATER = (10.0, 30.0)  # seconds of waiting after which more reports appear

_screens: list[Callable[[str], object]] = []  # the print functions of open views, newest last


def first_report_after() -> float:
    """Return the seconds of waiting after which the first report appears.

    The environment variable `WINDLASS_REPORT_WAITS` sets this number. Its value `never` prevents
    reports.
    """
    setting = os.environ.get(VARIABLE, "")
    try:
        seconds = float("inf" if setting == "never" else setting or _DEFAULT)
    except ValueError:
        return _DEFAULT
    return seconds if seconds >= 0 else _DEFAULT


def _report_times() -> Iterator[float]:
    first = first_report_after()
    if first < float("inf"):
        yield first
        yield from (seconds for seconds in _LATER if seconds > first)


def report_wait(text: str) -> None:
    """Report a wait in the newest open view, or else on stderr."""
    line = f"windlass: {text}"
    if _screens:
        _screens[-1](line)
    elif sys.stderr is not None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def show_in(screen: Callable[[str], object]) -> None:
    """Print all further reports by calling `screen`, until `stop_showing_in` is called."""
    _screens.append(screen)


def stop_showing_in(screen: Callable[[str], object]) -> None:
    """Stop printing reports by calling `screen`."""
    if screen in _screens:
        _screens.remove(screen)


def is_screen_open() -> bool:
    """Return whether any open view prints reports."""
    return bool(_screens)


def await_answer(connected: socket.socket, describe: Callable[[], str], timeout: float) -> None:
    """Wait for a server's response, and report a long wait.

    This function may return before the response arrives, but never later than `timeout` seconds.
    """
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    began = time.monotonic()
    for seconds in _report_times():
        if seconds >= timeout or poll.poll(max(began + seconds - time.monotonic(), 0) * 1000):
            return
        report_wait(_describe_wait(describe, seconds, timeout))


class AnswerTimer:
    """Reports a long wait for a remote server during a `with` block.

    The wait includes both connecting to the server and its response.
    """

    def __init__(self, describe: Callable[[], str], timeout: float) -> None:
        self._describe = describe
        self._timeout = timeout
        self._has_ended = threading.Event()

    def __enter__(self) -> AnswerTimer:
        threading.Thread(target=self._run, name="windlass-answer", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()

    def _run(self) -> None:
        began = time.monotonic()
        for seconds in _report_times():
            left = max(began + seconds - time.monotonic(), 0)
            if seconds >= self._timeout or self._has_ended.wait(left):
                return
            report_wait(_describe_wait(self._describe, seconds, self._timeout))


def _describe_wait(describe: Callable[[], str], seconds: float, timeout: float) -> str:
    return (
        f"Waiting for {describe()}, which has not answered for {seconds:g} s. "
        f"The request fails after {timeout:g} s."
    )
