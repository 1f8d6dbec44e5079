"""Downloads stored code and checkpoints to a folder without replacing existing files.

If the folder has files that differ from the download, nothing is written. Each file gets its final
name only once it is complete. To continue an interrupted download, start it again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from windlass.client.connection.blobs import fetch_in_batches, fetch_lists
from windlass.client.connection.transport import Transport, request_path
from windlass.model.errors import (
    Conflict,
    InvalidArgument,
    NotFound,
    ServerError,
    WindlassError,
    shown,
)
from windlass.model.records import TrialRecord
from windlass.model.text.display import clean
from windlass.worker.blobs.digest import kind_of
from windlass.worker.blobs.manifest import check_of
from windlass.worker.blobs.restore_tree import Entry, RestoreError, Tree, open_folder, read_tree
from windlass.worker.common.atomic_files import write_all

NOTE = "TRIALS.txt"
UNFINISHED = b".windlass-unfinished-"
_PIECE = 1 << 20
_LARGE = 8 << 20  # bytes; larger files are not held in memory
_MOST_LISTED = 5
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def download_trial(
    transport: Transport, record: TrialRecord, folder: str | os.PathLike[str]
) -> Path:
    """Write a trial's code to a folder.

    If the roles have different code, each role gets its own sub-folder.
    """
    root = named_folder(folder, 'trial.download_code("code")')
    layout = _layout(record)
    if not layout:
        raise NotFound(
            f"Trial {record.id} ({clean(record.name)}) has no recorded code.",
            hint=f"See its program: windlass show {record.id}",
        )
    _write_layout(transport, root, layout)
    return root


def download_experiment(
    transport: Transport, name: str, records: Sequence[TrialRecord], folder: str | os.PathLike[str]
) -> Path:
    """Write the code of all trials in an experiment to a folder.

    If the trials have different code, each version of the code gets its own sub-folder.
    """
    root = named_folder(folder, 'experiment.download_code("code")')
    versions: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for record in records:
        if layout := _layout(record):
            versions.setdefault(tuple(layout.items()), []).append(record.id)
    if not versions:
        raise NotFound(f"No trial of {shown(name)} has recorded code.")
    if len(versions) == 1:
        _write_layout(transport, root, dict(next(iter(versions))))
        return root
    layouts = {_version_name(version): dict(version) for version in versions}
    _refuse_others(root, {*layouts, NOTE})
    for prefix, layout in layouts.items():
        _write_layout(transport, root, layout, prefix)
    note = "".join(
        f"{_version_name(version)}  trial{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}\n"
        for version, ids in versions.items()
    )
    (root / NOTE).write_text(note)
    return root


def _layout(record: TrialRecord) -> dict[str, str]:
    """Return the digest of the code for each sub-folder, named after a role.

    If all roles share the same code, the only key is "", which means the folder itself.
    """
    from windlass.comparison.settings import trees_of

    trees = {role: tree for role, tree in trees_of(record.spec).items() if tree is not None}
    if len(set(trees.values())) == 1:
        return {"": next(iter(trees.values()))}
    return trees


def _version_name(version: Sequence[tuple[str, str]]) -> str:
    if len(version) == 1:
        return f"code-{version[0][1][:12]}"
    joined = "".join(f"{role} {tree}\n" for role, tree in version)
    return f"code-{hashlib.sha256(joined.encode()).hexdigest()[:12]}"


def named_folder(folder: object, example: str) -> Path:
    """Convert a user-supplied folder argument to a path.

    The error for an invalid path shows `example`.
    """
    path = os.fsdecode(folder) if isinstance(folder, (str, os.PathLike)) else ""
    try:
        is_path = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_path = False
    if not path or not is_path:
        raise InvalidArgument(f"{shown(folder)} is not a folder.", hint=f"Name one: {example}")
    return Path(path).expanduser()


def _write_layout(
    transport: Transport, root: Path, layout: Mapping[str, str], prefix: str = ""
) -> None:
    """Write each role's code to its sub-folder, after checking all of them for conflicts."""
    trees = {role: fetch_tree(transport, digest, "code") for role, digest in layout.items()}
    if "" not in trees:
        _refuse_others(root / prefix, set(trees))
    inner = {os.fsencode("/".join(filter(None, (prefix, role)))): trees[role] for role in trees}
    write_trees(transport, root, inner, "code")


