"""Line-level differences turn any text into any other text."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.comparison import lines
from windlass.comparison.lines import diff_lines, is_binary

# Few different lines, so that matches are common; with and without a final newline; invalid UTF-8,
# too.
_line = st.sampled_from([b"a", b"b", b"c", b"", b"\r", b" x", b"-y", b"\xff", "é".encode()])
_text = st.builds(
    lambda body, end: b"\n".join(body) + end,
    st.lists(_line, max_size=25),
    st.sampled_from([b"", b"\n"]),
)


def patched(before: bytes, diff_text: tuple[str, ...]) -> bytes:
    """Apply a unified diff to a text. Every hunk must fit."""
    old = before.split(b"\n")
    ends_open = old[-1] != b""
    old = old if ends_open else old[:-1]
    new: list[bytes] = []
    position, new_open = 0, ends_open
    for i, line in enumerate(diff_text):
        if heading := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            start = int(heading[1]) - (heading[2] != "0")
            new += old[position:start]
            position = start
            assert int(heading[3]) - (heading[4] != "0") == len(new)
            continue
        text = line[1:].encode("utf-8", "surrogateescape")
        is_open = diff_text[i + 1 : i + 2] == ("\\ No newline at end of file",)
        if line[0] in " -":
            assert old[position] == text
            assert is_open == (ends_open and position == len(old) - 1)
            position += 1
        if line[0] in " +":
            new.append(text)
            new_open = is_open
    if position < len(old):
        new += old[position:]
        new_open = ends_open
    return b"\n".join(new) + (b"" if new_open or not new else b"\n")


@given(_text, _text)
def test_a_difference_turns_one_text_into_the_other(before: bytes, after: bytes) -> None:
    difference = diff_lines(before, after)
    assert patched(before, difference.lines) == after
    assert difference.added == sum(line.startswith("+") for line in difference.lines)
    assert difference.removed == sum(line.startswith("-") for line in difference.lines)


@given(_text)
def test_a_text_does_not_differ_from_itself(text: bytes) -> None:
    assert diff_lines(text, text) == ((), 0, 0)


@given(_text, _text)
def test_texts_that_are_too_large_to_match_still_give_a_correct_diff(
    before: bytes, after: bytes
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_MOST_MATCHED", 3)
        assert patched(before, diff_lines(before, after).lines) == after


def test_the_difference_equals_that_of_the_diff_command(tmp_path: Path) -> None:
    before = b"".join(b"line %d\n" % n for n in range(40))
    after = before.replace(b"line 3\n", b"").replace(b"line 20\n", b"line 20\nnew\n") + b"open"
    (tmp_path / "a").write_bytes(before)
    (tmp_path / "b").write_bytes(after)
    completed = subprocess.run(
        ["diff", "-u", "a", "b"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert list(diff_lines(before, after).lines) == completed.stdout.splitlines()[2:]


def test_large_files_without_common_lines_are_not_matched() -> None:
    before = b"".join(b"%d\n" % n for n in range(50_000))
    after = b"".join(b"%d\n" % n for n in range(50_000, 0, -1))
    difference = diff_lines(before, after)
    assert (difference.added, difference.removed) == (50_000, 50_000)


def test_a_byte_that_never_occurs_in_text_makes_a_file_binary() -> None:
    assert is_binary(b"PNG\0\1")
    assert not is_binary("naïve\r\n".encode("latin-1"))
