"""Digests, which serve as names of blobs, and the blobs' paths in the store.

Code, results, manifests and uploads are named by the SHA-256 of their content. Checkpoint files are
named by their BLAKE3 hash, which is about five times as fast to compute, with the prefix `b3-`. If
the saving interpreter lacks the BLAKE3 package, it uses SHA-256 for them, too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BLAKE3 = "b3-"
_HEX = frozenset("0123456789abcdef")


class Kind:
    """A hash algorithm, with the prefix of its digests."""

    __slots__ = ("_prefix", "hasher")

    def __init__(self, prefix: str, hasher: Callable[..., Any]) -> None:
        self._prefix = prefix
        self.hasher = hasher  # creates a hasher, as `hashlib.sha256` does

    def has_named(self, digest: str) -> bool:
        """Return whether a digest was computed with this hash algorithm.

        >>> Kind("b3-", None).has_named("ab" * 32), Kind("", None).has_named("ab" * 32)
        (False, True)
        """
        return len(digest) - len(self._prefix) == 64 and digest.startswith(self._prefix)

    def digest(self, hasher: Any) -> str:
        """Return the digest of all data that was passed to a hasher of this algorithm."""
        return f"{self._prefix}{hasher.hexdigest()}"

    def digest_of(self, data: bytes | memoryview) -> str:
        """Return the digest of some bytes.

        >>> Kind("b3-", lambda data: __import__("hashlib").sha256(data)).digest_of(b"")[:9]
        'b3-e3b0c4'
        """
        return self.digest(self.hasher(data))


def fastest_kind() -> Kind:
    """Return the hash algorithm that is fastest for large content in this interpreter."""
    try:
        return _blake3()
    except ImportError:  # the package may be missing in the trial's environment
        return _sha256()


def kind_of(digest: str) -> Kind:
    """Return the hash algorithm that computed a digest.

    Raise `ImportError` if this interpreter lacks the algorithm's package.

    >>> kind_of("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855").digest_of(b"")
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    """
    return _blake3() if digest.startswith(_BLAKE3) else _sha256()


def is_digest(text: object) -> bool:
    """Return whether a value is a valid digest.

    >>> is_digest("ab" * 32), is_digest("b3-" + "ab" * 32), is_digest("../" + "ab" * 32)
    (True, True, False)
    """
    if not isinstance(text, str):
        return False
    plain = text.removeprefix(_BLAKE3)
    return len(plain) == 64 and _HEX.issuperset(plain)


def path_in_store(blobs: str, digest: str) -> str:
    """Return a blob's path in the store, which spreads blobs over 256 folders.

    >>> path_in_store("/blobs", "b3-" + "ab" * 32)[:15]
    '/blobs/ab/b3-ab'
    >>> path_in_store("/blobs", "../token")
    Traceback (most recent call last):
    ...
    ValueError: '../token' is not a digest
    """
    if not is_digest(digest):
        raise ValueError(f"{digest[:100]!r} is not a digest")
    return f"{blobs}/{digest[-64:-62]}/{digest}"


def _blake3() -> Kind:
    from blake3 import blake3

    return Kind(_BLAKE3, blake3)


def _sha256() -> Kind:
    from hashlib import sha256

    return Kind("", sha256)
