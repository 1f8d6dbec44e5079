"""Content-addressed blobs in files: code, payloads, results, and what checkpoints are made of.

A blob is written under a temporary name and renamed into place, so that what has
a name is whole. Writing one that exists is no work.

What nothing points to is collected (server/garbage.py) while others write. Whoever is about to
point to a blob has asked for it here, or holds it by a hard link of its own: both keep it.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from windlass.worker.digests import is_digest, place_of
from windlass.worker.files import remove_if_there, write_bytes
from windlass.worker.manifests import blobs_of, decode

DIGEST_IN_TEXT = re.compile(rb"(?<![0-9a-f])(?:b3-)?[0-9a-f]{64}(?![0-9a-f])")
_LIST = b'{"files":['  # how the list of the files of a tree begins
_CHUNK = 1 << 20
_BATCH = 128  # each is an open file
_AT_A_TIME = 16
_INCOMING = ".in-"  # what has no name yet
_OUTGOING = ".out-"  # what has no name any more
_MOST_NOTED = 200_000  # until the oldest are forgotten
_STALE = 600.0  # seconds after which a blob that is asked for is young again


class BlobStore:
    """Blobs below one directory.

    >>> store = BlobStore(Path(tempfile.mkdtemp()))
    >>> digest = store.put(b"hello")
    >>> store.get(digest)
    b'hello'
    """

    def __init__(self, path: Path, lately: float = 60.0) -> None:
        """Within `lately` seconds after a blob was asked for, something points to it, or never."""
        self._horizon = lately
        self._root = str(path)
        self._lately: dict[str, float] = {}  # when which was last asked for or brought
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def root(self) -> Path:
        return Path(self._root)

    def path(self, digest: str) -> Path:
        """Where that blob lies, whether or not it is there."""
        return Path(self.place(digest))

    def place(self, digest: str) -> str:
        """The same, as text."""
        if not is_digest(digest):
            raise ValueError(f"{digest!r} is no digest")
        return place_of(self._root, digest)

    def has(self, digest: str) -> bool:
        """Whether the blob is here; if so, it stays for whoever asked."""
        path = self.place(digest)
        now = time.time()
        self._note(digest, now)  # before the look: see `withdraw`
        try:
            if now - os.stat(path).st_mtime > _STALE:
                os.utime(path)
        except OSError:
            return False
        return True

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Those of the digests that are not here, once each."""
        return [digest for digest in dict.fromkeys(digests) if not self.has(digest)]

    def get(self, digest: str) -> bytes:
        """The bytes of a blob."""
        with open(self.place(digest), "rb") as file:
            return file.read()

    def size(self, digest: str) -> int:
        """How long a blob is."""
        return os.stat(self.place(digest)).st_size

    def put(self, data: bytes, *, digest: str | None = None) -> str:
        """Keep some bytes. With a digest given, they must have it."""
        actual = hashlib.sha256(data).hexdigest()
        if digest is not None and actual != digest:
            raise ValueError(f"the bytes have the digest {actual}, not {digest}")
        target = self.place(actual)
        if not self.has(actual):
            temporary = f"{self._root}/{_INCOMING}{actual}-{threading.get_ident()}"
            write_bytes(temporary, data, durable=True)
            put_in_place(temporary, target)
        return actual

    def sweep(self) -> None:
        """Undo what servers that were killed had begun: to write, or to remove; for a start."""
        for name in os.listdir(self._root):
            path = f"{self._root}/{name}"
            if name.startswith(_INCOMING):
                remove_if_there(path)
            elif name.startswith(_OUTGOING):
                self._put_back(path, name.removeprefix(_OUTGOING))

    def each(self) -> Iterator[tuple[str, os.stat_result]]:
        """All blobs that are here, and what the file system knows of each."""
        for folder in sorted(os.listdir(self._root)):
            if len(folder) != 2:
                continue
            with os.scandir(f"{self._root}/{folder}") as found:
                for entry in found:
                    if is_digest(entry.name):
                        try:
                            yield entry.name, entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue

    def listed(self, digest: str) -> list[str] | None:
        """What a blob names that is a list of files; none if it is no list, or not here."""
        try:
            return _listed_in(self.place(digest))
        except FileNotFoundError:
            return None

    def lately(self) -> set[str]:
        """Those that were asked for or brought just now."""
        limit = time.time() - self._horizon
        self._lately = {digest: at for digest, at in self._lately.copy().items() if at > limit}
        return set(self._lately)

    def may_come(self, digest: str, path: str) -> bool:
        """Whether a blob may have its name now.

        Not a list of files some of which went while it was on its way: whoever made it found
        them here. It is made again when it turns out to be missing.
        """
        self._note(digest, time.time())
        return not self.missing(_needed_by(path))

    def withdraw(self, digest: str) -> bool:
        """Remove a blob that nothing points to; false if somebody wants it after all.

        Its name goes first. Whoever asks after that does not find it, and brings it again;
        whoever asked before that is noted by now, or holds a link to it, and it is put back.
        """
        path = self.place(digest)
        aside = f"{self._root}/{_OUTGOING}{digest}"
        try:
            os.rename(path, aside)
        except FileNotFoundError:
            return False
        asked = self._lately.get(digest, 0.0)
        if asked > time.time() - self._horizon or os.stat(aside).st_nlink > 1:
            self._put_back(aside, digest)
            return False
        os.unlink(aside)
        return True

    def _note(self, digest: str, now: float) -> None:
        self._lately[digest] = now
        if len(self._lately) > _MOST_NOTED:
            self.lately()

    def _put_back(self, aside: str, digest: str) -> None:
        try:
            os.link(aside, self.place(digest))
        except FileExistsError:
            pass  # it was brought again
        except ValueError:
            pass  # it is no blob at all
        os.unlink(aside)

    def incoming(self) -> IncomingBlob:
        """A blob that arrives in pieces."""
        return IncomingBlob(self)

    def coming(self) -> Path:
        """Where something may lie that is on its way: the start of a server removes it."""
        return Path(self._root, f"{_INCOMING}{threading.get_ident()}-{os.urandom(8).hex()}")

    def bring(self, source: Path, target: str) -> None:
        """Move a file in that is whole, on the disk, and has that place by its digest."""
        self._note(os.path.basename(target), time.time())
        put_in_place(str(source), target)

    def take(self, source: Path) -> tuple[str, int]:
        """Move a file in; the digest and the size it has."""
        hasher = hashlib.sha256()
        size = 0
        with source.open("rb") as file:
            while chunk := file.read(_CHUNK):
                hasher.update(chunk)
                size += len(chunk)
        digest = hasher.hexdigest()
        target = self.place(digest)
        # The source is a link that keeps it; unless another was here before.
        if not os.path.exists(target) or not self.has(digest):
            # A link, not a move: whoever is killed in between finds the source again.
            temporary = f"{self._root}/{_INCOMING}{digest}-{threading.get_ident()}"
            remove_if_there(temporary)
            os.link(source, temporary)
            put_in_place(temporary, target)
        return digest, size


