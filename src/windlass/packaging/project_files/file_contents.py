"""Reads new and changed files for a snapshot and stores their digests in a table."""

from __future__ import annotations

import hashlib
import os
import stat

from windlass.model.errors import SnapshotError
from windlass.packaging.manifest import is_outside_link, link_stays_inside
from windlass.packaging.project_files.ignore import quote_path
from windlass.packaging.project_files.limits import printable
from windlass.packaging.project_files.listing_freshness import is_recent
from windlass.packaging.project_files.stat_cache import UNTRUSTED, StatTable

_TRIES = 5
_CHUNK = 1024 * 1024
# The maximum number of bytes to hold in memory for the upload.
_HELD_LIMIT = 64_000_000
_SHOWN = 10
_LARGE_TARGET = 10_000_000  # bytes; a link to a smaller file outside the tree becomes a file


class Reader:
    """Stores files' digests in a table, and collects the files that could not be read."""

    def __init__(self, root: str, *, looked: int, hold: bool) -> None:
        self.held: dict[str, bytes] = {}
        self._faults: list[tuple[str, str]] = []
        self._root = root
        self._real = os.path.realpath(root)
        self._prefix = os.path.join(root, "")
        self._looked = looked
        self._hold = hold
        self._held_size = 0

    def read(self, table: StatTable, row: int, status: os.stat_result) -> bool:
        """Read one file or link, and store its digest in a row of the table.

        Return False if the file or link does not belong in a snapshot.
        """
        table.links.pop(row, None)
        if stat.S_ISREG(status.st_mode):
            return self._read_file(table, row, os.O_NOFOLLOW)
        if stat.S_ISLNK(status.st_mode):
            return self._read_link(table, row, status)
        return False

    def fail(self, path: str, error: OSError) -> None:
        """Record that a file of the snapshot cannot be read."""
        self._faults.append((path, error.strerror or type(error).__name__))

    def check(self) -> None:
        """Raise one error that lists all files that could not be read."""
        if not self._faults:
            return
        faults = sorted(self._faults)
        lines = [f"  {printable(quote_path(path))}" for path, _ in faults[:_SHOWN]]
        advice = "Make it readable (chmod u+r), or ignore it with a line in .windlassignore:"
        if len(faults) == 1:
            path, why = faults[0]
            raise SnapshotError(
                f"{printable(path)} in {self._root} cannot be packaged: {why}.",
                hint="\n".join([advice, *lines]),
            )
        shown = [f"{printable(path)}: {why}" for path, why in faults[:_SHOWN]]
        if len(faults) > _SHOWN:
            shown.append(f"and {len(faults) - _SHOWN} more")
        raise SnapshotError(
            f"{len(faults)} files in {self._root} cannot be packaged:",
            hint="\n".join([*shown, advice, *lines]),
        )

    def _read_file(self, table: StatTable, row: int, flags: int) -> bool:
        try:
            digest, size, status, data = read_file(table.paths[row], flags, self._hold)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self.fail(table.path(row), error)
            return True
        if status is None:
            return False
        is_settled = data is None or self._hold
        if data is not None and (not is_settled or self._held_size + size <= _HELD_LIMIT):
            self.held[digest.hex()] = data
            self._held_size += size
        table.digests[32 * row : 32 * row + 32] = digest
        table.sizes[row] = size
        # A link to a file outside the tree is read every time, because the link's times do not
        # reveal changes to that file.
        is_trusted = is_settled and bool(flags) and size == status.st_size
        self._note(table, row, status, is_trusted)
        return True

    def _read_link(self, table: StatTable, row: int, status: os.stat_result) -> bool:
        path, full = table.path(row), table.paths[row]
        try:
            target = os.readlink(full)
        except OSError:
            return False
        inside = self._inside(path, target)
        if inside is None:
            if not _is_kept_outside(full):
                # A link to a file outside the tree is packaged as a file. A dangling link is left
                # out.
                return os.path.isfile(full) and self._read_file(table, row, 0)
            inside = self._outside(path, target)
            if inside == "/":
                self._faults.append((path, "it is a link to the root of the file system"))
                return True
        table.links[row] = inside
        table.digests[32 * row : 32 * row + 32] = bytes(32)
        table.sizes[row] = status.st_size
        self._note(table, row, status, True)
        return True

    def _note(self, table: StatTable, row: int, status: os.stat_result, is_trusted: bool) -> None:
        table.modes[row] = status.st_mode
        table.inodes[row] = status.st_ino
        recent = is_recent(status.st_mtime_ns, status.st_ctime_ns, self._looked)
        is_certain = is_trusted and not recent
        table.modified[row] = status.st_mtime_ns if is_certain else UNTRUSTED
        table.changed[row] = status.st_ctime_ns if is_certain else UNTRUSTED

    def _outside(self, path: str, target: str) -> str:
        """Return the absolute target of a link that leads outside the tree."""
        plain = os.path.normpath(target)
        if is_outside_link(plain) and ".." not in target.split("/"):
            return plain
        return os.path.realpath(os.path.join(self._real, os.path.dirname(path), target))

    def _inside(self, path: str, target: str) -> str | None:
        """Return a symbolic link's target as a relative path, or None if it is outside the tree."""
        if link_stays_inside(path, target):
            return target
        folder = os.path.dirname(path)
        pointed = os.path.normpath(os.path.join(self._prefix, folder, target))
        resolved = os.path.realpath(os.path.join(self._real, folder, target))
        candidates = [(self._root, pointed), (self._real, pointed), (self._real, resolved)]
        if "/../" in f"/{target}/".lstrip("./"):
            candidates = candidates[2:]  # the name before a `..` may itself be a link
        for base, candidate in candidates:
            if candidate == base or candidate.startswith(base.rstrip("/") + "/"):
                relative = os.path.relpath(candidate, os.path.join(base, folder))
                return relative if link_stays_inside(path, relative) else None
        return None


