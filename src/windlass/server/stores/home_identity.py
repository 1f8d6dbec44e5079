"""The identity of a home: an id, the inode of its directory, and a token.

The server must recognize a copied home, because the copy contains the same trials, the same token
and the same process ids. A server that continued the copied trials would kill the original's
processes or run the trials twice. `home.json` therefore records the inode and the device of the
directory. A renamed directory keeps both, but a copy has a new inode.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from pathlib import Path
from typing import NamedTuple

import msgspec

from windlass.home import Home
from windlass.model.thread_safe_types import learned
from windlass.worker.common.atomic_files import set_irregular_aside, write_json
from windlass.worker.common.file_reads import exists, read_json
from windlass.worker.common.token_file import read_token

_log = logging.getLogger("windlass")


class Directory(msgspec.Struct, frozen=True):
    """A directory's inode and device, and the inodes of some files in it."""

    inode: int
    device: int
    files: tuple[int, ...]  # the inodes of files that are normally never replaced

    def is_same(self, seen: Directory) -> bool:
        """Return whether two records describe the same directory.

        A device may get a new number when the machine restarts or a volume is attached again. In
        that case, the inodes of the files decide.

        >>> before = Directory(2, 64, (7, 8))
        >>> before.is_same(Directory(2, 65, (7, 8)))  # attached again
        True
        >>> before.is_same(Directory(2, 64, (7, 9)))  # a new token
        True
        >>> before.is_same(Directory(2, 65, (8, 7)))  # a copy on another disk
        False
        >>> before.is_same(Directory(3, 64, (9, 10)))  # a copy
        False
        """
        return self.inode == seen.inode and (self.device == seen.device or self.files == seen.files)


class _Record(msgspec.Struct, frozen=True):
    """The schema of `home.json`."""

    id: str
    path: str
    directory: Directory


class HomeIdentity(NamedTuple):
    """A home's id. For a copied home, `original` is the path of the original home."""

    id: str
    original: str | None = None

    @property
    def is_copy(self) -> bool:
        return self.original is not None


def identify(home: Home) -> HomeIdentity:
    """Return a home's identity, recording it on first use. The caller must hold `server.lock`."""
    own_token(home)
    if not exists(home.identity_file):
        return HomeIdentity(_record(home, secrets.token_hex(8)))
    try:
        record = msgspec.convert(read_json(str(home.identity_file)), learned(_Record))
    except msgspec.ValidationError:
        return HomeIdentity(secrets.token_hex(8), "an unknown directory")
    if not record.directory.is_same(_look_at(home)):
        return HomeIdentity(secrets.token_hex(8), record.path)  # a new id that no attempt has
    if record != _Record(record.id, os.path.realpath(home.path), _look_at(home)):
        # The home was moved. If the disk is full, a later server start updates the record.
        with contextlib.suppress(OSError):
            _record(home, record.id)
    return HomeIdentity(record.id)


def make_own(home: Home) -> None:
    """Make a copied home independent by giving it a new id and a new token.

    The pods of a copied job belong to the original home, so the copy forgets them.
    """
    pods = home.path / "pods"
    if exists(pods):
        os.rename(pods, _unused(home.path / "pods.of-the-original"))
    home.token.unlink(missing_ok=True)
    own_token(home)
    _record(home, secrets.token_hex(8))


def own_token(home: Home) -> str:
    """Return the home's token. On first use, create it so that only the owner can read it."""
    set_irregular_aside(str(home.token))
    try:
        if token := read_token(str(home.token)):
            return token
    except ValueError as error:
        _log.warning("%s is replaced: %s", home.token, error)
        os.replace(home.token, f"{home.token}.damaged")
    token = secrets.token_urlsafe(32)
    temporary = home.token.with_name(".token")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, home.token)
    return token


def _record(home: Home, home_id: str) -> str:
    record = _Record(home_id, os.path.realpath(home.path), _look_at(home))
    write_json(str(home.identity_file), msgspec.to_builtins(record), durable=True)
    return home_id


def _look_at(home: Home) -> Directory:
    status = os.stat(home.path)
    files = tuple(os.stat(path).st_ino for path in (home.server_lock, home.token))
    return Directory(status.st_ino, status.st_dev, files)


def _unused(path: Path) -> Path:
    number, name = 1, path.name
    while exists(path):
        path = path.with_name(f"{name}-{number}")
        number += 1
    return path
