"""Warm launchers: interpreters that are already started and fork the supervisors of attempts.

There is one launcher for each combination of an interpreter and the variables that it reads at its
start. Nothing waits for a launcher. Until a launcher is ready, attempts start without it.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import subprocess
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import windlass.worker
from windlass.worker.common.process_tree import DETACHED, MARKER, MARKER_ROOM

_LAUNCHER = os.path.join(os.path.dirname(windlass.worker.__file__), "launcher.py")
_MOST = 4
_PATIENCE = 5.0
# Prefixes of variables that the interpreter, the loader or the C library reads only at startup.
_READ_AT_START = ("PYTHON", "LD_", "DYLD_", "LC_", "MALLOC_", "GLIBC_", "OPENSSL_", "ASAN_")
_READ_AT_START_NAMES = frozenset({"LANG", "LANGUAGE", "TZ", "HOME", "VIRTUAL_ENV"})

_log = logging.getLogger(__name__)


class Launchers:
    """A runtime's launchers, by interpreter and by the variables that it reads at its start."""

    def __init__(self, bytecode: str = "") -> None:
        """Set up the launchers. They cache their bytecode in the folder `bytecode`, if any."""
        self.bytecode = bytecode
        self._lock = threading.Lock()
        self._by_key: dict[str, _Launcher] = {}

    def start(self, python: str, environ: Mapping[str, str], attempt: Path) -> int | None:
        """Fork a supervisor for an attempt and return its pid, or None if no launcher is ready."""
        with self._lock:
            try:
                key, launcher = self._get(python, environ)
            except OSError as error:  # the interpreter may have been deleted
                _log.warning("no launcher of %s can start: %s", python, error)
                return None
            try:
                return launcher.fork(attempt)
            except (OSError, ValueError) as error:
                _log.warning("a launcher of %s failed: %s", python, error)
                self._by_key.pop(key).kill()
                return None

    def prepare(self, python: str, environ: Mapping[str, str]) -> None:
        """Start a launcher, so that later attempts can use it."""
        with self._lock:
            self._get(python, environ)

    def close(self) -> None:
        """Stop all launchers. The supervisors that they forked continue."""
        with self._lock:
            for launcher in self._by_key.values():
                launcher.close()
            self._by_key.clear()

    def _get(self, python: str, environ: Mapping[str, str]) -> tuple[str, _Launcher]:
        kept = {name: value for name, value in environ.items() if _is_read_at_start(name)}
        key = json.dumps([python, sorted(kept.items())])
        launcher = self._by_key.pop(key, None)
        if launcher is not None and not launcher.is_good:
            launcher.close()
            launcher = None
        if launcher is None:
            self._make_room()
            launcher = _Launcher(python, kept, self.bytecode)
        self._by_key[key] = launcher  # the newest last
        return key, launcher

    def _make_room(self) -> None:
        while len(self._by_key) >= _MOST:
            self._by_key.pop(next(iter(self._by_key))).close()


class _Launcher:
    """A warm interpreter and the socket through which the server sends requests to it."""

    def __init__(self, python: str, environ: Mapping[str, str], bytecode: str) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(_PATIENCE)
        self._socket = ours
        self._answers = ours.makefile("rb")
        self._stamps: dict[str, int] | None = None
        own = {name: text for name, text in os.environ.items() if not _is_of_a_process(name)}
        with theirs:
            self._process = subprocess.Popen(
                [python, _LAUNCHER, str(theirs.fileno()), bytecode],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={
                    **own,
                    "PYTHONUNBUFFERED": "1",
                    **environ,
                    DETACHED: "1",
                    MARKER: "x" * MARKER_ROOM,
                },
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                # This umask is for the supervisor's files. The user's process gets its author's
                # umask.
                umask=0o077,
            )

    @property
    def is_good(self) -> bool:
        """Whether the launcher runs and the installed packages have not changed since its start."""
        if self._process.poll() is not None:
            return False
        return self._stamps is None or self._stamps == _stamps(self._stamps)

    def fork(self, attempt: Path) -> int | None:
        """Return the pid of a new supervisor, or None if the launcher is not ready yet."""
        if self._stamps is None:
            if not select.select([self._socket], [], [], 0)[0]:
                return None
            self._stamps = _stamps(self._hear()["folders"])
        self._socket.sendall(json.dumps({"attempt": str(attempt)}).encode() + b"\n")
        return int(self._hear()["pid"])

    def close(self) -> None:
        """Close the socket, so that the launcher exits."""
        self._answers.close()
        self._socket.close()
        try:
            self._process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """Kill a launcher that does not respond, so that other attempts do not wait for it."""
        self._process.kill()
        self.close()

    def _hear(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            raise ValueError("it has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _is_read_at_start(name: str) -> bool:
    return name in _READ_AT_START_NAMES or name.startswith(_READ_AT_START)


def _is_of_a_process(name: str) -> bool:
    """Return whether a variable is process-specific, so that a launcher must not inherit it."""
    return name.startswith("WINDLASS_") or _is_read_at_start(name)


def _stamps(folders: Iterable[str]) -> dict[str, int]:
    """Return the modification time of each folder.

    A folder's time changes when a package is installed or removed there.
    """
    stamps = {}
    for folder in folders:
        try:
            stamps[folder] = os.stat(folder).st_mtime_ns
        except OSError:
            stamps[folder] = 0
    return stamps
