"""A checkpoint's manifest: a JSON blob with one entry per file.

The entry `[path, mode, digest, size]` names a file's blob. A small file may share a bundle with
other files. Its entry `[path, mode, digest, size, offset, check]` contains the bundle's digest, the
file's offset in the bundle, and the beginning of the file's own digest. This beginning is shorter
than a digest, so it cannot be mistaken for a blob's name.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    # This is conditional because Python 3.9 lacks some of these types.
    Entry = tuple[str, str, str, int] | tuple[str, str, str, int, int, str]

_CHECK = 32  # digits


def encode(entries: Iterable[Entry]) -> bytes:
    r"""Encode a manifest as canonical JSON, exactly as `packaging/manifest.py` does.

    >>> encode([("a", "f", "00", 3)])
    b'{"files":[["a","f","00",3]],"version":1}'
    >>> encode([("a", "f", "00", 3, 40, "4d")])
    b'{"files":[["a","f","00",3,40,"4d"]],"version":2}'
    """
    ordered = sorted(entries)
    version = 2 if any(len(entry) > 4 for entry in ordered) else 1
    tree = {"files": ordered, "version": version}
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def decode(manifest: bytes) -> list[Entry]:
    """Parse a checkpoint's manifest.

    Raise `KeyError`, `TypeError` or `ValueError` if the manifest is invalid.

    >>> decode(encode([("a", "f", "00", 3)]))
    [('a', 'f', '00', 3)]
    """
    return [tuple(entry) for entry in json.loads(manifest)["files"]]


def blobs_of(entries: Iterable[Entry]) -> dict[str, int]:
    """Return the digests of the blobs that a manifest needs, with each blob's minimum length.

    >>> blobs_of([("a", "f", "00", 3), ("b", "f", "11", 3, 40, "4d"), ("c", "d", "", 0)])
    {'00': 3, '11': 43}
    """
    sizes: dict[str, int] = {}
    for entry in entries:
        if entry[1] in ("f", "x"):
            end = entry[3] + (entry[4] if len(entry) > 4 else 0)
            sizes[entry[2]] = max(sizes.get(entry[2], 0), end)
    return sizes


def check_of(digest: str) -> str:
    """Return the part of a file's digest that a manifest stores for a file in a bundle.

    >>> check_of("b3-" + "ab" * 32)
    'abababababababababababababababab'
    """
    return digest[-64:][:_CHECK]
