"""Large files are copied into the store completely and under the correct digest."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from windlass.worker.blobs.copy_large_file import FileCopy, hash_file
from windlass.worker.blobs.digest import Kind, fastest_kind, kind_of

PIECE = 8 << 20
KINDS = [fastest_kind(), kind_of("ab" * 32)]
KIND = KINDS[0]


def copy(source: Path, target: Path, size: int, kind: Kind = KIND) -> str | None:
    """Copy like a checkpoint: one thread reads and hashes, another writes."""
    ins = os.open(source, os.O_RDONLY)
    out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        both = FileCopy(ins, out, size, kind)
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(both.write)
            digest = both.read()
            writing.result()
        return digest
    finally:
        os.close(ins)
        os.close(out)


@pytest.mark.parametrize("kind", KINDS, ids=["fastest", "sha256"])
@pytest.mark.parametrize("where", ["disk", "memory"])
@pytest.mark.parametrize(
    "size",
    [
        *(1, 4095, 4096, PIECE, 3 * PIECE + 4097),
        *(pytest.param(size, marks=pytest.mark.thorough) for size in (PIECE + 1, 3 * PIECE)),
    ],
)
def test_a_copy_has_its_digest(tmp_path: Path, size: int, where: str, kind: Kind) -> None:
    # A file system in memory may not support direct I/O.
    folder = tmp_path if where == "disk" else memory()
    source, target = (folder / f"{name}-{os.getpid()}-{size}" for name in ("source", "copy"))
    data = os.urandom(size)
    source.write_bytes(data)
    try:
        assert copy(source, target, size, kind) == kind.digest_of(data)
        assert target.read_bytes() == data
    finally:
        target.unlink()
        source.unlink()


@pytest.mark.parametrize("size", [PIECE + 99, 3 * PIECE, 4 * PIECE])
def test_a_file_that_changes_its_length_has_no_digest(tmp_path: Path, size: int) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(2 * PIECE))
    assert copy(source, tmp_path / "copy", size) is None


def test_an_endless_file_is_abandoned() -> None:
    target = memory() / f"endless-{os.getpid()}"
    try:
        assert copy(Path("/dev/zero"), target, PIECE) is None
    finally:
        target.unlink()


@pytest.mark.parametrize("kind", KINDS, ids=["fastest", "sha256"])
@pytest.mark.parametrize("size", [0, 1, PIECE, 3 * PIECE + 5])
def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path, size: int, kind: Kind) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        assert hash_file(fd, kind) == kind.digest_of(data)
    finally:
        os.close(fd)


def memory() -> Path:
    folder = Path("/dev/shm")
    if not folder.is_dir():
        pytest.skip("there is no file system in memory at /dev/shm")
    return folder