def write_trees(transport: Transport, root: Path, trees: Mapping[bytes, Tree], what: str) -> None:
    """Write stored file trees to sub-folders, after checking all of them for conflicts.

    `trees` maps each sub-folder's path to its files.
    """
    try:
        plans = [(inner, tree, _lacking(root, inner, tree)) for inner, tree in trees.items()]
        root.mkdir(parents=True, exist_ok=True)
        fd = os.open(os.path.realpath(root), _FOLDER)
        try:
            for inner, tree, entries in plans:
                _write(transport, fd, inner, entries, what)
                for folder in (path for path, held in tree.folders.items() if not held):
                    os.close(open_folder(fd, _joined(inner, folder), replacing=False))
        finally:
            os.close(fd)
    except OSError as error:
        raise WindlassError(
            f"The {what} cannot be written to {root}: {error.strerror or error}.",
            hint="Fix the cause, then try again. Files that are already there are kept.",
        ) from error


def fetch_tree(transport: Transport, digest: str, what: str) -> Tree:
    """Fetch the list of files in a manifest on the server."""
    manifests = fetch_lists(transport, [digest])
    if digest not in manifests:
        raise NotFound(f"The list of files of the {what} {digest[:12]} is no longer on the server.")
    try:
        return read_tree(manifests[digest], outside_links=what == "code")
    except RestoreError as error:
        raise WindlassError(f"The {what} {digest[:12]} cannot be written: {error}.") from error


def _refuse_others(root: Path, expected: set[str]) -> None:
    """Raise `Conflict` if a target folder contains anything that the download would not create."""
    others = sorted({path.name for path in root.iterdir()} - expected) if root.is_dir() else []
    if others:
        raise _taken(root, [f"{shown(name)} does not belong to it" for name in others])


def _lacking(root: Path, inner: bytes, tree: Tree) -> list[tuple[bytes, Entry]]:
    """Return the files of a code or checkpoint tree that are missing in the target folder.

    Raise `Conflict` if the folder has additional or different files.
    """
    wanted = {(folder, e.name): e for folder, entries in tree.folders.items() for e in entries}
    try:
        fd = _open_existing(root, inner)
    except FileNotFoundError:
        return [(folder, entry) for (folder, _), entry in wanted.items()]
    except NotADirectoryError:
        raise InvalidArgument(
            f"{root / os.fsdecode(inner)} is not a folder.",
            hint="Name another.",
        ) from None
    problems: list[str] = []
    try:
        for folder, name, status, parent in _walk(fd, b"", tree):
            entry = wanted.pop((folder, name), None)
            path = shown(os.fsdecode(_joined(folder, name)))
            if entry is None:
                problems.append(f"{path} does not belong to it")
            elif not _is_entry(parent, entry, status):
                problems.append(f"{path} differs")
            if len(problems) > _MOST_LISTED:
                break
    finally:
        os.close(fd)
    if problems:
        raise _taken(root / os.fsdecode(inner), problems)
    return [(folder, entry) for (folder, _), entry in wanted.items()]


