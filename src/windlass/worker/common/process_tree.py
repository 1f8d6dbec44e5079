"""Finds, signals and reaps all processes that a child process started."""

from __future__ import annotations

import os
import signal
import sys
import time

from windlass.worker.common.file_reads import read_process_file

_KILL_AGAIN = 0.1
_GIVE_UP = 15.0

# This variable marks processes that a trial may start but that are not part of it, such as a server
# and the supervisors of other trials. They and their descendants do not belong to the trial's
# process tree.
DETACHED = "WINDLASS_DETACHED"
# This variable marks processes that an agent started.
AWAY = "WINDLASS_AWAY"
# The environment of the launcher contains a placeholder for this variable, which a fork overwrites.
# The kernel only shows the environment with which a process was started, and a fork must be found
# by its marker like any other process.
MARKER = "WINDLASS_REPLICA"
MARKER_ROOM = 160


class ProcessTree:
    """A child of this process and all its descendants.

    If `sees_orphans` is true, this process adopts orphans (on Linux), so no descendant is missed.
    Otherwise, processes that left the child's process group are not found.
    """

    def __init__(self, first: int, *, sees_orphans: bool) -> None:
        self._first = first
        self._sees_orphans = sees_orphans
        # the wait status of the child, once the child has ended
        self.first_status: int | None = None
        self.first_ended: float | None = None  # when the end was noticed, by `time.monotonic`

    def reap(self) -> bool:
        """Reap processes that have ended. Return whether any process is left."""
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
        """Send a signal to all remaining processes.

        Continue stopped processes, so that they receive it.
        """
        try:
            everyone = descendants()
        except OSError:
            everyone = []  # the next call reaches the processes outside of the process group
        for signal_number in (number, signal.SIGCONT):
            # Once the child is reaped, another process may reuse its pid, unless its process group
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

    def _has_descendants(self) -> bool:
        try:
            return bool(descendants())
        except OSError:
            return True  # if unknown, the caller checks again later

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._first, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


class Termination:
    """Ends a process tree: SIGTERM to all processes first, and SIGKILL after the grace period."""

    def __init__(self, family: ProcessTree) -> None:
        self.was_first_signalled = False  # whether the child still ran when the termination began
        self.was_first_killed = False
        self._family = family
        self._is_terminating = False
        self._killed_at: float | None = None

    def urge(self, now: float, by: float) -> float:
        """Send the signals that are due. Return the time of the next call."""
        lives = self._family.first_status is None
        if not self._is_terminating:
            self._is_terminating = True
            self.was_first_signalled = lives
            self._family.send(signal.SIGTERM)
        if now < by:
            return by
        self.was_first_killed = self.was_first_killed or lives
        self._killed_at = self._killed_at or now
        self._family.send(signal.SIGKILL)
        return now + _KILL_AGAIN

    def is_hopeless(self, now: float) -> bool:
        """Return whether processes still exist long after the kill.

        Only the kernel can delay their end for so long.
        """
        return self._killed_at is not None and now > self._killed_at + _GIVE_UP


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def descendants() -> list[tuple[int, int]]:
    """Return pid and process group of each running descendant. Only Linux is supported."""
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
    """Return whether a process is not part of the trial in which it was started."""
    try:
        environ = read_process_file(pid, "environ")
    except PermissionError:
        return False  # the process runs as another user now
    return environ is not None and f"{DETACHED}=1".encode() in environ.split(b"\0")
