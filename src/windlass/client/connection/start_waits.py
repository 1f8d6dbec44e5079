"""Waits until a server has started. A long wait prints a notice, and eventually fails."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import threading
import time
from pathlib import Path

from windlass.client.connection.wait_reports import first_report_after, report_wait
from windlass.model.errors import ServerError
from windlass.worker.common.lock_holder import describe_process, find_holder

PATIENCE = 60.0  # seconds until the wait fails


def take_start_lock(path: Path) -> int:
    """Acquire the lock for starting a server and return the lock file's descriptor.

    Only the client that holds this lock can start the server.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _wait_for_lock(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_start_report(reader: int, server: int, log: Path) -> bytes:
    """Read a starting server's report from a pipe until the server closes the pipe."""
    began, notice = time.monotonic(), min(first_report_after(), PATIENCE)
    limit, report = notice, b""
    pipe = select.poll()
    pipe.register(reader, select.POLLIN)
    while True:
        if pipe.poll(max(began + limit - time.monotonic(), 0) * 1000):
            if not (piece := os.read(reader, 65536)):
                return report
            report += piece
        elif limit < PATIENCE:
            report_wait(f"Waiting for the server (process {server}) to be ready. Its log: {log}")
            limit = PATIENCE
        else:
            raise ServerError(
                f"The server (process {server}) is not ready after {PATIENCE:g} seconds.",
                hint=f"If it upgrades a large database, try again later. See its log: {log}\n"
                f"If it is stuck, kill it (running trials continue): kill -KILL {server}",
            )


def _wait_for_lock(fd: int, path: Path) -> None:
    """Wait until another process unlocks a file.

    `flock` has no timeout, and signals can only interrupt the main thread. A thread therefore waits
    for the lock, and closes the file if it gets the lock too late.
    """
    guard, locked = threading.Lock(), threading.Event()
    is_given_up = False

    def wait() -> None:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        with guard:
            locked.set()
            if is_given_up:
                os.close(fd)

    threading.Thread(target=wait, name="windlass-start-lock", daemon=True).start()
    notice = min(first_report_after(), PATIENCE)
    try:
        if locked.wait(notice):
            return
        holder = describe_process(find_holder(path))
        report_wait(f"Waiting for {holder}, which holds {path} while it starts the server.")
        if locked.wait(PATIENCE - notice):
            return
        raise _too_long(path)
    except BaseException:
        with guard:
            is_given_up = True
            if locked.is_set():
                os.close(fd)
        raise


def _too_long(path: Path) -> ServerError:
    pid = find_holder(path)
    how = f"kill {pid}" if pid else f"lsof {path}"
    return ServerError(
        f"The server cannot be started: for {PATIENCE:g} seconds, {describe_process(pid)} has held "
        f"{path}, the lock of its start.",
        hint=f"If that process does not continue, end it: {how}\nCheck the setup: windlass doctor",
    )
