"""Receives nudges (datagrams from supervisors and agents), and watches for the end of processes."""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from windlass.model.job import RoleName
from windlass.model.status import ReplicaId
from windlass.model.thread_safe_types import learned
from windlass.runtimes.local.own_socket import OwnSocket
from windlass.worker.common.nudge import CHECKPOINT, LOG, METRICS
from windlass.worker.common.process_identity import is_alive

_log = logging.getLogger(__name__)
_LATE = 0.05  # seconds of delay, because file times are coarser than the clock
_CHECK_AGAIN = 0.5  # seconds between checks if the system cannot report the end of a process

Callback = Callable[[str], None]


class Source(msgspec.Struct, frozen=True):
    """The attempt that reported metrics or saved a checkpoint."""

    uid: str
    trial_id: int
    replica: ReplicaId


class _Nudge(msgspec.Struct):
    """The schema of a nudge.

    Each nudge is validated, because any of the user's processes can send one.
    """

    uid: str  # validation excludes lone surrogates, which a database cannot store
    trial_id: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    about: str = ""
    role: RoleName = "main"
    index: Annotated[int, msgspec.Meta(ge=0, lt=10**9)] = 0
    attempt: Annotated[int, msgspec.Meta(ge=0, lt=10**9)] = 1


_decoder = msgspec.json.Decoder(learned(_Nudge))


class _Received:
    """The distinct subjects of the nudges that arrived in one batch."""

    def __init__(self) -> None:
        self.changed: set[str] = set()  # jobs whose replicas may have changed
        self.grown: set[int] = set()  # trials whose log may have grown
        self.reported: set[Source] = set()
        self.saved: set[Source] = set()

    def add(self, nudge: _Nudge) -> None:
        if nudge.about in (METRICS, CHECKPOINT):
            replica = ReplicaId(nudge.role, nudge.index, nudge.attempt)
            sources = self.reported if nudge.about == METRICS else self.saved
            sources.add(Source(nudge.uid, nudge.trial_id, replica))
            return
        self.grown.add(nudge.trial_id)
        if nudge.about != LOG:
            self.changed.add(nudge.uid)


class NudgeListener:
    """A thread that receives nudges and calls the registered callbacks.

    `on_change` callbacks get a job's uid, `on_log` callbacks get a trial's id, and `on_metrics` and
    `on_checkpoint` callbacks get a `Source`. The listener's thread makes all calls.
    """

    def __init__(self, home: Path) -> None:
        self._own = OwnSocket(home, "nudge.sock", socket.SOCK_DGRAM)
        self.path = self._own.path
        self._socket = self._own.socket
        self._socket.setblocking(False)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._on_change: list[Callback] = []
        self._on_log: list[Callable[[int], None]] = []
        self._on_metrics: list[Callable[[Source], None]] = []
        self._on_checkpoint: list[Callable[[Source], None]] = []
        self._lock = threading.Lock()
        self._awaited: list[tuple[int, str, str]] = []  # new processes: pid, identity, job uid
        self._polled: list[tuple[int, str, str]] = []  # processes without a pidfd
        # The time and job of each scheduled notification.
        self._due: list[tuple[float, str]] = []
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="windlass-nudges", daemon=True)
        self._thread.start()

    def on_change(self, callback: Callback) -> None:
        """Call `callback` with the uid of each job whose replicas may have changed."""
        self._on_change.append(callback)

    def on_log(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the id of each trial whose log may have grown."""
        self._on_log.append(callback)

    def on_metrics(self, callback: Callable[[Source], None]) -> None:
        """Call `callback` with each attempt that reported metrics."""
        self._on_metrics.append(callback)

    def on_checkpoint(self, callback: Callable[[Source], None]) -> None:
        """Call `callback` with each attempt that saved a checkpoint."""
        self._on_checkpoint.append(callback)

    def await_end(self, pid: int, identity: str, uid: str) -> None:
        """Once the process with this pid has ended, report that the job `uid` may have changed.

        `identity` distinguishes the process from later processes that get the same pid.
        """
        with self._lock:
            self._awaited.append((pid, identity, uid))
        self._wake()

    def notify_after(self, seconds: float, uid: str) -> None:
        """Report that the job `uid` may have changed after `seconds` plus a short margin."""
        with self._lock:
            self._due.append((time.monotonic() + seconds + _LATE, uid))
        self._wake()

    def close(self) -> None:
        """Stop the thread that receives nudges. Later nudges are lost."""
        if self._is_closed:
            return
        self._is_closed = True
        self._wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._selector.close()
        self._own.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _wake(self) -> None:
        os.write(self._wake_write, b"x")

    def _run(self) -> None:
        while not self._is_closed:
            events = self._selector.select(self._patience())
            received = _Received()
            for key, _ in events:
                if key.fileobj is self._socket:
                    self._receive(received)
                elif key.fd == self._wake_read:
                    os.read(self._wake_read, 4096)
                else:
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
                    received.changed.add(key.data)
            self._take_awaited(received.changed)
            self._check_polled(received.changed)
            self._take_due(received.changed)
            for trial_id in received.grown:
                _notify(self._on_log, trial_id)
            for source in received.reported:
                _notify(self._on_metrics, source)
            for source in received.saved:
                _notify(self._on_checkpoint, source)
            for uid in received.changed:
                _notify(self._on_change, uid)
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                os.close(key.fd)

    def _receive(self, received: _Received) -> None:
        """Read all nudges that have arrived, and add their subjects to `received`."""
        while True:
            try:
                message = self._socket.recv(4096)
            except BlockingIOError:
                return
            try:
                received.add(_decoder.decode(message))
            except (msgspec.MsgspecError, ValueError, RecursionError):
                continue

    def _take_awaited(self, changed: set[str]) -> None:
        with self._lock:
            new, self._awaited = self._awaited, []
        for pid, identity, uid in new:
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                changed.add(uid)
                continue
            except (OSError, AttributeError):
                self._polled.append((pid, identity, uid))
                continue
            try:
                if is_alive(pid, identity):
                    self._selector.register(fd, selectors.EVENT_READ, uid)
                    continue
                changed.add(uid)
            except OSError:  # unknown, so it is checked again
                self._polled.append((pid, identity, uid))
            os.close(fd)

    def _patience(self) -> float | None:
        """Return the seconds until the next scheduled check, or None if no check is scheduled."""
        with self._lock:
            waits = [max(at - time.monotonic(), 0.0) for at, _ in self._due]
        return min([*waits, *([_CHECK_AGAIN] if self._polled else [])], default=None)

    def _take_due(self, changed: set[str]) -> None:
        now = time.monotonic()
        with self._lock:
            changed |= {uid for at, uid in self._due if at <= now}
            self._due = [timer for timer in self._due if timer[0] > now]

    def _check_polled(self, changed: set[str]) -> None:
        left = []
        for pid, identity, uid in self._polled:
            try:
                has_ended = not is_alive(pid, identity)
            except OSError:
                has_ended = False  # unknown, so it is checked again
            if has_ended:
                changed.add(uid)
            else:
                left.append((pid, identity, uid))
        self._polled = left


def _notify(callbacks: list[Callable[..., None]], subject: object) -> None:
    for callback in list(callbacks):
        _notify_one(callback, subject)


def _notify_one(callback: Callable[..., None], subject: object) -> None:
    try:
        callback(subject)
    except Exception:  # noqa: BLE001  # one callback must not affect others
        _log.exception("A listener failed on %r.", subject)
