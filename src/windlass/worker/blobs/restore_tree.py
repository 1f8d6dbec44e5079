"""Restores a trial's code to its work directory and removes it afterwards.

This module never writes through a link, because it opens every directory without following links.
Neither a manifest nor an earlier attempt can therefore cause a write outside of the work directory.
"""

from __future__ import annotations

import json
import os
import stat

from windlass.worker.blobs.digest import is_digest, kind_of
from windlass.worker.blobs.manifest import check_of
from windlass.worker.blobs.verified_reads import (
    DamagedBlob,
    check_bytes,
    check_file,
    open_blob,
    read_whole,
    was_damaged,
)
from windlass.worker.common.atomic_files import make_folder, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# The modification time of all restored files, which marks them as unchanged.
RESTORED = 1_577_836_800 * 10**9
_SMALL = 256 * 1024
_LARGEST_IN_BUNDLE = 1 << 20  # bytes in a bundled file, which a reader holds in memory
_FARTHEST_IN_BUNDLE = 1 << 30  # bytes; the largest offset of a file in a bundle
_AT_ONCE = 1 << 30
_FICLONE = 0x40049409  # of linux/fs.h
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class RestoreError(Exception):
    """Raised if a trial's code cannot be restored. The message contains the reason."""


class Entry:
    """One file or link in a tree. `content` is a digest or the link's target.

    If `check` is set, the digest names a bundle that contains the file at `offset` (see
    `manifest.py`).
    """

    __slots__ = ("check", "content", "mode", "name", "offset", "size")

    def __init__(
        self, name: bytes, mode: str, content: str, size: int, offset: int = 0, check: str = ""
    ) -> None:
        self.name = name
        self.mode = mode
        self.content = content
        self.size = size
        self.offset = offset
        self.check = check


class Tree:
    """A validated manifest, with entries grouped by directory. Parents come first."""

    def __init__(self, folders: dict[bytes, list[Entry]]) -> None:
        self.folders = folders

    def __len__(self) -> int:
        return sum(map(len, self.folders.values()))

    def outside_links(self) -> list[tuple[str, str]]:
        """Return the paths and targets of links that lead outside the tree."""
        return [
            (os.fsdecode(folder + b"/" + entry.name if folder else entry.name), entry.content)
            for folder, entries in self.folders.items()
            for entry in entries
            if entry.mode == "l" and entry.content.startswith("/")
        ]


def read_tree(manifest: bytes, *, outside_links: bool = False) -> Tree:
    """Parse a manifest. Raise `RestoreError` if an entry could lead outside the root.

    With `outside_links`, links to absolute paths are accepted. They are restored as links, and
    nothing in this module follows them.

    >>> tree = read_tree(b'{"files":[["src/a.py","f","%s",3]],"version":1}' % (b"0" * 64))
    >>> list(tree.folders)
    [b'', b'src']
    >>> read_tree(b'{"files":[["../a.py","f","%s",3]],"version":1}' % (b"0" * 64))
    Traceback (most recent call last):
    ...
    windlass.worker.blobs.restore_tree.RestoreError: '../a.py' is not a path inside a tree
    """
    try:
        listed = json.loads(manifest)["files"]
        folders: dict[bytes, list[Entry]] = {b"": []}
        for path, mode, content, size, *where in listed:
            if type(path) is not str or type(size) is not int or size < 0:
                raise RestoreError(f"{path!r} is listed with the size {size!r}")
            if where and not _is_in_bundle(mode, size, *where):
                raise RestoreError(f"{path!r} is listed with the offset {where!r} in a bundle")
            folder, name = _split(path)
            if (mode, content, size) == ("d", "", 0):  # an empty folder
                _add_folder(folders, folder + b"/" + name if folder else name)
                continue
            if mode == "l":
                if type(content) is not str or not (
                    _stays_inside(path, content) or (outside_links and _is_outside_link(content))
                ):
                    raise RestoreError(f"the link {path!r} to {content!r} leaves the tree")
            elif mode not in ("f", "x") or not is_digest(content):
                raise RestoreError(f"{path!r} is listed with {mode!r} and {content!r}")
            if folder not in folders:
                _add_folder(folders, folder)
            folders[folder].append(Entry(name, mode, content, size, *where))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RestoreError(f"the list of files cannot be read: {error}") from error
    _refuse_files_as_folders(folders)
    return Tree(dict(sorted(folders.items())))


def restore(
    tree: Tree,
    work: str,
    blobs: str,
    is_stopped: Callable[[], bool] = lambda: False,
    *,
    stamped: bool = True,
) -> None:
    """Write a tree to the work directory, replacing existing files.

    Files get a fixed modification time, which marks them as unchanged, unless `stamped` is false.
    """
    make_folder(work)
    root = os.open(os.fsencode(work), _DIRECTORY)
    bundles = _Bundles(blobs)
    try:
        for folder, entries in tree.folders.items():
            if is_stopped():
                return
            fd = open_folder(root, folder)
            try:
                for entry in entries:
                    _write_entry(fd, entry, bundles, stamped)
            finally:
                os.close(fd)
    finally:
        bundles.close()
        os.close(root)


