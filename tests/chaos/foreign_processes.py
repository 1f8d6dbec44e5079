"""Foreign processes that get the process ids of dead Windlass processes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from harness import eventually
from windlass.worker.common.process_identity import process_identity

# Records each signal that can be caught; SIGKILL ends it. With `family`, it leaves a process behind
# in its session, as daemons do, and exits.
_STRANGER = """
import os, signal, sys, time
note, family = sys.argv[1], sys.argv[2] == "family"

def hear(number, frame):
    with open(note + ".heard", "a") as file:
        file.write(f"{number}\\n")

for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, hear)
if family and os.fork():
    os._exit(0)
with open(note + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(note + ".new", note)
while True:
    time.sleep(0.05)
"""


class Stranger:
    """A process in its own session. Either the process or its session has a certain id."""

    def __init__(self, folder: Path, number: int, *, is_family: bool) -> None:
        self._note = folder / f"stranger-{number}"
        self._first = subprocess.Popen(
            [sys.executable, "-c", _STRANGER, self._note, "family" if is_family else "alone"],
            env={},
            start_new_session=True,
        )
        self.number = self._first.pid
        self.is_family = is_family
        self.living: psutil.Process | None = None

    def wait_until_there(self) -> None:
        """Wait until the process listens, and for a family until its first process is reaped."""
        eventually(self._note.exists, "a stranger lives")
        self.living = psutil.Process(int(self._note.read_text()))
        if self.is_family:
            self._first.wait()

    @property
    def is_unharmed(self) -> bool:
        """Return whether the process lives and never received a signal."""
        if self.living is None or self._note.with_suffix(".heard").exists():
            return False
        return self.living.is_running() and self.living.status() != psutil.STATUS_ZOMBIE

    def end(self) -> None:
        if self.living is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                self.living.kill()
        else:  # the first process is not reaped: its pid is still taken
            os.killpg(self.number, signal.SIGKILL)
        self._first.wait()


class Strangers:
    """Gives process ids of dead processes to foreign processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.all: list[Stranger] = []
        self._names = itertools.count()

    def take_over(self, record: dict[str, Any], *, is_family: bool) -> Stranger:
        """Start a foreign process with the pid that a file names.

        The kernel assigns the exact pid if it permits that. Otherwise the test writes the pid
        of the new process to the file, which looks the same to a later reader.
        """
        stranger = self._with_number(record["pid"], is_family=is_family)
        record["pid"] = stranger.number
        return stranger

    def _with_number(self, number: int, *, is_family: bool) -> Stranger:
        for _ in range(50):  # other processes may take the pid first, and exit again
            is_asked = _ask_for_number(number)
            stranger = Stranger(self._folder, next(self._names), is_family=is_family)
            if stranger.number == number or not is_asked:
                break
            stranger.end()
        else:
            stranger = Stranger(self._folder, next(self._names), is_family=is_family)
        self.all.append(stranger)
        stranger.wait_until_there()
        return stranger

    def end(self) -> None:
        for stranger in self.all:
            stranger.end()


def _ask_for_number(number: int) -> bool:
    """Ask the kernel to assign that pid to the next process, and return whether it will."""
    try:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(number - 1))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def rewritten(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the object in a JSON file for changes, and make the file an hour old.

    Pids repeat after many processes, not immediately.
    """
    written = path.stat().st_mtime
    record: dict[str, Any] = json.loads(path.read_text())
    yield record
    path.write_text(json.dumps(record))
    os.utime(path, (written - 3600, written - 3600))


def of_another_boot(stranger: Stranger) -> str:
    """Return the identity of a process that started at the same tick after another boot."""
    assert stranger.living is not None
    tick, _, _ = process_identity(stranger.living.pid).rpartition("@")
    return f"{tick}@11111111-2222-3333-4444-555555555555"
