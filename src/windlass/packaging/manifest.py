"""Encodes and parses manifests, which list a snapshot's files with their digests.

The same files always produce the same bytes. Parsing is strict, because the server also reads
manifests from clients that it does not trust. These functions are pure, and import only the
standard library and msgspec.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

MAX_FILES = 20_000
MAX_SIZE = 200_000_000
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
MAX_PATH = 4096
MAX_NAME = 255

FILE, EXECUTABLE, LINK = "f", "x", "l"

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BAD_PART = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)")  # an empty part, `.` or `..`


class Entry(NamedTuple):
    """One file in a manifest. `ref` is the sha256 of the file's content, or a link's target."""

    path: str
    mode: str  # "f", "x" or "l"
    ref: str
    size: int


def encode_manifest(entries: Iterable[Entry]) -> bytes:
    r"""Encode a manifest. The order of the entries does not affect the result.

    >>> encode_manifest([Entry("b", "l", "a", 0), Entry("a", "f", "00" * 32, 3)])[:40]
    b'{"files":[["a","f","00000000000000000000'
    >>> encode_manifest([Entry("odd\udcff", "l", "a", 0)])
    b'{"files":[["odd\\udcff","l","a",0]],"version":1}'
    """
    return encode_sorted(sorted(entries))


def encode_sorted(rows: Sequence[tuple[str, str, str, int]]) -> bytes:
    """Encode a manifest whose entries are already sorted.

    >>> encode_sorted([]) == encode_manifest([])
    True
    """
    tree = {"files": rows, "version": 1}
    try:
        return msgspec.json.encode(tree)
    except UnicodeEncodeError:  # names that are not UTF-8 need the slower encoder
        return _encode_odd(tree)


def encode_entry(entry: Entry) -> bytes:
    """Encode one entry as it would appear in a manifest.

    To find the entry in a manifest, search for its encoding: no other part of a manifest looks the
    same.

    >>> encode_entry(Entry("a b", "l", "c", 0))
    b'["a b","l","c",0]'
    """
    try:
        return msgspec.json.encode(entry)
    except UnicodeEncodeError:
        return _encode_odd(entry)


def tree_digest(manifest: bytes) -> str:
    """Return a tree's digest, which is the sha256 of its manifest.

    >>> tree_digest(encode_manifest([]))[:12]
    'e5eccfdf0ce5'
    """
    return hashlib.sha256(manifest).hexdigest()


def parse_manifest(
    data: bytes, *, max_files: int = MAX_FILES, max_size: int = MAX_SIZE
) -> list[Entry]:
    """Parse a manifest. Raise ValueError if it is invalid.

    A valid manifest contains no paths that lead outside its tree. A link leads either to another
    path in the tree or to an absolute path.

    >>> parse_manifest(b'{"files":[["a/run.sh","l","../b",0]],"version":1}')
    [Entry(path='a/run.sh', mode='l', ref='../b', size=0)]
    >>> parse_manifest(b'{"files":[["../a","l","b",0]],"version":1}')
    Traceback (most recent call last):
    ...
    ValueError: the manifest's entry '../a' has a path that is not plain and relative
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise ValueError(
            f"the manifest has {len(data)} bytes; at most {MAX_MANIFEST_BYTES} are allowed"
        )
    rows = _decode(data)
    if len(rows) > max_files:
        raise ValueError(f"the manifest has {len(rows)} files; at most {max_files} are allowed")
    entries = [_checked_entry(row) for row in rows]
    total = sum(entry.size for entry in entries)
    if total > max_size:
        raise ValueError(f"the manifest's files have {total} bytes; at most {max_size} are allowed")
    _check_order(entries)
    if encode_manifest(entries) != data:
        raise ValueError("the manifest is not in canonical form")
    return entries