class IncomingBlob:
    """A blob being written; nothing of it is seen until it is `put`."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._hasher = hashlib.sha256()
        self._digest = ""
        handle, self._name = tempfile.mkstemp(prefix=_INCOMING, dir=store.root)
        self._file = os.fdopen(handle, "wb")

    def __enter__(self) -> IncomingBlob:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._name:
            os.unlink(self._name)

    def write(self, data: bytes | memoryview) -> None:
        """Add some bytes."""
        self._hasher.update(data)
        self._file.write(data)

    def check(self, digest: str) -> None:
        """Refuse bytes that have another digest."""
        actual = self._hasher.hexdigest()
        if actual != digest:
            raise ValueError(f"the bytes have the digest {actual}, not {digest}")
        self._file.flush()
        self._digest = digest

    def sync(self) -> None:
        """Have all of it on the disk."""
        os.fsync(self._file.fileno())

    def put(self) -> None:
        """Give the blob its name, once it is checked and on the disk."""
        self._file.close()
        if self._store.may_come(self._digest, self._name):
            put_in_place(self._name, self._store.place(self._digest))
            self._name = ""


class Arrivals:
    """Blobs that have arrived whole and have no name yet: many are put on the disk at once.

    The disk takes many at a time in little more than the time of one, and one after the other
    10,000 small files would take most of a minute. They get their names in their order.
    """

    def __init__(self) -> None:
        self._waiting: list[IncomingBlob] = []
        self._pool: ThreadPoolExecutor | None = None

    def add(self, blob: IncomingBlob) -> None:
        """Take in a blob that was checked."""
        self._waiting.append(blob)
        if len(self._waiting) >= _BATCH:
            self.settle()

    def settle(self) -> None:
        """Have all that came on the disk, under their names."""
        if len(self._waiting) == 1:
            self._waiting[0].sync()
        elif self._waiting:
            self._pool = self._pool or ThreadPoolExecutor(_AT_A_TIME, "windlass-sync")
            list(self._pool.map(IncomingBlob.sync, self._waiting))
        for blob in self._waiting:
            blob.put()
        self._waiting.clear()

    def close(self) -> None:
        """Let go of what has no name."""
        if self._pool is not None:
            self._pool.shutdown()
        for blob in self._waiting:
            blob.__exit__()
        self._waiting.clear()


def _needed_by(path: str) -> Iterable[str]:
    """The blobs that a list of files cannot do without; none if it is no list."""
    with open(path, "rb") as file:
        if file.read(len(_LIST)) != _LIST:
            return ()
        file.seek(0)
        data = file.read()
    try:
        # Not whatever reads like a digest: a file may be called so.
        return [digest for digest in blobs_of(decode(data)) if is_digest(digest)]
    except (KeyError, TypeError, ValueError, IndexError, RecursionError):
        return ()  # it only begins like one


def _listed_in(path: str) -> list[str] | None:
    with open(path, "rb") as file:
        if file.read(len(_LIST)) != _LIST:
            return None
        return [found.decode() for found in DIGEST_IN_TEXT.findall(file.read())]


def put_in_place(temporary: str, target: str) -> None:
    """Give a file its name, in a folder that is made with its first file."""
    try:
        os.replace(temporary, target)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        os.replace(temporary, target)