def clean(tree: Tree, work: str) -> None:
    """Remove a tree from the work directory, except files that were changed or added."""
    try:
        root = os.open(os.fsencode(work), _DIRECTORY)
    except OSError:
        return
    try:
        for folder in reversed(list(tree.folders)):
            try:
                fd = _open_existing(root, folder)
            except OSError:
                continue
            try:
                _clean_folder(fd, tree.folders[folder])
            finally:
                os.close(fd)
            if folder:
                _remove_folder(root, folder)
    finally:
        os.close(root)


def open_folder(root: int, folder: bytes, *, replacing: bool = True) -> int:
    """Open a directory under `root` without following links, creating it if necessary.

    If another kind of file is in its place, replace that file if `replacing`, or else raise
    `OSError`.
    """
    fd = os.dup(root)
    for name in folder.split(b"/") if folder else ():
        try:
            try:
                inner = os.open(name, _DIRECTORY, dir_fd=fd)
            except OSError:
                if replacing:
                    _remove(fd, name)
                os.mkdir(name, dir_fd=fd)
                inner = os.open(name, _DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


class _Bundles:
    """Reads files from bundles.

    The bundle that was used most recently stays open, because the next file is often in the same
    bundle.
    """

    def __init__(self, blobs: str) -> None:
        self._blobs = blobs
        self._digest = ""
        self._fd = -1

    def copy(self, entry: Entry, target: int) -> None:
        """Copy a file from its bundle to the descriptor `target`, and verify the content."""
        try:
            if entry.check:
                self._copy_part(entry, target)
            else:
                self._copy_whole(entry, target)
        except DamagedBlob:
            raise _damaged(entry) from None
        except FileNotFoundError:
            if was_damaged(self._blobs, entry.content):
                raise _damaged(entry) from None
            reason = f"the content of {_shown(entry)} is missing from the store"
            raise RestoreError(reason) from None

    def _copy_whole(self, entry: Entry, target: int) -> None:
        source = open_blob(self._blobs, entry.content)
        try:
            # find out whether the bundle or the manifest is wrong
            if os.fstat(source).st_size != entry.size:
                check_file(self._blobs, entry.content, source, again=True)
                raise _contradicted(entry)
            if entry.size <= _SMALL:
                data = read_whole(source, entry.size)
                check_bytes(self._blobs, entry.content, data, source)
                write_all(target, data)
            else:
                check_file(self._blobs, entry.content, source)
                _copy_blob(source, target)
        finally:
            os.close(source)

    def _copy_part(self, entry: Entry, target: int) -> None:
        if entry.content != self._digest:
            fd = open_blob(self._blobs, entry.content)
            self.close()
            self._digest, self._fd = entry.content, fd
        data = os.pread(self._fd, entry.size, entry.offset)
        if len(data) != entry.size or not _is_intact_part(entry, data):
            check_file(self._blobs, entry.content, self._fd, again=True)
            raise _contradicted(entry)
        write_all(target, data)

    def close(self) -> None:
        if self._digest:
            self._digest = ""
            os.close(self._fd)


def _write_entry(folder: int, entry: Entry, bundles: _Bundles, stamped: bool) -> None:
    if entry.mode == "l":
        target = entry.content.encode("utf-8", "surrogateescape")
        try:
            os.symlink(target, entry.name, dir_fd=folder)
        except FileExistsError:
            _remove(folder, entry.name)
            os.symlink(target, entry.name, dir_fd=folder)
        return
    permissions = 0o777 if entry.mode == "x" else 0o666
    try:
        target_fd = os.open(entry.name, _NEW_FILE, permissions, dir_fd=folder)
    except FileExistsError:
        _remove(folder, entry.name)
        target_fd = os.open(entry.name, _NEW_FILE, permissions, dir_fd=folder)
    try:
        if entry.size:
            bundles.copy(entry, target_fd)
        if stamped:
            os.utime(target_fd, ns=(RESTORED, RESTORED))
    finally:
        os.close(target_fd)


def _damaged(entry: Entry) -> RestoreError:
    return RestoreError(f"the content of {_shown(entry)} is damaged in the store and was set aside")


def _contradicted(entry: Entry) -> RestoreError:
    return RestoreError(f"the content of {_shown(entry)} contradicts the list of files")


def _shown(entry: Entry) -> str:
    return repr(os.fsdecode(entry.name))


def _is_intact_part(entry: Entry, data: bytes) -> bool:
    """Return whether data from a bundle matches the beginning of the file's digest."""
    try:
        return check_of(kind_of(entry.content).digest_of(data)) == entry.check
    except ImportError:  # the package may be missing in the trial's environment
        return True


def _copy_blob(source: int, target: int) -> None:
    """Copy the content of a blob to a file. Both are open descriptors."""
    _copy_in_kernel(source, target)
    while chunk := os.read(source, _SMALL):
        write_all(target, chunk)


def _copy_in_kernel(source: int, target: int) -> None:
    """Copy as much of a blob to a file as the kernel can copy without this process.

    On some file systems, both then share their disk blocks.
    """
    import fcntl

    try:
        fcntl.ioctl(target, _FICLONE, source)
        os.lseek(source, 0, os.SEEK_END)
        return
    except OSError:
        pass  # most file systems cannot share blocks
    try:
        while os.copy_file_range(source, target, _AT_ONCE):
            pass
    except (OSError, AttributeError):
        pass  # the caller copies the remaining bytes


def _clean_folder(folder: int, entries: Iterable[Entry]) -> None:
    for entry in entries:
        _clean_entry(folder, entry)
    # Delete the sources' compiled bytecode as well.
    if any(entry.name.endswith(b".py") for entry in entries):
        _remove(folder, b"__pycache__")


def _clean_entry(folder: int, entry: Entry) -> None:
    try:
        status = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
        if _is_unchanged(folder, entry, status):
            os.unlink(entry.name, dir_fd=folder)
    except OSError:
        pass  # the user's process already removed it


def _is_unchanged(folder: int, entry: Entry, status: os.stat_result) -> bool:
    if entry.mode == "l":
        target = entry.content.encode("utf-8", "surrogateescape")
        return stat.S_ISLNK(status.st_mode) and os.readlink(entry.name, dir_fd=folder) == target
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_mtime_ns == RESTORED
        and status.st_size == entry.size
    )


