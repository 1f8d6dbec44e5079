"""Large files on their way into the store: whole, named for what they are, whatever their size."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from windlass.worker.copying import Copying, are_same

PIECE = 2 << 20


def copy(source: Path, target: Path, size: int) -> str | None:
    """As those who save do, in one thread: a few pieces are read ahead of who hashes."""
    from concurrent.futures import ThreadPoolExecutor

    ins = os.open(source, os.O_RDONLY)
    out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        both = Copying(ins, out, size)
        with ThreadPoolExecutor(1) as pool:
            copying = pool.submit(both.copy)
            digest = both.hash()
            copying.result()
        return digest
    finally:
        os.close(ins)
        os.close(out)


@pytest.mark.parametrize("where", ["disk", "memory"])
@pytest.mark.parametrize("size", [1, 4095, 4096, PIECE, PIECE + 1, 5 * PIECE, 5 * PIECE + 4097])
def test_a_copy_is_what_its_digest_says(tmp_path: Path, size: int, where: str) -> None:
    # A file system in memory may know nothing of a way past the kernel's.
    folder = tmp_path if where == "disk" else memory()
    source, target = folder / "source", folder / f"copy-{os.getpid()}-{size}"
    data = os.urandom(size)
    source.write_bytes(data)
    try:
        assert copy(source, target, size) == hashlib.sha256(data).hexdigest()
        assert target.read_bytes() == data
    finally:
        target.unlink()
        source.unlink()


@pytest.mark.parametrize("size", [PIECE + 99, 3 * PIECE, 9 * PIECE])
def test_one_that_is_not_as_long_as_it_was_has_no_digest(tmp_path: Path, size: int) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(2 * PIECE))
    assert copy(source, tmp_path / "copy", size) is None


def test_one_that_has_no_end_is_given_up() -> None:
    target = memory() / f"endless-{os.getpid()}"
    try:
        assert copy(Path("/dev/zero"), target, PIECE) is None
    finally:
        target.unlink()


@pytest.mark.parametrize("size", [1, PIECE - 1, PIECE, 3 * PIECE + 5])
def test_files_are_the_same_to_their_last_byte_or_not(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)

    def compared(other: bytes) -> bool:
        (tmp_path / "mine").write_bytes(data)
        (tmp_path / "theirs").write_bytes(other)
        fd = os.open(tmp_path / "mine", os.O_RDONLY)
        try:
            return are_same(fd, str(tmp_path / "theirs"))
        finally:
            os.close(fd)

    assert compared(data)
    assert not compared(data[:-1])
    assert not compared(data + b"x")
    assert not compared(data[:-1] + bytes([data[-1] ^ 1]))


def memory() -> Path:
    folder = Path("/dev/shm")
    if not folder.is_dir():
        pytest.skip("there is no file system in memory at /dev/shm")
    return folder