def _is_kept_outside(link: str) -> bool:
    """Return whether a link out of the tree stays a link.

    A link to a folder or a large file stays a link.
    """
    try:
        status = os.stat(link)
    except OSError:
        return False
    is_large = stat.S_ISREG(status.st_mode) and status.st_size > _LARGE_TARGET
    return stat.S_ISDIR(status.st_mode) or is_large


def read_file(
    path: str, flags: int, hold: bool
) -> tuple[bytes, int, os.stat_result | None, bytes | None]:
    """Return a file's sha256, size and status, and its bytes if necessary.

    The bytes are returned if `hold` is True. A file that changes while being read is read again. If
    it keeps changing, the bytes from the last read are returned as well, so that the upload matches
    the digest.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     digest, size, found, data = read_file(file.name, 0, hold=False)
    >>> digest.hex()[:12], size, data
    ('e3b0c44298fc', 0, None)
    """
    for attempt in range(_TRIES):
        keep = hold or attempt == _TRIES - 1
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                return b"", 0, None, None
            kept = os.read(descriptor, min(before.st_size + 1, _CHUNK))
            if len(kept) == before.st_size:
                digest, size = hashlib.sha256(kept).digest(), len(kept)
            else:
                digest, size, kept = _read_on(descriptor, kept, keep)
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if (
            size == after.st_size == before.st_size
            and before.st_mtime_ns == after.st_mtime_ns
            and before.st_ctime_ns == after.st_ctime_ns
        ):
            return digest, size, after, kept if hold else None
    return digest, size, after, kept


def _read_on(descriptor: int, data: bytes, keep: bool) -> tuple[bytes, int, bytes]:
    summed = hashlib.sha256()
    parts = []
    size = 0
    while data:
        summed.update(data)
        size += len(data)
        if keep:
            parts.append(data)
        data = os.read(descriptor, _CHUNK)
    return summed.digest(), size, b"".join(parts)
