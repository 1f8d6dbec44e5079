"""Compares two versions of code and lists the changed files and lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from windlass.comparison.lines import diff_lines, is_binary
from windlass.model.text.quantities import format_size

# Limits in bytes, for one file and for all files together. Files beyond them are listed without
# their lines.
LARGEST_READ = 1_000_000
MOST_READ = 64_000_000

Row = tuple[str, str, str, int]  # a manifest row: path, mode, digest or link target, size


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a tree. `content` is the file's sha256 or the link's target."""

    mode: str  # "f", "x" (executable) or "l" (a link)
    content: str
    size: int = 0


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file that differs between two trees. `lines` is the unified diff of its text."""

    path: str
    kind: str  # "added", "removed", "changed" or "renamed"
    old_path: str = ""  # a renamed file's previous path
    role: str = ""  # set if the trial's roles have different trees
    note: str = ""
    added: int = 0  # the number of added lines
    removed: int = 0
    before: File | None = None
    after: File | None = None
    lines: tuple[str, ...] = ()


def changed_files(
    before: Iterable[Row], after: Iterable[Row], *, role: str = ""
) -> tuple[FileChange, ...]:
    """Return the files that differ between two trees, sorted by path, without their lines.

    >>> old = [("a.py", "f", "0" * 64, 3), ("b.py", "f", "1" * 64, 5)]
    >>> new = [("a.py", "x", "0" * 64, 3), ("c.py", "f", "1" * 64, 5)]
    >>> [(change.kind, change.old_path, change.path) for change in changed_files(old, new)]
    [('changed', '', 'a.py'), ('renamed', 'b.py', 'c.py')]
    """
    old, new = _files(before), _files(after)
    gone = [path for path in old if path not in new]
    come = [path for path in new if path not in old]
    renamed = _renamed(gone, come, old, new)
    changes = [
        FileChange(path=path, kind="changed", role=role, before=old[path], after=new[path])
        for path in old
        if path in new and old[path] != new[path]
    ]
    for path in come:
        source = renamed.get(path, "")
        kind = "renamed" if source else "added"
        changes.append(
            FileChange(
                path=path, kind=kind, old_path=source, role=role,
                before=old.get(source), after=new[path],
            )
        )  # fmt: skip
    kept = set(renamed.values())
    changes += [
        FileChange(path=path, kind="removed", role=role, before=old[path])
        for path in gone
        if path not in kept
    ]
    return tuple(sorted(changes, key=lambda change: change.path))


def wanted_contents(changes: Iterable[FileChange]) -> list[str]:
    """Return the digests of the file contents needed by `with_lines`.

    Contents beyond the size limits are left out.
    """
    wanted: dict[str, int] = {}
    left = MOST_READ
    for change in changes:
        sizes = {
            file.content: file.size
            for file in _files_of_change(change)
            if _has_blob(file) and file.content not in wanted
        }
        if not _is_read(change) or sum(sizes.values()) > left:
            continue
        left -= sum(sizes.values())
        wanted |= sizes
    return list(wanted)


def with_lines(
    changes: Sequence[FileChange], contents: Mapping[str, bytes]
) -> tuple[FileChange, ...]:
    """Add the unified diff to each changed file whose contents are available."""
    return tuple(_with_lines(change, contents) for change in changes)


def _files(rows: Iterable[Row]) -> dict[str, File]:
    return {path: File(mode=mode, content=ref, size=size) for path, mode, ref, size in rows}


def _renamed(
    gone: Sequence[str], come: Sequence[str], old: Mapping[str, File], new: Mapping[str, File]
) -> dict[str, str]:
    """Find renamed files and return each new path's old path.

    A removed file and an added file with the same content count as one renamed file. Files with the
    same name are matched first.
    """
    sources: dict[str, list[str]] = {}
    for path in gone:
        if old[path].mode != "l" and old[path].size:  # all empty files are equal, so match none
            sources.setdefault(old[path].content, []).append(path)
    renamed = {}
    by_name = {(old[path].content, _name(path)): path for path in gone}
    same_name = [path for path in come if (new[path].content, _name(path)) in by_name]
    others = [path for path in come if path not in set(same_name)]
    for path in [*same_name, *others]:
        candidates = sources.get(new[path].content, [])
        if new[path].mode == "l" or not candidates:
            continue
        named = by_name.get((new[path].content, _name(path)), "")
        source = named if named in candidates else candidates[0]
        candidates.remove(source)
        renamed[path] = source
    return renamed


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _files_of_change(change: FileChange) -> list[File]:
    return [file for file in (change.before, change.after) if file is not None]


def _has_blob(file: File) -> bool:
    return file.mode != "l" and file.size > 0


def _is_read(change: FileChange) -> bool:
    """Return True if the contents of a changed file must be downloaded to compare its lines."""
    files = _files_of_change(change)
    if len({(file.content, file.mode == "l") for file in files}) < len(files):
        return False
    return all(file.size <= LARGEST_READ for file in files if file.mode != "l") and not all(
        file.mode == "l" for file in files
    )


def _with_lines(change: FileChange, contents: Mapping[str, bytes]) -> FileChange:
    notes = _notes(change)
    files = [file for file in _files_of_change(change) if file.mode != "l"]
    if not _is_read(change):
        if change.kind == "changed" and files and _contents_differ(change):
            notes.append("large: " + " → ".join(format_size(file.size) for file in files))
        elif change.kind in ("added", "removed") and files:
            notes.append(f"large: {format_size(files[0].size)}")
        return msgspec.structs.replace(change, note=", ".join(notes))
    if any(_has_blob(file) and file.content not in contents for file in files):
        return msgspec.structs.replace(change, note=", ".join([*notes, "its lines were not read"]))
    if any(is_binary(_data(file, contents)) for file in files):
        sizes = " → ".join(format_size(file.size) for file in files)
        return msgspec.structs.replace(change, note=", ".join([*notes, f"binary: {sizes}"]))
    diff = diff_lines(_data(change.before, contents), _data(change.after, contents))
    return msgspec.structs.replace(
        change,
        note=", ".join(notes), lines=diff.lines, added=diff.added, removed=diff.removed,
    )  # fmt: skip


def _contents_differ(change: FileChange) -> bool:
    return bool(change.before and change.after and change.before.content != change.after.content)


def _data(file: File | None, contents: Mapping[str, bytes]) -> bytes:
    return contents[file.content] if file is not None and _has_blob(file) else b""


def _notes(change: FileChange) -> list[str]:
    """Describe changes to a file other than in its lines, such as a link that became a file."""
    before, after = change.before, change.after
    if before is None or after is None:
        only = after or before
        if only is not None and only.mode == "l":
            return [f"a link to {only.content}"]
        return ["executable"] if only is not None and only.mode == "x" else []
    if before.mode == after.mode:
        return [f"a link to {before.content} → {after.content}"] if before.mode == "l" else []
    if before.mode == "l":
        return [f"was a link to {before.content}"]
    if after.mode == "l":
        return [f"is now a link to {after.content}"]
    return ["now executable" if after.mode == "x" else "no longer executable"]
