"""A snapshot's size limits, and the error for a tree that exceeds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from windlass.model.errors import SnapshotError
from windlass.model.text.quantities import format_size
from windlass.packaging.manifest import MAX_FILES, MAX_SIZE
from windlass.packaging.project_files.ignore import quote_path

_SHOWN = 8


class Limits(NamedTuple):
    """The largest number of files and total size that a snapshot may have."""

    files: int
    size: int

    def minus(self, files: int, size: int) -> Limits:
        """Return what is left of these limits."""
        return Limits(self.files - files, self.size - size)

    def at_most(self, other: Limits) -> Limits:
        """Combine two limits: return the smaller number of files and the smaller size."""
        return Limits(min(self.files, other.files), min(self.size, other.size))


def largest_snapshot() -> Limits:
    """Return the limits of a whole snapshot.

    >>> largest_snapshot()
    Limits(files=20000, size=200000000)
    """
    return Limits(MAX_FILES, MAX_SIZE)


def check_limits(
    prefix: str,
    paths: Sequence[str],
    sizes: Sequence[int],
    total: int,
    limits: Limits | None = None,
) -> None:
    """Raise an error for a tree that exceeds the limits: normally, 200 MB or 20,000 files.

    The error names the largest files and folders. `prefix` is the root with a trailing slash. The
    paths are absolute.

    >>> check_limits("/p/", ["/p/a.py"], [12], 12)
    >>> check_limits("/p/", ["/p/a.py", "/p/data/big.bin"], [12, 300_000_000], 300_000_012)
    Traceback (most recent call last):
    ...
    windlass.SnapshotError: The code in /p is 300.0 MB in 2 files. A snapshot \
may have at most 200.0 MB and 20,000 files.
      The biggest:
         300.0 MB  data/big.bin
      Add lines to /p/.windlassignore for files that the job does not need:
        /data/big.bin
    """
    limits = limits or largest_snapshot()
    if len(paths) <= limits.files and total <= limits.size:
        return
    root = prefix[:-1] or "/"
    paths = [path.removeprefix(prefix) for path in paths]
    if total > limits.size:
        biggest = _biggest(paths, sizes, total)
        title = "The biggest:"
        shown = [(format_size(weight), path) for weight, path in biggest]
    else:
        biggest = _biggest(paths, [1] * len(paths), len(paths))
        title = "The fullest:"
        shown = [(f"{weight:,} files", path) for weight, path in biggest]
    lines = [f"{amount:>11}  {printable(path)}" for amount, path in shown]
    patterns = [f"  {printable(quote_path(path))}" for _, path in biggest]
    raise SnapshotError(
        f"The code in {root} is {format_size(total)} in {len(paths):,} files. A snapshot "
        f"may have at most {format_size(limits.size)} and {limits.files:,} files.",
        hint="\n".join(
            [
                title,
                *lines,
                f"Add lines to {prefix}.windlassignore for files that the job does not need:",
                *patterns,
            ]
        ),
    )


def _biggest(paths: Sequence[str], weights: Sequence[int], total: int) -> list[tuple[int, str]]:
    """Return a tree's largest files and folders.

    If a few entries make up most of a folder, they are returned instead of the folder, so that the
    result is `data/raw/big.bin` rather than `data/`.
    """
    inside: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for path, weight in zip(paths, weights, strict=True):
        folder, _, name = path.rpartition("/")
        child = name
        while True:
            inside[folder][child] += weight
            if not folder:
                break
            folder, _, child = folder.rpartition("/")
            child += "/"
    biggest: list[tuple[int, str]] = []
    opened = [("", total)]
    while opened:
        folder, whole = opened.pop()
        for name, weight in inside[folder].items():
            path = f"{folder}/{name}" if folder else name
            if weight * 50 < total:
                continue
            if name.endswith("/") and _is_lopsided(inside[path[:-1]], weight):
                opened.append((path[:-1], weight))
            else:
                biggest.append((weight, path))
        if (
            folder
            and not any(path.startswith(f"{folder}/") for _, path in biggest)
            and not any(other.startswith(f"{folder}/") for other, _ in opened)
        ):
            biggest.append((whole, f"{folder}/"))
    if not biggest:
        biggest = [
            (weight, name) for name, weight in inside[""].items()
        ]  # all have similar sizes, so use the top level
    return sorted(biggest, key=lambda pair: (-pair[0], pair[1]))[:_SHOWN]


def _is_lopsided(children: dict[str, int], whole: int) -> bool:
    heaviest = sorted(children.values(), reverse=True)[:3]
    return sum(heaviest) * 10 >= whole * 8


def printable(path: str) -> str:
    """Return a path as text for messages, with invalid bytes and line breaks replaced."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\n", "?")
