"""Process trees: find, signal and reap all descendants of a process."""

from __future__ import annotations

import os
import signal
import sys
import time

_KILL_AGAIN = 0.1
_GIVE_UP = 15.0

# In the environment of what a trial may start but must not take along: a server, and the
# supervisors of other trials. They and all that came of them are no family.
DETACHED = "WINDLASS_DETACHED"
# In the environment of what an agent started, where the server is not.
AWAY = "WINDLASS_AWAY"
# In the environment of the launcher, to be overwritten: the kernel shows the environment a
# process was started with, and a fork is found by its marker like every other process.
MARKER = "WINDLASS_REPLICA"
MARKER_ROOM = 160


class Family:
    """A child of this process and all that came of it.

    Where orphans come to us (`sees_orphans`: Linux) none can slip away; elsewhere what
    has left the child's process group is not seen.
    """

    def __init__(self, first: int, *, sees_orphans: bool) -> None:
        self._first = first
        self._sees_orphans = sees_orphans
        self.first_status: int | None = None  # the child's wait status, once it has ended
        self.first_ended: float | None = None  # when that was seen, by `time.monotonic`

    def reap(self) -> bool:
        """Bury those that ended; whether any are left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not self._sees_orphans and self._group_lives()
            if pid == 0:
                return self.first_status is None or bool(descendants())
            if pid == self._first:
                self.first_status = status
                self.first_ended = time.monotonic()

    def send(self, number: int) -> None:
        """Send a signal to everyone who is left; the stopped are woken, to hear it."""
        everyone = descendants()
        for signal_number in (number, signal.SIGCONT):
            # Once the child is buried its number may be another's, unless its group lives on.
            if (
                self.first_status is None
                or any(group == self._first for _, group in everyone)
                or not self._sees_orphans
            ):
                _kill(-self._first, signal_number)
            for pid, group in everyone:
                if group != self._first:
                    _kill(pid, signal_number)

    def _group_lives(self) -> bool:
        try:
            os.killpg(self._first, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


class Departure:
    """Sees a family off: asks them to end, and kills who has not when the time is up."""

    def __init__(self, family: Family) -> None:
        self.was_first_asked = False  # whether the first had to be asked
        self.was_first_killed = False
        self._family = family
        self._is_terminating = False
        self._killed_at: float | None = None

    def urge(self, now: float, by: float) -> float:
        """Do what is due; when to look again."""
        lives = self._family.first_status is None
        if not self._is_terminating:
            self._is_terminating = True
            self.was_first_asked = lives
            self._family.send(signal.SIGTERM)
        if now < by:
            return by
        self.was_first_killed = self.was_first_killed or lives
        self._killed_at = self._killed_at or now
        self._family.send(signal.SIGKILL)
        return now + _KILL_AGAIN

    def is_hopeless(self, now: float) -> bool:
        """Whether they were killed so long ago that only the kernel can be holding them."""
        return self._killed_at is not None and now > self._killed_at + _GIVE_UP


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def descendants() -> list[tuple[int, int]]:
    """Pid and process group of each live descendant of this process; empty off Linux."""
    if sys.platform != "linux":
        return []
    groups: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                text = file.read()
        except OSError:
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
    """Whether a process is no part of the trial that it was started in."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{DETACHED}=1".encode() in file.read().split(b"\0")
    except OSError:
        return False