def _open_existing(root: int, folder: bytes) -> int:
    fd = os.dup(root)
    for name in folder.split(b"/") if folder else ():
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _remove_folder(root: int, folder: bytes) -> None:
    parent, _, name = folder.rpartition(b"/")
    try:
        fd = _open_existing(root, parent)
    except OSError:
        return
    try:
        os.rmdir(name, dir_fd=fd)
    except OSError:
        pass  # the folder contains the user's files
    finally:
        os.close(fd)


def _remove(folder: int, name: bytes) -> None:
    """Remove the file or folder with this name, without following links."""
    try:
        os.unlink(name, dir_fd=folder)
        return
    except FileNotFoundError:
        return
    except OSError:
        pass  # a directory
    try:
        inner = os.open(name, _DIRECTORY, dir_fd=folder)
    except FileNotFoundError:
        return
    try:
        for child in os.listdir(inner):
            _remove(inner, os.fsencode(child))
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)


def _split(path: str) -> tuple[bytes, bytes]:
    raw = path.encode("utf-8", "surrogateescape")
    parts = raw.split(b"/")
    if b"\0" in raw or not {b"", b".", b".."}.isdisjoint(parts):
        raise RestoreError(f"{path!r} is not a path inside a tree")
    folder, _, name = raw.rpartition(b"/")
    return folder, name


def _stays_inside(path: str, target: str) -> bool:
    """Return whether a link points inside the tree, even if other entries in the tree are links."""
    target.encode("utf-8", "surrogateescape")  # ValueError for invalid names
    if not target or "\0" in target or target[0] == "/":
        return False
    depth = path.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0:
                return False
        elif part not in ("", "."):
            depth = 0  # `..` after a name is unsafe, because the name may be a link
    return True


def _is_outside_link(target: str) -> bool:
    """Return whether a link's target is an absolute path in its plain form."""
    target.encode("utf-8", "surrogateescape")  # ValueError for invalid names
    parts = target.split("/")
    is_plain = {"", ".", ".."}.isdisjoint(parts[1:])
    return parts[0] == "" and len(parts) > 1 and "\0" not in target and is_plain


def _add_folder(folders: dict[bytes, list[Entry]], folder: bytes) -> None:
    while folder not in folders:
        folders[folder] = []
        folder = folder.rpartition(b"/")[0]


def _is_in_bundle(mode: str, size: int, offset: object, check: object) -> bool:
    return (
        mode in ("f", "x")
        and type(offset) is int
        and 0 <= size <= _LARGEST_IN_BUNDLE
        and 0 <= offset <= _FARTHEST_IN_BUNDLE
        and isinstance(check, str)
        and check != ""
    )


def _refuse_files_as_folders(folders: dict[bytes, list[Entry]]) -> None:
    for folder, entries in folders.items():
        seen: set[bytes] = set()
        for entry in entries:
            path = folder + b"/" + entry.name if folder else entry.name
            if path in folders or entry.name in seen:
                raise RestoreError(f"{os.fsdecode(path)!r} is listed twice")
            seen.add(entry.name)
