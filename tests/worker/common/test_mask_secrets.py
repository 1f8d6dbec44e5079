"""Secrets are masked with any split of the stream."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from windlass.worker.common.mask_secrets import MASK, Masker, mask_text
from windlass.worker.logs.output_pump import Stream
from windlass.worker.logs.segment import STDOUT, SegmentWriter, read_parts
from windlass.worker.logs.segment_reader import join_lines

SECRETS = ["hunter2", "hunter2-long", "key\nline two"]


@given(
    st.lists(st.sampled_from([*SECRETS, "hunt", "h", " ", "plain", "\n", "2-l"]), max_size=12),
    st.lists(st.integers(1, 7), min_size=1, max_size=40),
)
def test_no_secret_is_shown_with_any_split(words: list[str], cuts: list[int]) -> None:
    data = "".join(words).encode()
    masker = Masker(SECRETS)
    shown, at = b"", 0
    for size in cuts:
        shown += masker.feed(data[at : at + size])
        at += size
    shown += masker.feed(data[at:]) + masker.release()
    assert not masker.is_holding
    for secret in ("hunter2", "line two"):
        assert secret.encode() not in shown
    if MASK.encode() not in shown:
        assert shown == data


def test_short_values_are_not_masked() -> None:
    assert mask_text("a yes b", ["yes"]) == "a yes b"
    assert Masker(["yes"]).feed(b"yes") == b"yes"


def test_the_longest_secret_is_masked_as_one() -> None:
    masker = Masker(SECRETS)
    assert masker.feed(b"hunter2") == b""
    assert masker.feed(b"-long.") == b"***."


def test_a_partial_secret_is_shown_at_the_end(tmp_path: object) -> None:
    log_path = os.path.join(str(tmp_path), "log")
    log = SegmentWriter(log_path)
    read_end, write_end = os.pipe()
    stream = Stream(read_end, STDOUT, SECRETS, log)

    def shown() -> bytes:
        log.flush(1.0)
        with open(log_path, "rb") as file:
            return b"".join(line.text for line in join_lines(read_parts(file.read())))

    os.write(write_end, b"name: hunt")
    assert stream.read(0.0)
    assert stream.due is not None
    stream.flush(stream.due)
    assert shown() == b"name: "
    assert stream.due is not None
    stream.flush(stream.due)
    assert stream.due is not None
    stream.flush(stream.due)
    assert shown() == b"name: hunt"
    os.close(write_end)
    assert not stream.read(9.0)
    os.close(read_end)
    log.close()
