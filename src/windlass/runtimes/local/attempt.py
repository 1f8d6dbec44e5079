"""One attempt of a local replica, described by its files alone: observed, stopped, ended."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Any

import msgspec

from windlass.model.status import Phase, Replica
from windlass.runtimes import paths
from windlass.runtimes.attempt_files import AttemptFiles
from windlass.runtimes.local.stray_processes import kill_strays, send_signal
from windlass.worker.common.atomic_files import (
    is_locked,
    read_json,
    take_lock,
    write_json,
    write_json_once,
)
from windlass.worker.common.process_identity import is_alive
from windlass.worker.supervise.child_process import replica_marker
from windlass.worker.supervise.ports import LOOPBACK

EXTERNAL = "external"  # in a launch file: nothing of it was started by us
REMOTE = "away"  # in a launch file: nothing of it runs on this machine
_YOUNG = 10.0  # seconds that a supervisor has to take its lock
_NODE = socket.gethostname()

_WORDLESS = "its process ended without a word"


class Attempt(AttemptFiles):
    """The files of one attempt. Whether its lock is held is the one test of whether it lives."""

    @property
    def node(self) -> str:
        """This machine."""
        return _NODE

    @property
    def address(self) -> str:
        """Where the others reach its replica: a host alone if nobody needs a port."""
        port = (self.launch() or {}).get("hold")
        return f"{LOOPBACK}:{port}" if port else LOOPBACK

    @property
    def marker(self) -> str:
        """What stands in the environment of each of its processes."""
        return replica_marker(
            {
                "uid": self.uid,
                "role": self.replica.role,
                "index": self.replica.index,
                "attempt": self.replica.attempt,
            }
        )

    @property
    def is_alive(self) -> bool:
        """Whether a supervisor has it; of an external one, whether its process runs.

        The lock of that says nothing once it has begun: its program may close what it did not
        open, and what it forked may hold the lock for longer than it lives.
        """
        owner = self.supervisor() if self.is_external else None
        return is_locked(self._file(paths.LOCK)) if owner is None else is_alive(*owner)

    @property
    def is_external(self) -> bool:
        """Whether it is a process that was not started by us."""
        return ((self.launch() or {}).get("executable") or {}).get("type") == EXTERNAL

    @property
    def is_remote(self) -> bool:
        """Whether it runs on another machine, and only what it ships is here."""
        return bool((self.launch() or {}).get(REMOTE))

    def supervisor(self) -> tuple[int, str] | None:
        """Pid and identity of its supervisor, as that wrote them."""
        owner = self._state().supervisor
        return (owner.pid, owner.identity) if owner else None

    def pid(self) -> int | None:
        """The number of its process, while that runs."""
        process = self._state().process
        lives = process is not None and is_alive(process.pid, process.identity)
        return process.pid if process is not None and lives else None

    def observe(self, *, is_starting: bool) -> Replica:
        """How it stands; an attempt whose supervisor died is buried on the way."""
        ended = self._ended()
        if ended is not None:
            return ended
        if self.is_alive:
            return self._given_up() or self._living()
        # The lock is let go after the exit record is written: it may be there by now.
        ended = self._ended()
        if ended is not None:
            return ended
        if is_starting or (not self.was_begun and self._is_young()):
            return self._replica(phase=Phase.PENDING, message="starting")
        if self.is_external:
            self.record_end(
                "Lost", _WORDLESS if self.was_begun else "its process never said that it runs"
            )
        elif self.was_begun:
            self.record_end("Lost", "its supervisor died; what was found of it was killed")
        else:
            self.record_end("Lost", "its supervisor did not start")
        return self._ended() or self._replica(phase=Phase.PENDING, message="starting")

    def check_process(self, seen: Replica) -> Replica:
        """What was seen of it, with an end if its process has died and its record is to come."""
        if seen.phase is not Phase.RUNNING:
            return seen
        process = self._state().process
        if process is None or is_alive(process.pid, process.identity):
            return seen
        return msgspec.structs.replace(seen, ended=time.time())

    def stop(self, grace: float, reason: str) -> None:
        """Have it end; before it began, see to it that it never does."""
        if self.has_ended or not self.path.exists():
            return
        try:
            # Before the look at the lock: a supervisor that takes it after that sees this.
            write_json(self._file(paths.STOP), {"grace": grace, "reason": reason})
        except OSError:
            # A full disk. Without it, one that runs ends as well, in a grace of its own.
            if not self._signal_supervisor():
                raise
            return
        if self.is_alive:
            if not self.is_external:  # that hears of it by `wl.should_stop()`, and by no signal
                self._signal_supervisor()
        elif not self.has_ended:
            self.record_end(
                "Stopped", "stopped before it was started" if not self.was_begun else ""
            )

    def repeat_stop(self) -> None:
        """Signal one that is to stop: whoever wrote that down may not have come to it."""
        if (self.path / paths.STOP).exists() and not self.is_external:
            self._signal_supervisor()

    def _signal_supervisor(self) -> bool:
        """Whether there is one that could be told to end."""
        owner = self.supervisor()
        if owner is None or not send_signal(*owner, signal.SIGTERM):
            return False
        send_signal(*owner, signal.SIGCONT)  # in case somebody has stopped it
        return True

    def record_end(self, reason: str, message: str) -> bool:
        """Kill what is left of an attempt without a supervisor, and write its exit record.

        Whether it was so: with a supervisor there is nothing to bury.
        """
        if self.is_external:
            # Nothing of it is ours to kill, and whoever has its lock may be a fork of it.
            write_json_once(self._file(paths.EXIT), self._end(reason, message, time.time()))
            return True
        lock = self._take_lock()
        if lock is None:
            return False
        try:
            if self.has_ended:
                return True
            first = self._state().process
            leader = (first.pid, first.identity) if first else None
            kill_strays(self.marker, leader, self._last_beat())
            record = self._end(reason, message, self._last_beat())
            write_json(self._file(paths.EXIT), record, durable=True)
        finally:
            os.close(lock)
        return True

    def _given_up(self) -> Replica | None:
        """The end of an external one that was told to stop, and did not within its grace.

        Its process goes on, which is not ours: it is no longer recorded.
        """
        if not self.is_external:
            return None
        order = read_json(self._file(paths.STOP))
        if order is None or time.time() < self._stop_requested_at() + _grace_of(order):
            return None
        self.record_end("Stopped", "it was told to stop and went on: that is no longer recorded")
        return self._ended()

    def _stop_requested_at(self) -> float:
        try:
            return (self.path / paths.STOP).stat().st_mtime
        except FileNotFoundError:
            return time.time()

    def _take_lock(self) -> int | None:
        """The lock, tried for a moment: one who only looks holds it no longer than that."""
        until = time.monotonic() + 0.2
        while True:
            lock = take_lock(self._file(paths.LOCK))
            if lock is not None or time.monotonic() > until:
                return lock
            time.sleep(0.002)  # flock has no wait with an end

    def _is_young(self) -> bool:
        try:
            written = (self.path / paths.LAUNCH).stat().st_mtime
        except FileNotFoundError:
            return True
        # Either way: the clock may have been set back since.
        return abs(time.time() - written) < _YOUNG


def _grace_of(order: dict[str, Any]) -> float:
    grace = order.get("grace")
    return float(grace) if isinstance(grace, (int, float)) else 0.0
