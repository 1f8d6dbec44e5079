"""Functions that read files and tell missing, damaged and unreadable files apart.

A missing or damaged file is a fact about a trial. An unreadable file is not: the process may have
run out of descriptors, or the disk may have failed for an instant. These functions return a value
in the first two cases and raise `OSError` in the third, so that no caller records a temporary error
as a fact.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

SMALL_FILE = 64 << 20  # bytes; Windlass writes no larger files of this kind

_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_NOT_A_FILE = (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENODEV)
_PASSING = (
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EIO,
    errno.EACCES,
    errno.EAGAIN,
    errno.ENOBUFS,
    errno.ESTALE,
)
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 1.0
_ENDED = (errno.ENOENT, errno.ESRCH)


def read_json(
    path: str, limit: int = SMALL_FILE, *, follow_links: bool = False
) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None if the file is missing or contains no object.

    >>> read_json("/nowhere/state.json") is None
    True
    """
    data = read_file(path, limit, follow_links=follow_links)
    if data is None:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_file(path: str, limit: int = SMALL_FILE, *, follow_links: bool = False) -> bytes | None:
    """Return a regular file's content, or None if it is missing, too large or irregular.

    Links are not followed by default.

    >>> read_file("/dev/zero") is None, read_file("/proc") is None
    (True, True)
    """
    fd = _open(path, follow_links=follow_links)
    if fd is None:
        return None
    try:
        size = os.fstat(fd).st_size
        if size > limit:
            return None
        pieces = []
        while piece := os.read(fd, max(size, 4096)):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def read_part(path: str, start: int, size: int) -> bytes:
    """Return part of a regular file, or b"" if the file is missing or irregular."""
    fd = _open(path)
    if fd is None:
        return b""
    try:
        return os.pread(fd, size, start)
    finally:
        os.close(fd)


def regular_only(path: str, flags: int) -> int:
    """Open only a regular file, as in `open(path, opener=regular_only)`.

    All other kinds count as missing, because a pipe would block the program and a link can lead
    anywhere.
    """
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            raise FileNotFoundError(errno.ENOENT, "not a regular file", path) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(errno.ENOENT, "not a regular file", path)
    return fd


def exists(path: str | os.PathLike[str]) -> bool:
    """Return whether a path exists. Raise `OSError` if this cannot be determined.

    >>> exists("/proc"), exists("/nowhere")
    (True, False)
    """
    return _status(path) is not None


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder."""
    status = _status(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def is_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a regular file itself, not a link to one."""
    status = _status(path, follow_symlinks=False)
    return status is not None and stat.S_ISREG(status.st_mode)


def file_size(path: str | os.PathLike[str]) -> int:
    """Return the size of a file, or 0 if the file is missing."""
    status = _status(path)
    return 0 if status is None else status.st_size


def list_folder(path: str | os.PathLike[str]) -> list[str]:
    """Return the names in a folder, or an empty list if the folder is missing."""
    try:
        return os.listdir(path)
    except OSError as error:
        if error.errno in _ABSENT:
            return []
        raise


def read_process_file(pid: int | str, name: str) -> bytes | None:
    """Return a file in a process's folder below /proc, or None if the process has ended."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError as error:
        if error.errno in _ENDED:
            return None
        raise


def retried(read: Callable[[], T], seconds: float = 60.0) -> T:
    """Call `read`, retrying for up to `seconds` after temporary errors.

    >>> errors = [OSError(errno.EMFILE, "no descriptor"), OSError(errno.EIO, "disk")]
    >>> def read() -> str:
    ...     if errors:
    ...         raise errors.pop()
    ...     return "content"
    >>> retried(read)
    'content'
    """
    give_up = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while True:
        try:
            return read()
        except OSError as error:
            if not may_pass(error) or time.monotonic() + pause > give_up:
                raise
        # nothing announces a free descriptor or a recovered disk
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def may_pass(error: BaseException) -> bool:
    """Return whether an error may be temporary, so that a retry could succeed.

    >>> may_pass(OSError(errno.EMFILE, "")), may_pass(FileNotFoundError(errno.ENOENT, ""))
    (True, False)
    """
    return isinstance(error, OSError) and error.errno in _PASSING


def _open(path: str, *, follow_links: bool = False) -> int | None:
    """Open a regular file for reading. Return None if the path is missing or irregular."""
    # Without O_NONBLOCK, opening a pipe in the file's place would block forever.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        fd = os.open(path, flags if follow_links else flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (*_ABSENT, *_NOT_A_FILE):
            return None
        raise
    try:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    if not is_file:
        os.close(fd)
        return None
    return fd


def _status(path: str | os.PathLike[str], *, follow_symlinks: bool = True) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=follow_symlinks)
    except OSError as error:
        if error.errno in (*_ABSENT, errno.ELOOP):
            return None
        raise
