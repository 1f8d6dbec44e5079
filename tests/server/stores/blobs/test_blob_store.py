"""A named blob is complete and has the digest in its name."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.model.errors import InvalidArgument
from windlass.server.api.blobs import _Intake
from windlass.server.stores.blobs.files import FileBlobStore

unhurried = settings(suppress_health_check=[HealthCheck.too_slow])


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def pack(*blobs: bytes) -> bytes:
    """A pack of blobs in the upload format."""
    return b"".join(
        hashlib.sha256(blob).digest() + len(blob).to_bytes(8, "big") + blob for blob in blobs
    )


def files(store: FileBlobStore) -> set[str]:
    return {path.name for path in store.root.rglob("*") if path.is_file()}


@pytest.fixture
def store(tmp_path: Path) -> FileBlobStore:
    return FileBlobStore(tmp_path / "blobs")


def test_a_blob_is_found_by_its_digest_and_stored_once(store: FileBlobStore) -> None:
    digest = store.put(b"hello")
    assert digest == digest_of(b"hello")
    inode = os.stat(store.path(digest)).st_ino
    assert store.put(b"hello", digest=digest) == digest
    assert os.stat(store.path(digest)).st_ino == inode
    assert (store.get(digest), store.size(digest)) == (b"hello", 5)
    other = digest_of(b"other")
    assert store.missing([other, digest, other]) == [other]
    assert oct(os.stat(store.path(digest)).st_mode)[-3:] == "600"


def test_bytes_with_another_digest_are_refused_and_leave_nothing(store: FileBlobStore) -> None:
    with pytest.raises(ValueError, match="digest"):
        store.put(b"hello", digest=digest_of(b"other"))
    uploads = store.start_uploads()
    uploads.write(b"hel")
    with pytest.raises(ValueError, match="digest"):
        uploads.finish(digest_of(b"hello"))
    uploads.close()
    uploads = store.start_uploads()
    uploads.write(b"never kept")
    uploads.close()
    assert files(store) == set()


def test_blobs_that_arrive_together_are_stored_together(store: FileBlobStore) -> None:
    uploads = store.start_uploads()
    texts = [b"blob %d" % number for number in range(300)]
    for text in texts:
        uploads.write(text)
        uploads.finish(digest_of(text))
    is_there = [store.has(digest_of(text)) for text in texts]
    assert any(is_there), "a batch was full"
    assert not all(is_there), "the last is not"
    uploads.commit()
    uploads.close()
    assert [store.get(digest_of(text)) for text in texts] == texts
    assert len(files(store)) == 300, "nothing is left of their coming"


def test_abandoned_blobs_leave_nothing(store: FileBlobStore) -> None:
    uploads = store.start_uploads()
    uploads.write(b"hello")
    uploads.finish(digest_of(b"hello"))
    uploads.close()
    assert files(store) == set()


@pytest.mark.parametrize(
    "digest",
    ["", "..", "../../token", "/etc/passwd", "0" * 63, "0" * 65, "G" * 64, "A" * 64,
     "0" * 64 + "\n", "0" * 62 + "/.", "\u0660" * 64],
)  # fmt: skip
def test_an_invalid_digest_names_no_file(store: FileBlobStore, digest: str) -> None:
    for use in (store.path, store.has, store.get, store.size):
        with pytest.raises(ValueError, match="digest"):
            use(digest)


def test_a_file_is_added_and_stays_in_its_place(store: FileBlobStore, tmp_path: Path) -> None:
    source = tmp_path / "result.pkl"
    source.write_bytes(b"value")
    assert store.put_file(source) == (digest_of(b"value"), 5)
    assert store.put_file(source) == (digest_of(b"value"), 5)  # repeated, as after a kill
    assert store.get(digest_of(b"value")) == b"value"
    assert source.read_bytes() == b"value"
    assert files(store) == {digest_of(b"value")}


@unhurried
@given(st.lists(st.binary(max_size=200), max_size=6), st.data())
def test_a_pack_may_arrive_in_any_chunks(
    tmp_path_factory: pytest.TempPathFactory, blobs: list[bytes], data: st.DataObject
) -> None:
    store = FileBlobStore(tmp_path_factory.mktemp("blobs"))
    packed = pack(*blobs)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(packed)), max_size=8)))
    intake = _Intake(store)
    for start, end in zip([0, *cuts], [*cuts, len(packed)], strict=True):
        intake.feed(packed[start:end])
    intake.close()
    assert not intake.is_torn
    assert intake.stored == len(blobs)
    assert files(store) == {digest_of(blob) for blob in blobs}
    assert all(store.get(digest_of(blob)) == blob for blob in blobs)


@unhurried
@given(st.lists(st.binary(min_size=1, max_size=100), min_size=1, max_size=4), st.data())
def test_only_complete_blobs_of_a_truncated_pack_are_stored(
    tmp_path_factory: pytest.TempPathFactory, blobs: list[bytes], data: st.DataObject
) -> None:
    store = FileBlobStore(tmp_path_factory.mktemp("blobs"))
    packed = pack(*blobs)
    ends = [len(pack(*blobs[:count])) for count in range(len(blobs) + 1)]
    cut = data.draw(st.integers(0, len(packed)).filter(lambda n: n not in ends))
    intake = _Intake(store)
    intake.feed(packed[:cut])
    assert intake.is_torn
    intake.close()
    whole = blobs[: sum(end <= cut for end in ends) - 1]
    assert files(store) == {digest_of(blob) for blob in whole}


def test_a_damaged_blob_in_a_pack_is_refused(store: FileBlobStore) -> None:
    damaged = bytearray(pack(b"first", b"second"))
    damaged[-1] ^= 1
    intake = _Intake(store)
    with pytest.raises(InvalidArgument, match="damaged"):
        intake.feed(bytes(damaged))
    intake.close()
    assert files(store) == {digest_of(b"first")}


def test_partial_files_of_a_killed_server_are_never_visible(store: FileBlobStore) -> None:
    uploads = store.start_uploads()
    uploads.write(b"half of ")
    assert not store.has(digest_of(b"half of "))
    assert all(name.startswith(".in-") for name in os.listdir(store.root))
    uploads.close()
    assert files(store) == set()


def test_partial_files_of_a_killed_server_are_deleted(tmp_path: Path) -> None:
    store = FileBlobStore(tmp_path)
    kept = store.put(b"whole")
    half = store.start_uploads()
    half.write(b"hal")
    assert len(list(tmp_path.iterdir())) == 2
    FileBlobStore(tmp_path).sweep()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [kept]
    assert store.get(kept) == b"whole"
