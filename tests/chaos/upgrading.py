"""Opens databases as a server does, each in a process that dies before a chosen statement.

`python upgrading.py` reads lines of a number and a path, and answers each with the exit code of
a process that opened that database; it sent itself SIGKILL when SQLite was about to run the
statement of that number, if there were so many. Those that only look something up are not
counted: they leave the file as it was. All processes are forked from one that has loaded what
an upgrade needs, for there are many of them.
"""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Upgrader:
    """Has databases opened by processes that die."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin and process.stdout
        self._asked, self._told = process.stdin, process.stdout

    def open(self, path: Path, step: int) -> int:
        """The exit code of a process that opened a database; it is killed at a step."""
        self._asked.write(f"{step} {path}\n")
        self._asked.flush()
        return int(self._told.readline())


@contextmanager
def upgrading() -> Iterator[Upgrader]:
    """One that has databases opened until the end."""
    argv = [sys.executable, __file__]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Upgrader(process)  # it leaves when its input ends


def _main() -> None:
    from windlass.server import database
    from windlass.server.migrations import migrate  # noqa: F401 -- loaded before the forks

    for line in sys.stdin:
        step, _, path = line.rstrip("\n").partition(" ")
        child = os.fork()
        if child == 0:
            _die_before(int(step))
            database.Database(Path(path))
            os._exit(0)  # without closing anything: as if killed after the last statement
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _die_before(step: int) -> None:
    steps, connect = itertools.count(1), sqlite3.connect

    def begin(statement: str) -> None:
        if not statement.startswith(("SELECT", "PRAGMA")) and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect_watched(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_trace_callback(begin)
        return connection

    # SQLAlchemy takes the driver by its other name.
    sqlite3.connect = sqlite3.dbapi2.connect = connect_watched  # type: ignore[assignment]


if __name__ == "__main__":
    _main()