def _open_existing(root: Path, inner: bytes) -> int:
    """Open the folder `root`, or its sub-folder `inner`.

    `root` may be a symbolic link, but links below it are not followed.
    """
    fd = os.open(os.path.realpath(root), _FOLDER)
    for name in inner.split(b"/") if inner else ():
        try:
            below = os.open(name, _FOLDER, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


def _walk(fd: int, folder: bytes, tree: Tree) -> Iterator[tuple[bytes, bytes, os.stat_result, int]]:
    """Yield the files and links in a folder and in those sub-folders that the tree has, too.

    Links are not followed.
    """
    for text in sorted(os.listdir(fd)):
        name = os.fsencode(text)
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if name.startswith(UNFINISHED) and stat.S_ISREG(status.st_mode):
            os.unlink(name, dir_fd=fd)  # left over from a killed download
            continue
        inner = _joined(folder, name)
        if not stat.S_ISDIR(status.st_mode) or inner not in tree.folders:
            yield folder, name, status, fd
            continue
        below = os.open(name, _FOLDER, dir_fd=fd)
        try:
            yield from _walk(below, inner, tree)
        finally:
            os.close(below)


def _is_entry(folder: int, entry: Entry, status: os.stat_result) -> bool:
    """Return whether a file has the same content and executable bit as a tree entry."""
    if entry.mode == "l":
        target = entry.content.encode("utf-8", "surrogateescape")
        return stat.S_ISLNK(status.st_mode) and os.readlink(entry.name, dir_fd=folder) == target
    if not stat.S_ISREG(status.st_mode) or status.st_size != entry.size:
        return False
    if bool(status.st_mode & stat.S_IXUSR) != (entry.mode == "x"):
        return False
    kind = kind_of(entry.content)
    hasher = kind.hasher()
    fd = os.open(entry.name, _READ, dir_fd=folder)
    try:
        while piece := os.read(fd, _PIECE):
            hasher.update(piece)
    finally:
        os.close(fd)
    digest = kind.digest(hasher)
    return check_of(digest) == entry.check if entry.check else digest == entry.content


def _write(
    transport: Transport, root: int, inner: bytes, entries: Sequence[tuple[bytes, Entry]], what: str
) -> None:
    links = [(_joined(inner, folder), e) for folder, e in entries if e.mode == "l"]
    large: list[tuple[bytes, Entry]] = []
    files: dict[str, list[tuple[bytes, Entry]]] = {}
    sizes: dict[str, int] = {}
    for folder, entry in entries:
        if entry.mode == "l":
            continue
        if entry.size > _LARGE and not entry.check:
            large.append((_joined(inner, folder), entry))
            continue
        files.setdefault(entry.content, []).append((_joined(inner, folder), entry))
        end = entry.offset + entry.size
        sizes[entry.content] = max(sizes.get(entry.content, 0), end)
    lost = [
        os.fsdecode(_joined(folder, entry.name))
        for folder, entry in large
        if not _fetch_entry(transport, root, folder, entry)
    ]
    for digests, came in fetch_in_batches(transport, sizes):
        for folder, entry in (file for digest in digests for file in files[digest]):
            data = _part(came.get(entry.content), entry)
            if data is None:
                lost.append(os.fsdecode(_joined(folder, entry.name)))
            else:
                _write_entry(root, folder, entry, data)
    for folder, entry in links:
        _write_entry(root, folder, entry, b"")
    if lost:
        some = ", ".join(shown(path) for path in lost[:_MOST_LISTED])
        more = f" and {len(lost) - _MOST_LISTED} more" if len(lost) > _MOST_LISTED else ""
        raise NotFound(
            f"The {what} is incomplete: {some}{more} is missing from the store or was damaged.",
            hint="All other files were written.",
        )


def _part(data: bytes | None, entry: Entry) -> bytes | None:
    """Return a file's content from a fetched blob: the whole blob, or the file's part of a bundle.

    Return None if the size is wrong.
    """
    if data is not None and entry.check:
        data = data[entry.offset : entry.offset + entry.size]
    return data if data is not None and len(data) == entry.size else None


def _fetch_entry(transport: Transport, root: int, folder: bytes, entry: Entry) -> bool:
    """Fetch a file of any size in pieces. Return False if the server does not have it."""
    kind = kind_of(entry.content)
    hasher = kind.hasher()

    def pieces(write: Callable[[bytes | memoryview], None]) -> None:
        def take(piece: bytes) -> None:
            hasher.update(piece)
            write(piece)

        transport.download(request_path("blobs", entry.content), take)
        if kind.digest(hasher) != entry.content:
            raise ServerError(f"The server's blob {entry.content[:12]} is damaged.")

    try:
        _write_file(root, folder, entry, pieces)
    except NotFound:
        return False
    return True


def _joined(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder and name else folder or name


def _write_entry(root: int, folder: bytes, entry: Entry, data: bytes) -> None:
    """Write a file or a symbolic link without following links or replacing files."""
    if entry.mode != "l":
        return _write_file(root, folder, entry, lambda write: write(data))
    parent = open_folder(root, folder, replacing=False)
    try:
        target = entry.content.encode("utf-8", "surrogateescape")
        os.symlink(target, entry.name, dir_fd=parent)
    finally:
        os.close(parent)


def _write_file(
    root: int,
    folder: bytes,
    entry: Entry,
    pieces: Callable[[Callable[[bytes | memoryview], None]], None],
) -> None:
    """Write a file in pieces under a temporary name, then rename the complete file."""
    parent = open_folder(root, folder, replacing=False)
    try:
        temporary = UNFINISHED + os.urandom(8).hex().encode()
        fd = os.open(temporary, _WRITE, 0o777 if entry.mode == "x" else 0o666, dir_fd=parent)

        def write(piece: bytes | memoryview) -> None:
            write_all(fd, piece)

        try:
            try:
                pieces(write)
            finally:
                os.close(fd)
            _give_name(parent, temporary, entry.name)
        except BaseException:  # remove the partial file, even on Ctrl-C
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise
    finally:
        os.close(parent)


def _give_name(folder: int, temporary: bytes, name: bytes) -> None:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    # On a case-insensitive file system, two of the tree's names may be the same name.
    raise FileExistsError(errno.EEXIST, f"{shown(os.fsdecode(name))} already exists")


def _taken(root: Path, problems: Sequence[str]) -> Conflict:
    listed = list(problems[:_MOST_LISTED]) + (["and more"] if len(problems) > _MOST_LISTED else [])
    return Conflict(
        f"{root} contains other files: {'; '.join(listed)}.",
        hint="Nothing was written. Name an empty or new folder.",
    )
