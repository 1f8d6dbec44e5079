"""Manifest of a checkpoint: a blob with one line per file.

A line is `[path, mode, digest, size]`, and the file is the blob of that digest. A small file may
lie in a bundle with others: `[path, mode, digest, size, offset, check]` has the digest of the
bundle, the offset of the file in it, and the beginning of the digest of the file itself. This
beginning is too short to be mistaken for the name of a blob.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    # Not at module level: Python 3.9 lacks these types.
    Entry = tuple[str, str, str, int] | tuple[str, str, str, int, int, str]

_CHECK = 32  # digits


def encode(entries: Iterable[Entry]) -> bytes:
    r"""Return the canonical bytes of a manifest, as `packaging/manifest.py` writes them.

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
    """Parse a manifest of a checkpoint; raise KeyError, TypeError or ValueError if invalid.

    >>> decode(encode([("a", "f", "00", 3)]))
    [('a', 'f', '00', 3)]
    """
    return [tuple(entry) for entry in json.loads(manifest)["files"]]


def blobs_of(entries: Iterable[Entry]) -> dict[str, int]:
    """Return the blobs that contain the files, each with its minimal length.

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
