"""The replay of a terminal after attaching, and the restored terminal after detaching."""

from __future__ import annotations

import pyte
import pytest

from windlass.model.text.terminal_screen import Modes, plain_text, replay, without_questions


def seen(data: bytes) -> list[str]:
    """The rows of a screen after some bytes."""
    screen = pyte.Screen(40, 10)
    pyte.ByteStream(screen).feed(data)
    return [row.rstrip() for row in screen.display if row.strip()]


def test_a_replay_begins_with_a_whole_line() -> None:
    kept = b"".join(b"line %d \xc3\xa9\r\n" % number for number in range(1000))
    replayed = replay(kept, 40)
    assert seen(replayed) == ["line 997 é", "line 998 é", "line 999 é"]


def test_one_long_line_is_replayed_from_its_middle() -> None:
    assert replay(b"x" * 100, 10).endswith(b"x" * 10)


def test_a_full_screen_program_is_replayed_from_its_start() -> None:
    before = b"$ ls\r\n" * 50
    editor = b"\x1b[?1049h\x1b[H\x1b[2J\x1b[1;1Hfirst\x1b[2;1Hsecond"
    replayed = replay(b"\x1b[?2004h" + before + editor, 200)
    assert replayed.startswith(b"\x1b[?2004h\x1b[?1049h")
    assert seen(replayed) == ["first", "second"]


def test_a_full_screen_program_that_started_too_long_ago_still_gets_the_second_screen() -> None:
    replayed = replay(b"\x1b[?1049h\x1b[?1000h" + b"drawn\n" * 1000, 60)
    assert b"\x1b[?1049h" in replayed
    assert b"\x1b[?1000h" in replayed, "and mouse clicks are reported"


def test_after_a_full_screen_program_the_replay_uses_the_first_screen() -> None:
    kept = b"\x1b[?1049hvim\x1b[?1049l" + b"$ ls\r\n" * 100
    assert b"1049" not in replay(kept, 60)


@pytest.mark.parametrize(
    "question",
    [
        b"\x1b[c", b"\x1b[0c", b"\x1b[>c", b"\x1b[=c", b"\x1b[5n", b"\x1b[6n", b"\x1b[?6n",
        b"\x1b[?2026$p", b"\x1b[18t", b"\x1b[14;2t", b"\x1b[>q", b"\x1b[>0q", b"\x1b[?u",
        b"\x1b]10;?\x07", b"\x1b]11;?\x1b\\", b"\x1b]4;1;?\x07", b"\x1bP+q544e\x1b\\",
        b"\x1bP$qm\x1b\\", b"\x1bZ", b"\x05",
    ],
)  # fmt: skip
def test_no_query_to_the_terminal_is_replayed(question: bytes) -> None:
    """The terminal would answer it as if a user typed."""
    assert without_questions(b"a" + question + b"b") == b"ab"


@pytest.mark.parametrize(
    "sequence",
    [b"\x1b[1;31mred\x1b[0m", b"\x1b[2J\x1b[H", b"\x1b[?1049h", b"\x1b]0;title\x07", b"\x1b[22;0t"],
)
def test_other_sequences_are_replayed(sequence: bytes) -> None:
    assert without_questions(sequence) == sequence


def test_detaching_resets_modes_in_reverse_order() -> None:
    modes = Modes()
    for piece in (b"\x1b[?10", b"49h\x1b", b"[?25l\x1b=", b"\x1b[?1002;1006h"):
        modes.feed(piece)  # split anywhere
    assert modes.has_second_screen
    assert modes.left() == b"\x1b[m\x1b>\x1b[?1006l\x1b[?1002l\x1b[?25h\x1b[?1049l"
    modes.feed(modes.left())
    assert modes.left() == b""
    assert not modes.has_second_screen


def test_a_reset_of_the_terminal_clears_all_modes() -> None:
    modes = Modes()
    modes.feed(b"\x1b[?1049h\x1b[?2004h\x1bc")
    assert modes.entered() == b""


def test_plain_text_has_only_readable_characters() -> None:
    prompt = b"\x1b]0;host\x07\x1b[?2004h$ \x1b[32mls\x1b[0m\r\n\x1b[?2004l\r"
    assert plain_text(prompt + b"n\xc3\xa4h\r\n 50%\r100%\r\n") == "$ ls\nnäh\n100%\n"
