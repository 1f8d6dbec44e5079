"""A pack of blobs whose storage fails in the middle."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from windlass.server.stores.blobs.files import FileBlobStore


@pytest.mark.finding("A1")
def test_an_error_of_one_blob_is_raised_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    store = FileBlobStore(tmp_path)
    contents = sorted((b"one", b"two", b"three"), key=lambda data: hashlib.sha256(data).digest())
    digests = [hashlib.sha256(data).hexdigest() for data in contents]
    (tmp_path / digests[1][:2]).touch()  # the second blob's folder cannot be created
    uploads = store.start_uploads()
    for data, digest in zip(contents, digests, strict=True):
        uploads.write(data)
        uploads.finish(digest)
    with pytest.raises(OSError, match="Not a directory"):
        uploads.commit()
    uploads.commit()  # the remaining blobs
    uploads.close()
    assert [store.path(digest) for digest in digests if Path(store.path(digest)).is_file()] == [
        store.path(digests[0]),
        store.path(digests[2]),
    ]
    assert not list(tmp_path.glob(".in-*"))
