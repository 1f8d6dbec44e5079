"""Finds, signals and reaps all processes started, directly or indirectly, by a child process."""

from __future__ import annotations

import os
import signal
import sys
import time

from windlass.worker.common.file_reads import read_process_file

_KILL_AGAIN = 0.1
_GIVE_UP = 15.0

# Marks processes that a trial may start but that are not part of it, such as a server or another
# trial's supervisor. They and their descendants do not belong to the trial's process tree.
DETACHED = "WINDLASS_DETACHED"
# Marks processes that an agent started.
AWAY = "WINDLASS_AWAY"
# The launcher's environment contains a placeholder for this variable, which a fork overwrites in
# place. The kernel only shows the environment that a process was started with, but a fork, like any
# other process, must be found by its marker.
MARKER = "WINDLASS_REPLICA"
MARKER_ROOM = 160


class ProcessTree:
    """A child of this process, and all the child's descendants.

    If `sees_orphans` is true, this process adopts orphans (on Linux), so that no descendant is
    missed. If not, processes that left the child's process group are not found.
    """

    def __init__(self, first: int, *, sees_orphans: bool) -> None:
        self._first = first
        self._sees_orphans = sees_orphans
        # the child's wait status, once it has ended
        self.first_status: int | None = None
        self.first_ended: float | None = None  # when its end was noticed, by `time.monotonic`

    def reap(self) -> bool:
        """Reap processes of the tree that have ended. Return whether any processes are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not self._sees_orphans and self._group_lives()
            if pid == 0:
                return self.first_status is None or self._has_descendants()
            if pid == self._first:
                self.first_status = status
                self.first_ended = time.monotonic()

    def send(self, number: int) -> None:
        """Send a signal to all remaining processes of the tree.

        Continue stopped processes, so that they receive the signal.
        """
        try:
            everyone = descendants()
        except OSError:
            everyone = []  # the next call reaches processes outside the process group
        for signal_number in (number, signal.SIGCONT):
            # Once the child has been reaped, its pid may be reused, unless its process group
            # exists.
            if (
                self.first_status is None
                or any(group == self._first for _, group in everyone)
                or not self._sees_orphans
            ):
                _kill(-self._first, signal_number)
            for pid, group in everyone:
                if group != self._first:
                    _kill(pid, signal_number)

    def interrupt(self) -> None:
        """Send SIGINT to the child's process group, as a terminal does after Ctrl-C."""
        if self.first_status is None:
            for number in (signal.SIGINT, signal.SIGCONT):
                _kill(-self._first, number)

    def _has_descendants(self) -> bool:
        try:
            return bool(descendants())
        except OSError:
            return True  # unknown, so the caller checks again later

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._first, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


class Termination:
    """Ends a process tree: SIGTERM to all processes and, after the grace period, SIGKILL.

    SIGINT may come before. As after Ctrl-C in a terminal, only the child's process group receives
    SIGINT.
    """

    def __init__(self, family: ProcessTree) -> None:
        self.was_first_signalled = False  # whether the child was running when this began
        self.was_first_killed = False
        self._family = family
        self._is_interrupted = False
        self._is_terminating = False
        self._killed_at: float | None = None

    def urge(self, now: float, by: float, terminate_at: float = 0.0) -> float:
        """Send the signals that are due to the process tree. Return when to call this method again.

        `by` is the end of the grace period. Before the time `terminate_at`, the signal is SIGINT.
        All times have the same clock.
        """
        lives = self._family.first_status is None
        if not self._is_terminating:
            if not self._is_interrupted:
                self.was_first_signalled = lives
            if now < terminate_at:
                if not self._is_interrupted:
                    self._is_interrupted = True
                    self._family.interrupt()
                return min(by, terminate_at)
            self._is_terminating = True
            self._family.send(signal.SIGTERM)
        if now < by:
            return by
        self.was_first_killed = self.was_first_killed or lives
        self._killed_at = self._killed_at or now
        self._family.send(signal.SIGKILL)
        return now + _KILL_AGAIN

    def is_hopeless(self, now: float) -> bool:
        """Return whether processes still exist long after they were killed.

        Only the kernel can delay their end for that long.
        """
        return self._killed_at is not None and now > self._killed_at + _GIVE_UP


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def descendants() -> list[tuple[int, int]]:
    """Return the pid and process group of each running descendant. Supported only on Linux."""
    if sys.platform != "linux":
        return []
    groups: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        text = read_process_file(name, "stat")
        if text is None:
            continue
        state, parent, group = text[text.rindex(b")") + 2 :].split()[:3]
        children.setdefault(int(parent), []).append(int(name))
        if state not in (b"Z", b"X"):
            groups[int(name)] = int(group)
    processes = []
    to_visit = list(children.get(os.getpid(), ()))
    while to_visit:
        pid = to_visit.pop()
        if is_detached(pid):
            continue
        if pid in groups:
            processes.append((pid, groups[pid]))
        to_visit += children.get(pid, ())
    return processes


def is_detached(pid: int) -> bool:
    """Return whether a process is not part of the trial that started it."""
    try:
        environ = read_process_file(pid, "environ")
    except PermissionError:
        return False  # the process now runs as another user
    return environ is not None and f"{DETACHED}=1".encode() in environ.split(b"\0")
