"""The pipe for typed input, and the stored output."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from windlass.worker.shell import input_pipe, output_log
from windlass.worker.shell.input_pipe import END, SIZE, TYPED, InputPipe

ADA, BOB = b"ada-----", b"bob-----"


@pytest.fixture
def typing(tmp_path: Path) -> InputPipe:
    return InputPipe(str(tmp_path))


def write(folder: Path, *frames: bytes) -> None:
    pipe = os.open(folder / input_pipe.PIPE, os.O_WRONLY | os.O_NONBLOCK)
    for frame in frames:
        assert os.write(pipe, frame) == len(frame)
    os.close(pipe)


def typed(reader: InputPipe) -> bytes:
    return b"".join(data for kind, data in reader.read() if kind == TYPED)


def test_typed_input_arrives_in_order_with_sizes_and_the_end(
    tmp_path: Path, typing: InputPipe
) -> None:
    frames = [*input_pipe.typed(ADA, 0, b"ls\r"), input_pipe.resized(50, 132), input_pipe.ended()]
    write(tmp_path, *frames)
    assert list(typing.read()) == [(TYPED, b"ls\r"), (SIZE, frames[1][-4:]), (END, b"")]
    assert input_pipe.size_of(frames[1][-4:]) == (50, 132)


def test_repeated_input_is_typed_once(tmp_path: Path, typing: InputPipe) -> None:
    """A server that was killed after writing, before answering, makes a client send it again."""
    write(tmp_path, *input_pipe.typed(ADA, 0, b"abc"))
    write(tmp_path, *input_pipe.typed(BOB, 0, b"xyz"))
    write(tmp_path, *input_pipe.typed(ADA, 0, b"abcdef"))
    write(tmp_path, *input_pipe.typed(ADA, 2, b"cdefgh"))
    assert typed(typing) == b"abcxyzdefgh"


def test_a_long_text_is_several_frames_that_arrive_whole(tmp_path: Path, typing: InputPipe) -> None:
    text = os.urandom(40_000)
    frames = list(input_pipe.typed(ADA, 7, text))
    assert len(frames) > 5
    assert all(len(frame) <= 4096 for frame in frames), "no larger than one write"
    write(tmp_path, *frames)
    assert typed(typing) == text


def test_only_the_owner_may_type_and_only_before_it_is_closed(
    tmp_path: Path, typing: InputPipe
) -> None:
    assert stat.S_IMODE((tmp_path / input_pipe.PIPE).stat().st_mode) == 0o600
    typing.close()
    with pytest.raises(FileNotFoundError):
        write(tmp_path, input_pipe.ended())


def test_only_the_last_output_is_stored(tmp_path: Path) -> None:
    writer = output_log.Writer(str(tmp_path))
    piece = os.urandom(300_000)
    count = 2 * output_log.PIECE * output_log.PIECES // len(piece)
    for _ in range(count):
        writer.add(piece)
    everything = piece * count
    assert output_log.end(str(tmp_path)) == len(everything)
    files = list((tmp_path / output_log.FOLDER).iterdir())
    assert len(files) == output_log.PIECES
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    place, data = output_log.read(str(tmp_path), 5, 1000)
    assert place > len(everything) - output_log.PIECE * output_log.PIECES - 1, "the oldest is gone"
    assert data == everything[place : place + 1000]


def test_stored_output_is_read_across_pieces(tmp_path: Path) -> None:
    text = os.urandom(2 * output_log.PIECE + 5)
    output_log.Writer(str(tmp_path)).add(text)
    received, place = b"", 0
    while True:
        start, data = output_log.read(str(tmp_path), place, 700_000)
        assert start == place
        if not data:
            break
        received, place = received + data, place + len(data)
    assert received == text


def test_without_output_nothing_is_read(tmp_path: Path) -> None:
    assert output_log.read(str(tmp_path), 0, 10) == (0, b"")
    assert output_log.end(str(tmp_path)) == 0