def _encode_odd(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Only lone surrogates cannot be encoded in UTF-8. JSON writes them as `\udcXX`.
    return text.encode("utf-8", "backslashreplace")


def _decode(data: bytes) -> list[object]:
    try:
        tree = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:  # only this parser accepts lone surrogates
            tree = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ValueError("the manifest is not valid JSON") from error
    if type(tree) is not dict or tree.keys() != {"files", "version"}:
        raise ValueError("the manifest must have exactly 'files' and 'version'")
    if type(tree["version"]) is not int or tree["version"] != 1:
        raise ValueError("the manifest has an unknown version")
    rows = tree["files"]
    if type(rows) is not list:
        raise ValueError("the manifest's 'files' is not a list")
    return rows


def _checked_entry(row: object) -> Entry:
    if type(row) is not list or len(row) != 4:
        raise ValueError("the manifest has an entry that is not [path, mode, digest, size]")
    path, mode, ref, size = row
    if type(path) is not str or type(ref) is not str or type(size) is not int:
        raise ValueError("the manifest has an entry whose parts are of the wrong types")
    shown = repr(path[:200])
    if not _is_plain(path):
        raise ValueError(f"the manifest's entry {shown} has a path that is not plain and relative")
    if mode == LINK:
        if size != 0:
            raise ValueError(f"the manifest's link {shown} has a size")
        if not (link_stays_inside(path, ref) or is_outside_link(ref)):
            raise ValueError(f"the manifest's link {shown} leaves the tree")
    elif mode in (FILE, EXECUTABLE) and type(mode) is str:
        if not _DIGEST.fullmatch(ref):
            raise ValueError(f"the manifest's entry {shown} has no sha256 for a digest")
        if size < 0:
            raise ValueError(f"the manifest's entry {shown} has a negative size")
    else:
        raise ValueError(f"the manifest's entry {shown} has an unknown mode")
    return Entry(path, mode, ref, size)


def _is_plain(path: str) -> bool:
    return (
        0 < len(path) <= MAX_PATH
        and "\0" not in path
        and not _BAD_PART.search(path)
        and _has_file_system_bytes(path)
        and max(len(part.encode("utf-8", "surrogateescape")) for part in path.split("/"))
        <= MAX_NAME
    )


def _has_file_system_bytes(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def link_stays_inside(path: str, target: str) -> bool:
    """Return True if a link at `path` points inside the tree, whatever else the tree contains.

    A target with `..` after a name is rejected, because its meaning depends on whether that name is
    a link.

    >>> link_stays_inside("a/b", "../c"), link_stays_inside("a/b", "../../c")
    (True, False)
    >>> link_stays_inside("a", "b/../c")
    False
    """
    if not target or len(target) > MAX_PATH or "\0" in target or target[0] == "/":
        return False
    if not _has_file_system_bytes(target):
        return False
    depth = path.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0:
                return False
        elif part not in ("", "."):
            depth = 0  # from here on, `..` counts as leaving the tree
    return True


def is_outside_link(target: str) -> bool:
    """Return True if a link's target is an absolute path in its plain form.

    Such a link is kept as it is. No code of Windlass follows it.

    >>> is_outside_link("/data/images"), is_outside_link("/data/../etc"), is_outside_link("../data")
    (True, False, False)
    """
    return (
        1 < len(target) <= MAX_PATH
        and target[0] == "/"
        and "\0" not in target
        and not _BAD_PART.search(target[1:])
        and _has_file_system_bytes(target)
    )


def _check_order(entries: list[Entry]) -> None:
    paths = set()
    previous = ""
    for entry in entries:
        if entry.path <= previous:
            raise ValueError(f"the manifest's entry {entry.path[:200]!r} is out of order or twice")
        previous = entry.path
        paths.add(entry.path)
    folders_seen = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders_seen:
            if folder in paths:
                raise ValueError(f"the manifest's {folder[:200]!r} is both a file and a folder")
            folders_seen.add(folder)
            folder = folder.rpartition("/")[0]
