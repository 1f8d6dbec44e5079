"""Atomic writes of small files that other processes read, and file locks."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import sys
import time
from _thread import get_ident  # unlike `threading`, `_thread` is fast to import

from windlass.worker.common.file_reads import exists, is_folder, list_folder, retried

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_WAIT_FOR_SPACE = 120.0
_MORE_FILES = 8  # more than any write needs


def write_json(path: str, value: object, *, durable: bool = False) -> None:
    """Write a JSON file atomically, accessible only to its owner.

    `durable` makes the file survive a power failure. Use it for files that are written once and
    never verified.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "state.json")
    >>> write_json(path, {"stage": "running"})
    >>> open(path).read()
    '{"stage": "running"}'
    """
    write_bytes(path, json.dumps(value).encode(), durable=durable)


def write_bytes(path: str, content: bytes, *, durable: bool = False) -> None:
    """Write a file atomically, accessible only to its owner."""
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


def make_folder(path: str, mode: int = 0o777) -> None:
    """Create a folder and its parents, unless the folder exists.

    `os.makedirs` would raise an error for an existing folder whose status cannot be read.
    """
    try:
        os.makedirs(path, mode)
    except FileExistsError:
        if not is_folder(path):
            raise


def write_all(fd: int, data: bytes | memoryview) -> int:
    """Write all bytes, in as many calls as necessary. Return the number of bytes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return len(data)


def write_json_once(path: str, value: object) -> bool:
    """Write a durable JSON file unless it exists. Return whether it was written.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "exit.json")
    >>> write_json_once(path, {"exit_code": 0}), write_json_once(path, {"exit_code": 1})
    (True, False)
    >>> open(path).read()
    '{"exit_code": 0}'
    """
    aside = f"{path}.{os.getpid()}-{get_ident()}.once"
    write_json(aside, value, durable=True)
    try:
        os.link(aside, path)
    except FileExistsError:
        return False
    except OSError:  # the file system does not support links
        if exists(path):
            return False
        os.replace(aside, path)
    finally:
        remove_if_there(aside)
    return True


def set_irregular_aside(path: str) -> None:
    """Rename a pipe, link or folder that is in the place of a Windlass file.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "server.log")
    >>> os.mkfifo(path)
    >>> set_irregular_aside(path)
    >>> os.listdir(os.path.dirname(path))
    ['server.log.set-aside']
    """
    try:
        is_regular = stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_regular:
        aside = f"{path}.set-aside"
        if os.path.lexists(aside):
            aside = f"{aside}-{os.urandom(4).hex()}"
        os.rename(path, aside)


def remove_unfinished(folder: str) -> None:
    """Delete temporary files that killed processes left in a folder.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for name in ("state.json", "state.json.999999999-1.tmp", "exit.json.999999999-1.once"):
    ...     open(os.path.join(folder, name), "w").close()
    >>> remove_unfinished(folder)
    >>> os.listdir(folder)
    ['state.json']
    """
    for name in list_folder(folder):
        if name.endswith((".tmp", ".once")):
            writers = [part.partition("-")[0] for part in name.split(".") if "-" in part]
            if not any(writer.isdecimal() and _exists(int(writer)) for writer in writers):
                remove_if_there(os.path.join(folder, name))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def remove_if_there(path: str) -> None:
    """Delete a file if it exists."""
    try:
        os.unlink(path)
    except OSError:
        pass


def retry_write(write: Callable[[], object], what: str) -> None:
    """Call `write`, retrying while the disk is full and after temporary errors.

    A single failure must not prevent the write, because days of work may depend on it.
    """
    give_up = time.monotonic() + _WAIT_FOR_SPACE
    pause = 0.05
    while True:
        try:
            retried(lambda: _allow_more_files(write))
            return
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or time.monotonic() > give_up:
                raise
        if pause < 0.1:
            sys.stderr.write(f"windlass: no space left for {what}; waiting for space\n")
        time.sleep(pause)  # nothing announces free disk space
        pause = min(pause * 2, 1.0)


def _allow_more_files(write: Callable[[], object]) -> None:
    """Call `write`. If this process has too many open files, raise its soft limit and try again."""
    try:
        write()
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        more = soft + _MORE_FILES
        resource.setrlimit(
            resource.RLIMIT_NOFILE,
            (more if hard == resource.RLIM_INFINITY else min(more, hard), hard),
        )
        write()


def take_lock(path: str) -> int | None:
    """Lock a file with `flock` and return its descriptor.

    Return None if another process holds the lock.

    The lock is held until the descriptor is closed.

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
    """Return whether a process holds the lock on a file.

    The check takes the lock for an instant, so a process that needs it must retry.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        # the file is missing, a link or a socket
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return False
        raise
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return True
        raise
    finally:
        os.close(fd)
    return False
