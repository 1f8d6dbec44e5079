"""Atomic writes of small files that other processes read, and file locks."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import time
from _thread import get_ident  # all that is needed of `threading`

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WAIT_FOR_SPACE = 120.0


def write_json(path: str, value: object, *, durable: bool = False) -> None:
    """Write a JSON file, owner-only, that readers see whole or not at all.

    `durable` makes sure that it survives a loss of power, for what is written once
    and believed for ever.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "state.json")
    >>> write_json(path, {"stage": "running"})
    >>> read_json(path)
    {'stage': 'running'}
    """
    write_bytes(path, json.dumps(value).encode(), durable=durable)


def write_bytes(path: str, content: bytes, *, durable: bool = False) -> None:
    """Write a file, owner-only, that readers see whole or not at all."""
    temporary = f"{path}.{os.getpid()}-{get_ident()}.tmp"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, content)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except OSError:
        remove_if_there(temporary)
        raise


def write_all(fd: int, data: bytes | memoryview) -> int:
    """Write all of it, however little goes at once; how many bytes that were."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return len(data)


def write_json_once(path: str, value: object) -> bool:
    """Write a JSON file that is believed for ever, unless there is one; whether it was written.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "exit.json")
    >>> write_json_once(path, {"exit_code": 0}), write_json_once(path, {"exit_code": 1})
    (True, False)
    >>> read_json(path)
    {'exit_code': 0}
    """
    aside = f"{path}.{os.getpid()}-{get_ident()}.once"
    write_json(aside, value, durable=True)
    try:
        os.link(aside, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if os.path.exists(path):
            return False
        os.replace(aside, path)
    finally:
        remove_if_there(aside)
    return True


def read_json(path: str) -> dict[str, Any] | None:
    """The object in a JSON file; none if there is no such file, or it holds no object.

    >>> read_json("/nowhere/state.json") is None
    True
    """
    try:
        # A pipe that lies in its place would be waited for, for ever.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            value = json.loads(file.read())
    except (OSError, ValueError, RecursionError, TypeError):
        return None
    return value if isinstance(value, dict) else None


def remove_if_there(path: str) -> None:
    """Unlink a file that may be gone already."""
    try:
        os.unlink(path)
    except OSError:
        pass


def when_there_is_space(write: Callable[[], object], what: str) -> None:
    """Write something; if the disk is full, wait for space: it may be the work of days."""
    give_up = time.monotonic() + _WAIT_FOR_SPACE
    pause = 0.05
    while True:
        try:
            write()
            return
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or time.monotonic() > give_up:
                raise
        if pause < 0.1:
            sys.stderr.write(f"windlass: no space left for {what}; waiting for some\n")
        time.sleep(pause)  # nothing tells of space on a disk
        pause = min(pause * 2, 1.0)


def take_lock(path: str) -> int | None:
    """The descriptor that holds the lock (flock) on a file, or none if another holds it.

    The lock is held until the descriptor is closed, by whatever means.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "lock")
    >>> mine = take_lock(path)
    >>> take_lock(path) is None, is_locked(path)
    (True, True)
    >>> os.close(mine)
    >>> is_locked(path)
    False
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    return fd


def is_locked(path: str) -> bool:
    """Whether some process holds the lock on a file.

    Looking takes the lock for an instant: who wants it in earnest tries more than once.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return True
        raise
    finally:
        os.close(fd)
    return False
