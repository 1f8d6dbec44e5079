"""Opens databases as a server does, each in a process that dies before a chosen statement.

`python killed_upgrade.py` reads lines with a step, a database and a folder of migrations,
separated by tabs. For each it forks a process that opens the database and sends itself SIGKILL
when SQLite is about to run the statement of that number, if there are so many, and prints its exit
code. Queries do not count: they do not change the file.
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
    """A process that forks the processes that open databases."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin and process.stdout
        self._requests, self._exit_codes = process.stdin, process.stdout

    def open(self, path: Path, migrations: Path, step: int) -> int:
        """Return the exit code of a process that opens a database and is killed at a step."""
        self._requests.write(f"{step}\t{path}\t{migrations}\n")
        self._requests.flush()
        return int(self._exit_codes.readline())


@contextmanager
def upgrading() -> Iterator[Upgrader]:
    """Run an upgrader for the time of the block."""
    argv = [sys.executable, __file__]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Upgrader(process)  # it exits when its input ends


def _main() -> None:
    from windlass.server.db.sqlite import SqliteDatabase  # loaded before the forks

    for line in sys.stdin:
        step, path, migrations = line.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            _die_before(int(step))
            SqliteDatabase(Path(path), Path(migrations))
            os._exit(0)  # without closing anything, as if killed after the last statement
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

    sqlite3.connect = connect_watched  # type: ignore[assignment]


if __name__ == "__main__":
    _main()
