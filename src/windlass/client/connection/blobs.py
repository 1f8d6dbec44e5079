"""Fetches stored blobs from the server, many per request, and checks their digests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from windlass.client.connection.transport import Transport
from windlass.model.errors import ServerError
from windlass.model.requests import MOST_FETCHED, FetchBlobs
from windlass.worker.blobs.digest import kind_of

_HEADER = 40
_AT_ONCE = 32_000_000  # the maximum number of bytes to hold in memory per request
_MOST_KEPT = 64
_LARGEST_KEPT = 1_000_000

# A cache for package lists and file lists, which repeated comparisons need again. A blob never
# changes, because its digest identifies its content.
_kept: dict[str, bytes] = {}


def fetch_blobs(transport: Transport, digests: Iterable[str]) -> dict[str, bytes]:
    """Fetch blobs by digest. Blobs that the server does not have are missing in the result."""
    wanted = list(dict.fromkeys(digests))
    blobs: dict[str, bytes] = {}
    for start in range(0, len(wanted), MOST_FETCHED):
        request = FetchBlobs(digests=tuple(wanted[start : start + MOST_FETCHED]))
        pack = transport.fetch("POST", "/blobs/fetch", body=request)
        blobs.update(read_pack(pack, request.digests))
    return blobs


def fetch_lists(transport: Transport, digests: Iterable[str]) -> dict[str, bytes]:
    """Fetch small blobs that are often needed again, and cache them."""
    wanted = list(dict.fromkeys(digests))
    blobs = {digest: _kept[digest] for digest in wanted if digest in _kept}
    lacking = [digest for digest in wanted if digest not in blobs]
    if lacking:
        fetched = fetch_blobs(transport, lacking)
        blobs |= fetched
        _kept.update({d: data for d, data in fetched.items() if len(data) <= _LARGEST_KEPT})
        for digest in list(_kept)[: max(len(_kept) - _MOST_KEPT, 0)]:
            _kept.pop(digest, None)
    return blobs


def fetch_in_batches(
    transport: Transport, sizes: dict[str, int]
) -> Iterator[tuple[Sequence[str], dict[str, bytes]]]:
    """Fetch many blobs in batches. For each batch, yield the requested digests and the blobs."""
    batch: list[str] = []
    held = 0
    for digest, size in sizes.items():
        if batch and (held + size > _AT_ONCE or len(batch) == MOST_FETCHED):
            yield batch, fetch_blobs(transport, batch)
            batch, held = [], 0
        batch.append(digest)
        held += size
    if batch:
        yield batch, fetch_blobs(transport, batch)


def read_pack(pack: bytes, digests: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the blobs in a pack, the response to a request for several blobs.

    Raise `ServerError` if a digest is wrong or the pack is incomplete.

    A pack stores each digest as 32 bytes without a prefix. `digests` are the requested digests,
    with prefixes.

    >>> digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    >>> pack = bytes.fromhex(digest) + (5).to_bytes(8, "big") + b"hello"
    >>> [data for _, data in read_pack(pack, [digest])]
    [b'hello']
    """
    names = {digest[-64:]: digest for digest in digests}
    position = 0
    while position < len(pack):
        start = position + _HEADER
        plain = pack[position : position + 32].hex()
        digest = names.get(plain, plain)
        length = int.from_bytes(pack[position + 32 : start], "big")
        data = pack[start : start + length]
        if len(data) != length or kind_of(digest).digest_of(data) != digest:
            raise ServerError(
                f"The server's blob {digest[:12]} is damaged.",
                hint="Find the cause: windlass doctor. Its log: windlass server logs",
            )
        yield digest, data
        position = start + length
