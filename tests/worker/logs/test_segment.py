"""Log segments return the written records with every way of reading."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.worker.logs import segment_reader
from windlass.worker.logs.segment import (
    STDERR,
    STDOUT,
    SegmentWriter,
    encode_lines,
    encode_open,
    read_parts,
)
from windlass.worker.logs.segment_reader import first_since, join_lines, tail

text = st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b""))
records = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), text, st.booleans()), max_size=30)


def encoded(written: list[tuple[str, bytes, bool]]) -> bytes:
    return b"".join(
        encode_lines(i, stream, text + b"\n") if ended else encode_open(i, stream, text)
        for i, (stream, text, ended) in enumerate(written)
    )


@given(records, st.integers(0, 500))
def test_only_complete_records_are_read(written: list[tuple[str, bytes, bool]], cut: int) -> None:
    data = encoded(written)
    parts = read_parts(data, 1000)
    assert [(stream, text, ended) for _, stream, text, ended, _ in parts] == written
    if written:
        assert parts[-1][4] == 1000 + len(data)
    torn = read_parts(data[:cut])
    assert [part[:4] for part in torn] == [part[:4] for part in parts[: len(torn)]]


@given(st.binary(max_size=300))
def test_any_bytes_can_be_read_without_an_error(data: bytes) -> None:
    for time, stream, *_ in read_parts(data):
        assert time == time and stream in (STDOUT, STDERR)


@given(written=records, block=st.sampled_from([60, 97, 1 << 20]), count=st.integers(0, 8))
def test_the_tail_agrees_with_reading_everything(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[tuple[str, bytes, bool]],
    block: int,
    count: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / "tailed"
    path.write_bytes(encoded(written))
    before = segment_reader._TAIL_BLOCK
    segment_reader._TAIL_BLOCK = block
    try:
        lines = join_lines(read_parts(path.read_bytes()))
        last, end = tail(str(path), count)
        if block > 1000 or all(ended for *_, ended in written):
            assert last == (lines[-count:] if count else [])
        assert end == path.stat().st_size
    finally:
        segment_reader._TAIL_BLOCK = before


@given(
    lengths=st.lists(st.sampled_from([0, 5, 300, 5000, 65536]), max_size=20),
    junk=st.sampled_from([b"", b"torn\n", b"\0" * 70_000 + b"\n", b"1763244000.9\n"]),
    when=st.floats(0, 25),
)
def test_the_first_record_since_a_time_is_found(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], junk: bytes, when: float
) -> None:
    path = tmp_path_factory.getbasetemp() / "timed"
    entries = [encode_lines(i, STDOUT, b"x" * length + b"\n") for i, length in enumerate(lengths)]
    entries.insert(len(entries) // 2, junk)
    path.write_bytes(b"".join(entries))
    parts = read_parts(path.read_bytes())
    later = [part for part in parts if part[0] >= when]
    first_line = first_since(str(path), when)
    assert [part[0] for part in read_parts(path.read_bytes()[first_line:])] == [p[0] for p in later]


def test_the_next_writer_cuts_off_a_record_torn_by_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(encode_lines(1.0, STDOUT, b"whole\n") + b"0000000001.000000:o to")
    writer = SegmentWriter(str(path))
    writer.add(encode_lines(2.0, STDOUT, b"next\n"))
    writer.flush(2.0)
    writer.close()
    assert [part[2] for part in read_parts(path.read_bytes())] == [b"whole", b"next"]


@pytest.mark.finding("A14")
@pytest.mark.parametrize(("buffer", "lost"), [(1 << 20, 0), (30, 27)])
def test_a_full_disk_loses_only_records_beyond_the_buffer(
    tmp_path: Path, buffer: int, lost: int
) -> None:
    program = f"""
import resource
from windlass.worker.logs import segment
from windlass.worker.logs.segment import *
segment.BUFFER = {buffer}
def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
writer = SegmentWriter({str(tmp_path / "log")!r})
limit(60)
for text in (b"first\\n", b"second\\n", b"third\\n", b"fourth\\n"):
    writer.add(encode_lines(1.0, STDOUT, text))
    writer.flush(1.0)
assert writer.unwritten == 53
limit(10_000)
writer.add(encode_lines(2.0, STDOUT, b"last\\n"))
assert writer.flush(2.0) and not writer.unwritten
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    parts = read_parts((tmp_path / "log").read_bytes())
    note = [(STDERR, f"{lost} bytes of log lost: no space left".encode())] if lost else []
    assert [(part[1], part[2]) for part in parts] == [
        (STDOUT, b"first"),
        (STDOUT, b"second"),
        (STDOUT, b"third"),
        *(note or [(STDOUT, b"fourth")]),
        (STDOUT, b"last"),
    ]


def test_a_log_that_cannot_be_written_blocks_no_program(tmp_path: Path) -> None:
    writer = SegmentWriter(str(tmp_path / "log"))
    writer.close()
    writer.add(encode_lines(1.0, STDOUT, b"unheard\n"))
    assert not writer.flush(1.0)
    assert writer.unwritten
    assert writer.why_unwritten == "Bad file descriptor"
