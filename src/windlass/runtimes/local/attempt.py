"""One attempt of a local replica, described by its files alone: observed, stopped, ended."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from windlass.model.status import Phase, Replica, ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.attempt_files import AttemptFiles
from windlass.runtimes.local.stray_processes import kill_strays, send_signal
from windlass.worker.common.atomic_files import is_locked, take_lock, write_json, write_json_once
from windlass.worker.common.file_reads import exists, read_json
from windlass.worker.common.process_identity import is_alive
from windlass.worker.supervise.child_process import replica_marker
from windlass.worker.supervise.ports import LOOPBACK

EXTERNAL = "external"  # in a launch file: the process was not started by us
REMOTE = "away"  # in a launch file: the process runs on another machine
_YOUNG = 10.0  # seconds that a supervisor has to take its lock
_NODE = socket.gethostname()

_COPIED = "it ran in the home of which this home is a copy"
_WORDLESS = "its process ended without a report"


class Attempt(AttemptFiles):
    """The files of one attempt. An attempt is alive exactly while its lock is held.

    If the home was copied, its earlier attempts are copies of files of another home. The processes
    in them belong to that home: they get no signal, and count as ended here.
    """

    def __init__(self, uid: str, replica: ReplicaId, path: Path, home_id: str = "") -> None:
        super().__init__(uid, replica, path)
        self._home_id = home_id

    @property
    def node(self) -> str:
        """This machine."""
        return _NODE

    @property
    def address(self) -> str:
        """The address of the replica for its peers: a host without port if none is needed."""
        port = (self.launch() or {}).get("hold")
        return f"{LOOPBACK}:{port}" if port else LOOPBACK

    @property
    def marker(self) -> str:
        """The marker in the environment of each process of the attempt."""
        return replica_marker(
            {
                "uid": self.uid,
                "role": self.replica.role,
                "index": self.replica.index,
                "attempt": self.replica.attempt,
                "home": self._launched_by,
            }
        )

    @property
    def is_alive(self) -> bool:
        """Whether a supervisor holds the lock. For an external attempt: whether its process runs.

        The lock of an external attempt means nothing after its start: its program may close the
        descriptor, and a forked child may hold the lock for longer than the program lives.
        """
        if self.is_of_another_home:
            return False
        owner = self.supervisor() if self.is_external else None
        return is_locked(self._file(paths.LOCK)) if owner is None else is_alive(*owner)

    @property
    def is_external(self) -> bool:
        """Whether the process was not started by us."""
        return ((self.launch() or {}).get("executable") or {}).get("type") == EXTERNAL

    @property
    def is_remote(self) -> bool:
        """Whether the attempt runs on another machine, and only its uploads are here."""
        return bool((self.launch() or {}).get(REMOTE))

    @property
    def is_of_another_home(self) -> bool:
        """Whether the attempt was started in the home of which this one is a copy."""
        return bool(self._launched_by and self._home_id) and self._launched_by != self._home_id

    @property
    def _launched_by(self) -> str:
        """The id of the home whose server started the attempt."""
        key = (self.launch() or {}).get("key") or {}
        return str(key.get("home") or "")

    def supervisor(self) -> tuple[int, str] | None:
        """Return pid and identity of the supervisor from the state file."""
        owner = self._state().supervisor
        return (owner.pid, owner.identity) if owner else None

    def pid(self) -> int | None:
        """Return the pid of the process while it runs."""
        process = None if self.is_of_another_home else self._state().process
        lives = process is not None and is_alive(process.pid, process.identity)
        return process.pid if process is not None and lives else None

    def observe(self, *, is_starting: bool) -> Replica:
        """Return the state of the attempt; write an exit record if its supervisor died."""
        ended = self._ended()
        if ended is not None:
            return ended
        if self.is_alive:
            return self._given_up() or self._living()
        # The supervisor releases the lock after it wrote the exit record, which may exist by now.
        ended = self._ended()
        if ended is not None:
            return ended
        if self.is_of_another_home:
            self.record_end("Lost", _COPIED)
            return self._ended() or self._replica(phase=Phase.PENDING, message="starting")
        if is_starting or (not self.was_begun and self._is_young()):
            return self._replica(phase=Phase.PENDING, message="starting")
        if self.is_external:
            self.record_end(
                "Lost", _WORDLESS if self.was_begun else "its process never reported its start"
            )
        elif self.was_begun:
            self.record_end("Lost", "its supervisor died; its remaining processes were killed")
        else:
            self.record_end("Lost", "its supervisor did not start")
        return self._ended() or self._replica(phase=Phase.PENDING, message="starting")

    def check_process(self, seen: Replica) -> Replica:
        """Add an end to a running state if the process has died without an exit record yet."""
        if seen.phase is not Phase.RUNNING:
            return seen
        process = self._state().process
        if process is None or self.is_of_another_home or is_alive(process.pid, process.identity):
            return seen
        return msgspec.structs.replace(seen, ended=time.time())

    def stop(self, grace: float, reason: str) -> None:
        """Stop the attempt, or prevent its start."""
        if self.has_ended or not exists(self.path):
            return
        try:
            # Before the check of the lock: a supervisor that takes the lock later sees this file.
            write_json(self._file(paths.STOP), {"grace": grace, "reason": reason})
        except OSError:
            # The disk is full. Without the file, the supervisor stops with its own grace period.
            if not self._signal_supervisor():
                raise
            return
        if self.is_alive:
            # An external process gets no signal, and calls `wl.should_stop()`.
            if not self.is_external:
                self._signal_supervisor()
        elif not self.has_ended:
            self.record_end(
                "Stopped", "stopped before it was started" if not self.was_begun else ""
            )

    def repeat_stop(self) -> None:
        """Signal the supervisor again: the server may have died between the file and the signal."""
        if exists(self.path / paths.STOP) and not self.is_external:
            self._signal_supervisor()

    def _signal_supervisor(self) -> bool:
        """Send SIGTERM to the supervisor; return whether there is one."""
        owner = None if self.is_of_another_home else self.supervisor()
        if owner is None or not send_signal(*owner, signal.SIGTERM):
            return False
        send_signal(*owner, signal.SIGCONT)  # in case the process is stopped
        return True

    def record_end(self, reason: str, message: str) -> bool:
        """Kill the processes of an attempt without a supervisor, and write its exit record.

        Returns false, and does nothing, if a supervisor is alive.
        """
        if self.is_of_another_home:  # in a copy made of hard links, even the lock is the original's
            record = self._end(reason, message, self._last_beat())
            write_json_once(self._file(paths.EXIT), record)
            return True
        if self.is_external:
            # An external process is not ours to kill, and the owner of its lock may be a forked
            # child.
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
        """Return the end of an external attempt that did not stop within its grace period.

        Its process is not ours and continues, without being recorded.
        """
        if not self.is_external:
            return None
        order = read_json(self._file(paths.STOP))
        if order is None or time.time() < self._stop_requested_at() + _grace_of(order):
            return None
        self.record_end("Stopped", "it did not stop when asked, and is no longer recorded")
        return self._ended()

    def _stop_requested_at(self) -> float:
        try:
            return (self.path / paths.STOP).stat().st_mtime
        except FileNotFoundError:
            return time.time()

    def _take_lock(self) -> int | None:
        """Take the lock, with retries for a moment: a mere check of the lock holds it for less."""
        until = time.monotonic() + 0.2
        while True:
            lock = take_lock(self._file(paths.LOCK))
            if lock is not None or time.monotonic() > until:
                return lock
            time.sleep(0.002)  # flock has no timeout

    def _is_young(self) -> bool:
        try:
            written = (self.path / paths.LAUNCH).stat().st_mtime
        except FileNotFoundError:
            return True
        # Both directions: the clock may have been set back.
        return abs(time.time() - written) < _YOUNG


def _grace_of(order: dict[str, Any]) -> float:
    grace = order.get("grace")
    return float(grace) if isinstance(grace, (int, float)) else 0.0
