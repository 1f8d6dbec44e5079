"""An attempt that runs on this machine. Its files alone describe its state."""

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

EXTERNAL = "external"  # the executable type of a process not started by Windlass
REMOTE = "away"  # a key in the launch files of attempts on other machines
_YOUNG = 10.0  # seconds within which a new supervisor must take its lock
_NODE = socket.gethostname()

_COPIED = "it ran in the home of which this home is a copy"
_WORDLESS = "its process ended without a report"


class Attempt(AttemptFiles):
    """The files of one attempt on this machine. An attempt is alive while a process holds its lock.

    If this home is a copy of another home, the copied attempts belong to the original home. Their
    processes get no signal from here, and the attempts count as ended.
    """

    def __init__(self, uid: str, replica: ReplicaId, path: Path, home_id: str = "") -> None:
        super().__init__(uid, replica, path)
        self._home_id = home_id

    @property
    def node(self) -> str:
        """The name of this machine."""
        return _NODE

    @property
    def address(self) -> str:
        """The address at which other replicas reach this replica.

        The address has no port if the job needs no ports.
        """
        port = (self.launch() or {}).get("hold")
        return f"{LOOPBACK}:{port}" if port else LOOPBACK

    @property
    def marker(self) -> str:
        """The value of the environment variable that marks each process of the attempt."""
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
        """Whether a supervisor holds the lock or, if the attempt is external, its process runs.

        An external attempt's lock is unreliable, because the program may close the file descriptor
        and a forked child may hold the lock after the program has ended.
        """
        if self.is_of_another_home:
            return False
        owner = self.supervisor() if self.is_external else None
        return is_locked(self._file(paths.LOCK)) if owner is None else is_alive(*owner)

    @property
    def is_external(self) -> bool:
        """Whether the attempt's process was started by the user and not by Windlass."""
        launch = self.launch()
        return launch is not None and launch["executable"]["type"] == EXTERNAL

    @property
    def is_remote(self) -> bool:
        """Whether the attempt runs on another machine, so that only its uploaded files are here."""
        return bool((self.launch() or {}).get(REMOTE))

    @property
    def is_of_another_home(self) -> bool:
        """Whether this home is a copy and the original home started the attempt."""
        return bool(self._launched_by and self._home_id) and self._launched_by != self._home_id

    @property
    def _launched_by(self) -> str:
        """The id of the home from which the attempt was started."""
        key = (self.launch() or {}).get("key") or {}
        return str(key.get("home") or "")

    def supervisor(self) -> tuple[int, str] | None:
        """Return the supervisor's pid and identity, as recorded in the state file."""
        owner = self._state().supervisor
        return (owner.pid, owner.identity) if owner else None

    def pid(self) -> int | None:
        """Return the pid of the user's process, or None if it does not run."""
        process = None if self.is_of_another_home else self._state().process
        lives = process is not None and is_alive(process.pid, process.identity)
        return process.pid if process is not None and lives else None

    def observe(self, *, is_starting: bool) -> Replica:
        """Return the attempt's state. If its supervisor died, write an exit record."""
        ended = self._ended()
        if ended is not None:
            return ended
        if self.is_alive:
            return self._given_up() or self._living()
        # The supervisor writes the exit record before it releases the lock, so the record may exist
        # by now.
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
        """Return an observed state, with `ended` set if the process died without an exit record."""
        if seen.phase is not Phase.RUNNING:
            return seen
        process = self._state().process
        if process is None or self.is_of_another_home or is_alive(process.pid, process.identity):
            return seen
        return msgspec.structs.replace(seen, ended=time.time())

    def stop(self, grace: float, *, interrupt: bool = False) -> None:
        """Stop the attempt. If it has not started yet, prevent its start."""
        if self.has_ended or not exists(self.path):
            return
        try:
            # Write the file before checking the lock. A supervisor that takes the lock later sees
            # the file.
            order = {"grace": grace, "interrupt": interrupt, "reason": ""}
            write_json(self._file(paths.STOP), order)
        except OSError:
            # The disk is full. Without the stop file, the supervisor uses its own grace period.
            if not self._signal_supervisor():
                raise
            return
        if self.is_alive:
            # An external process gets no signal. It has to call `wl.should_stop()`.
            if not self.is_external:
                self._signal_supervisor()
        elif not self.has_ended:
            self.record_end(
                "Stopped", "stopped before it was started" if not self.was_begun else ""
            )

    def repeat_stop(self) -> None:
        """Signal the supervisor again if there is a stop file.

        An earlier server may have died after writing the file but before sending the signal.
        """
        if exists(self.path / paths.STOP) and not self.is_external:
            self._signal_supervisor()

    def _signal_supervisor(self) -> bool:
        """Send SIGTERM to the supervisor. Return whether the supervisor runs."""
        owner = None if self.is_of_another_home else self.supervisor()
        if owner is None or not send_signal(*owner, signal.SIGTERM):
            return False
        send_signal(*owner, signal.SIGCONT)  # a suspended process would not handle SIGTERM
        return True

    def record_end(self, reason: str, message: str) -> bool:
        """Kill the processes of an attempt that has no supervisor, and write the exit record.

        If a supervisor is alive, do nothing and return False.
        """
        # if the home was copied with hard links, even the lock file belongs to the original
        if self.is_of_another_home:
            record = self._end(reason, message, self._last_beat())
            write_json_once(self._file(paths.EXIT), record)
            return True
        if self.is_external:
            # Do not kill an external process, because we did not start it. The lock does not show
            # whether the process runs, because a forked child may hold the lock.
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
        """Return the final state of an external attempt that outlived its grace period, or None.

        The process itself continues, because we did not start it, but its further results are not
        recorded.
        """
        if not self.is_external:
            return None
        order = read_json(self._file(paths.STOP))
        if order is None or time.time() < self._stop_requested_at() + _grace_of(order):
            return None
        self.record_end("Stopped", "it did not stop on request, and is no longer recorded")
        return self._ended()

    def _stop_requested_at(self) -> float:
        try:
            return (self.path / paths.STOP).stat().st_mtime
        except FileNotFoundError:
            return time.time()

    def _take_lock(self) -> int | None:
        """Take the attempt's lock and return its descriptor, or None if it is taken.

        Retry for a moment, because a process that only checks the lock holds it briefly.
        """
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
        # Use the absolute difference, because the clock may have been set back.
        return abs(time.time() - written) < _YOUNG


def _grace_of(order: dict[str, Any]) -> float:
    grace = order.get("grace")
    return float(grace) if isinstance(grace, (int, float)) else 0.0
