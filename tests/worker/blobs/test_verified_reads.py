"""Blobs are verified when they are read, and damaged blobs are set aside."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from windlass.worker.blobs.digest import fastest_kind
from windlass.worker.blobs.manifest import check_of, encode
from windlass.worker.blobs.restore_tree import RestoreError, read_tree, restore
from windlass.worker.blobs.verified_reads import (
    DAMAGED,
    VERIFIED,
    DamagedBlob,
    check_file,
    damaged_blobs,
    open_verified,
    read_blob,
)

pytestmark = pytest.mark.finding("A11")


def put(blobs: Path, data: bytes, digest: str = "") -> Path:
    digest = digest or hashlib.sha256(data).hexdigest()
    path = blobs / digest[-64:-62] / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def flip(path: Path, position: int = 0) -> None:
    """Change one byte and keep the length."""
    with path.open("r+b") as file:
        file.seek(position)
        old = file.read(1)
        file.seek(position)
        file.write(bytes([old[0] ^ 1]))


@pytest.mark.parametrize("size", [1, 5_000, 300_000, 3_000_000])
def test_a_blob_with_other_bytes_of_the_same_length_is_set_aside(tmp_path: Path, size: int) -> None:
    blob = put(tmp_path, bytes(size))
    assert read_blob(str(tmp_path), blob.name) == bytes(size)
    os.close(open_verified(str(tmp_path), blob.name))
    flip(blob, size - 1)
    damaged = blob.read_bytes()
    with pytest.raises(DamagedBlob, match="was set aside"):
        os.close(open_verified(str(tmp_path), blob.name))
    assert damaged_blobs(str(tmp_path)) == {blob.name}
    assert (tmp_path / f"{DAMAGED}{blob.name}").read_bytes() == damaged
    with pytest.raises(FileNotFoundError):
        read_blob(str(tmp_path), blob.name)


@pytest.mark.parametrize("kind", ["sha256", "blake3"])
def test_every_file_of_a_tree_is_verified(tmp_path: Path, kind: str) -> None:
    blobs, contents = tmp_path / "blobs", [b"small", bytes(300_000)]
    named = fastest_kind() if kind == "blake3" else None
    for content in contents:
        digest = named.digest_of(content) if named else hashlib.sha256(content).hexdigest()
        blob = put(blobs, content, digest)
        tree = read_tree(encode([("file", "f", digest, len(content))]))
        restore(tree, str(tmp_path / "work"), str(blobs))
        assert (tmp_path / "work" / "file").read_bytes() == content
        flip(blob)
        with pytest.raises(RestoreError, match="'file' is damaged in the store"):
            restore(tree, str(tmp_path / "work"), str(blobs))
        assert not blob.exists()


def test_a_damaged_file_in_a_bundle_is_not_restored(tmp_path: Path) -> None:
    blobs, kind, parts = tmp_path / "blobs", fastest_kind(), [b"first", b"second"]
    bundle = put(blobs, b"".join(parts), kind.digest_of(b"".join(parts)))
    entries = [
        (f"{number}", "f", bundle.name, len(part), 5 * number, check_of(kind.digest_of(part)))
        for number, part in enumerate(parts)
    ]
    tree = read_tree(encode(entries))
    restore(tree, str(tmp_path / "work"), str(blobs))
    assert [(tmp_path / "work" / f"{n}").read_bytes() for n in (0, 1)] == parts
    flip(bundle, 6)
    with pytest.raises(RestoreError, match="'1' is damaged in the store"):
        restore(tree, str(tmp_path / "work"), str(blobs))
    assert damaged_blobs(str(blobs)) == {bundle.name}


def test_a_large_blob_is_hashed_once_until_it_changes(tmp_path: Path) -> None:
    blob = put(tmp_path, bytes(1 << 20))
    os.close(open_verified(str(tmp_path), blob.name))
    assert not (tmp_path / VERIFIED).exists()  # a write right now might keep the time of the file
    time.sleep(2.1)
    os.close(open_verified(str(tmp_path), blob.name))
    note = tmp_path / VERIFIED / blob.name
    before = note.stat().st_mtime_ns
    os.close(open_verified(str(tmp_path), blob.name))
    assert note.stat().st_mtime_ns == before, "not verified again"

    status = blob.stat()
    flip(blob)
    os.utime(blob, ns=(status.st_atime_ns, status.st_mtime_ns))  # the time of change remains
    with pytest.raises(DamagedBlob):
        os.close(open_verified(str(tmp_path), blob.name))


def test_a_check_of_all_contents_ignores_notes(tmp_path: Path) -> None:
    blob = put(tmp_path, bytes(1 << 20))
    flip(blob)
    status = blob.stat()
    facts = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    (tmp_path / VERIFIED).mkdir()
    (tmp_path / VERIFIED / blob.name).write_text(" ".join(map(str, facts)))
    fd = open_verified(str(tmp_path), blob.name)  # as after a fault of the disk
    try:
        with pytest.raises(DamagedBlob):
            check_file(str(tmp_path), blob.name, fd, again=True)
    finally:
        os.close(fd)


@pytest.mark.finding("A10")
@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)],
    ids=["pipe", "folder", "link"],
)
def test_only_regular_files_are_blobs(tmp_path: Path, make: Callable[[Path], None]) -> None:
    blob = put(tmp_path, b"hello")
    blob.unlink()
    make(blob)
    with pytest.raises(DamagedBlob):
        read_blob(str(tmp_path), blob.name)
    assert not os.path.lexists(blob)


@pytest.mark.finding("A10")
def test_a_blob_above_the_limit_is_not_read(tmp_path: Path) -> None:
    blob = put(tmp_path, b"hello")
    with pytest.raises(ValueError, match="more than 4"):
        read_blob(str(tmp_path), blob.name, limit=4)
    os.truncate(blob, 200 << 20)
    with pytest.raises(DamagedBlob):
        read_blob(str(tmp_path), blob.name)
