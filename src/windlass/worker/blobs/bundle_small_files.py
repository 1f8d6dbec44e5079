"""Bundles a checkpoint's many small files into a few blobs.

Creating a file takes longer than writing a few bytes. A bundle is an ordinary blob, stored once and
kept as long as a manifest names it. A file that is in one of the previous checkpoint's bundles is
not stored again, unless the new checkpoint needs less than half of that bundle.
"""

from __future__ import annotations

from collections import deque

from windlass.worker.blobs.manifest import check_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from windlass.worker.blobs.manifest import Entry
    from windlass.worker.blobs.scan_files import ScannedFile
    from windlass.worker.blobs.writer import BlobWriter

SMALL = 256 << 10  # bytes; a larger file gets its own blob
_CROWD = 32  # files; up to this number, each small file gets its own blob
_FULL = 8 << 20  # bytes; to read one file, a reader holds the whole bundle in memory
_AT_A_TIME = 2  # bundles being hashed and written while the next one is read


class PreviousCheckpoint:
    """The previous checkpoint's files and bundles, which the new checkpoint may reuse."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.single: dict[str, tuple[str, int]] = {}  # digest and size by path
        self.bundled: dict[tuple[int, str], tuple[str, int]] = {}  # bundle, offset by size, check
        for entry in entries:
            if len(entry) == 4 and entry[2]:
                self.single[entry[0]] = (entry[2], entry[3])
            elif len(entry) == 6:
                self.bundled[entry[3], entry[5]] = (entry[2], entry[4])

    def digest(self, file: ScannedFile) -> str | None:
        """Return the digest that a file had in the previous checkpoint.

        Return None if the file had no blob of its own there, or if its size has changed.
        """
        digest, size = self.single.get(file.relative_path, ("", -1))
        return digest if size == file.seen.st_size else None


def keep_small(
    keeper: BlobWriter, files: list[ScannedFile], before: PreviousCheckpoint
) -> list[Entry]:
    """Store a checkpoint's small files in bundles, and return the files' manifest entries."""
    taking = _Taking(keeper, before, is_crowd=len(files) > _CROWD)
    for file in files:
        taking.take(file)
    taking.take_from_dwindled()
    return taking.finish()


class _Bundle:
    """The contents of several files, to be written as one blob."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.digest = ""

    def add(self, data: bytes) -> int:
        offset = self.size
        self.parts.append(data)
        self.size += len(data)
        return offset


class _Taking:
    """Stores a checkpoint's small files in new bundles, or finds them in old ones."""

    def __init__(self, keeper: BlobWriter, before: PreviousCheckpoint, *, is_crowd: bool) -> None:
        self._keeper = keeper
        self._before = before
        self._is_crowd = is_crowd
        self._kind = keeper.kind
        self._entries: list[Entry] = []
        # Maps each old bundle to the files whose content it already contains.
        self._already_bundled: dict[str, list[tuple[ScannedFile, int, str]]] = {}
        self._bundle = _Bundle()
        self._placed: dict[tuple[int, str], tuple[_Bundle, int]] = {}  # contents of new bundles
        self._bundled: list[tuple[ScannedFile, _Bundle, int, str]] = []
        self._written: deque[tuple[_Bundle, Callable[[], str]]] = deque()

    def take(self, file: ScannedFile) -> None:
        """Add a file to a new bundle, unless an old bundle already contains the file's content.

        Old bundles are those of the previous checkpoint.
        """
        data = self._keeper.read_small(file)
        digest = self._kind.digest_of(data)
        check = check_of(digest)
        bundle, offset = self._before.bundled.get((len(data), check), ("", 0))
        if bundle and self._kind.has_named(bundle):
            self._already_bundled.setdefault(bundle, []).append((file, offset, check))
        else:
            self._take_new(file, data, digest)

    def take_from_dwindled(self) -> None:
        """Decide which bundles of the previous checkpoint the new checkpoint reuses.

        If an old bundle was deleted or is now mostly unused, its files are stored again.
        """
        for bundle, held in self._already_bundled.items():
            used = sum({offset: file.seen.st_size for file, offset, _ in held}.values())
            if 2 * used < self._keeper.size_of(bundle, missing=2 * used + 1):
                for file, _, _ in held:
                    data = self._keeper.read_small(file)
                    self._take_new(file, data, self._kind.digest_of(data))
            else:
                for file, offset, check in held:
                    size = file.seen.st_size
                    self._entries.append(
                        (file.relative_path, file.mode, bundle, size, offset, check)
                    )

    def finish(self) -> list[Entry]:
        self._write()
        while self._written:
            self._finish_oldest()
        for file, bundle, offset, check in self._bundled:
            size = file.seen.st_size
            self._entries.append(
                (file.relative_path, file.mode, bundle.digest, size, offset, check)
            )
        return self._entries

    def _take_new(self, file: ScannedFile, data: bytes, digest: str) -> None:
        if not self._is_crowd or self._before.digest(file) == digest:
            self._keeper.put_small(digest, data)
            self._entries.append((file.relative_path, file.mode, digest, len(data)))
            return
        check = check_of(digest)
        if (len(data), check) not in self._placed:
            self._placed[len(data), check] = (self._bundle, self._bundle.add(data))
        self._bundled.append((file, *self._placed[len(data), check], check))
        if self._bundle.size >= _FULL:
            self._write()

    def _write(self) -> None:
        bundle, self._bundle = self._bundle, _Bundle()
        if not bundle.parts:
            return
        written = self._keeper.keep_bytes(b"".join(bundle.parts))
        bundle.parts.clear()
        self._written.append((bundle, written))
        if len(self._written) > _AT_A_TIME:
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        bundle, wait = self._written.popleft()
        bundle.digest = wait()
