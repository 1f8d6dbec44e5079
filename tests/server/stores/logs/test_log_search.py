"""A search finds the same lines as reading everything, with any sizes of pages and blocks."""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass.model.errors import InvalidArgument
from windlass.model.logs import LogPart
from windlass.server.stores.logs import pattern as log_pattern
from windlass.server.stores.logs import segment_search
from windlass.server.stores.logs.base import LogSelection, Slice
from windlass.server.stores.logs.files import FileLogStore
from windlass.server.stores.logs.pattern import Pattern
from windlass.server.stores.logs.regex_literals import required_literals
from windlass.worker.logs.segment import (
    MARK,
    STDERR,
    STDOUT,
    encode_lines,
    encode_open,
    read_parts,
)
from windlass.worker.logs.segment_reader import join_lines

START = 1_763_244_000.0

Record = tuple[str, str, bool]  # stream, text, whether it ended its line

# Texts that resemble headers, and that meet at the ends of pieces.
words = st.sampled_from(
    ["", "a", "b", "ab", "ba", "1763244", ":o ", " o ", "\x1d", "é", "loss", " "]
)
texts = st.lists(words, max_size=4).map("".join)
records = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), texts, st.booleans()), max_size=25)
plain = st.sampled_from(["a", "ab", "bab", "1763244", "o ", "é", "loss", "\x1d", "."])
expressions = st.sampled_from(
    ["a", "^a", "b$", "^$", "a.*b", "[^b]", "ab|ba", r"\bloss", "(?i)LOSS", r"\Aab", r"b\z",
     "a+b*", r"\s", "(a|é)b", r"\Qa\Eb", ".", "x*", r"\d{7}", "^(loss|a)", "(?-m)^a", "aa?b",
     "(ab|loss)[a ]", "x?(a|b|é)+"]
)  # fmt: skip


@pytest.fixture(autouse=True, params=[(100, 150, 1), (1 << 17, 1 << 20, 64)])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block sizes that split every record, and realistic ones."""
    first, block, patience = request.param
    monkeypatch.setattr(segment_search, "_FIRST_BLOCK", first)
    monkeypatch.setattr(segment_search, "_BLOCK", block)
    monkeypatch.setattr(log_pattern, "_PATIENCE", patience)


def encoded(written: list[Record], *, is_old: bool = False) -> bytes:
    data = b""
    for number, (stream, text, ended) in enumerate(written):
        time, raw = START + number, text.encode()
        record = (
            encode_lines(time, stream, raw + b"\n") if ended else encode_open(time, stream, raw)
        )
        data += record[:17] + b" " + record[18:] if is_old else record
    return data


def segment(home: Path, attempt: int = 1) -> Path:
    path = home / "trials" / "1" / "main-0" / str(attempt) / "log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def lines_of(data: bytes) -> list[str]:
    return [line.text.decode() for line in join_lines(read_parts(data))]


def found_in(
    store: FileLogStore, pattern: Pattern, limit: int, **options: object
) -> Iterator[LogPart]:
    """All matches, in the smallest possible pages."""
    cursor: str | None = None
    for _ in range(300):
        page = store.search(1, pattern, cursor, limit=limit, time=Slice(0), **options)  # type: ignore[arg-type]
        yield from page.parts
        cursor = page.cursor
        if not page.has_more:
            return
    raise AssertionError("it never ends")


@given(records, plain, st.integers(1, 4), st.booleans())
@example(
    [(STDOUT, "lo", False), (STDERR, "hit loss", True), (STDOUT, "ss", True)], "loss", 1, False
)
def test_a_text_is_found_on_either_side_of_any_boundary(
    written: list[Record], needle: str, limit: int, is_old: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = encoded(written, is_old=is_old)
        segment(Path(folder)).write_bytes(data)
        store = FileLogStore(Path(folder))
        expected = sorted(line for line in lines_of(data) if needle in line)
        matching_texts = [part.text for part in found_in(store, Pattern(needle), limit)]
        assert sorted(matching_texts) == expected
        assert store.count(1, Pattern(needle), None, time=Slice(60))[0] == len(expected)


@given(records, expressions, st.integers(1, 4))
def test_a_regular_expression_matches_only_the_texts_of_lines(
    written: list[Record], expression: str, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = encoded(written)
        segment(Path(folder)).write_bytes(data)
        python = expression.replace(r"\z", r"\Z").replace(r"\Qa\E", "a").replace("(?-m)", "")
        expected = sorted(line for line in lines_of(data) if re.search(python, line, re.ASCII))
        matches = found_in(FileLogStore(Path(folder)), Pattern(expression, is_regex=True), limit)
        assert sorted(part.text for part in matches) == expected


@given(records, st.lists(st.integers(0, 25), max_size=3), plain, st.integers(1, 3))
def test_a_follower_gets_each_line_once_and_whole(
    written: list[Record], cuts: list[int], needle: str, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, path = FileLogStore(Path(folder)), segment(Path(folder))
        matching_texts: list[str] = []
        cursor: str | None = None
        data = encoded(written)
        ends = [0, *(part[4] for part in read_parts(data))]
        for cut in sorted(min(cut, len(ends) - 1) for cut in cuts):
            path.write_bytes(data[: ends[cut]])
            page = store.search(1, Pattern(needle), cursor, limit=limit, is_followed=True)
            matching_texts += [part.text for part in page.parts]
            cursor = page.cursor
        path.write_bytes(data)
        has_more = True
        while has_more:
            page = store.search(1, Pattern(needle), cursor, limit=limit)
            matching_texts += [part.text for part in page.parts]
            cursor, has_more = page.cursor, page.has_more
        assert sorted(matching_texts) == sorted(line for line in lines_of(data) if needle in line)


def test_an_incomplete_line_of_an_attempt_is_returned_when_the_next_one_starts(
    tmp_path: Path,
) -> None:
    segment(tmp_path).write_bytes(encode_open(START, STDOUT, b"loss na"))
    store = FileLogStore(tmp_path)
    page = store.search(1, Pattern("loss"), None, is_followed=True, time=Slice(60))
    assert page.parts == []
    segment(tmp_path, 2).write_bytes(encode_lines(START + 9, STDOUT, b"loss 1\n"))
    page = store.search(1, Pattern("loss"), page.cursor, is_followed=True, time=Slice(60))
    assert [part.text for part in page.parts] == ["loss na", "loss 1"]
    assert store.search(1, Pattern("loss"), page.cursor).parts == []


@given(records, st.floats(START - 2, START + 30), st.floats(START - 2, START + 30))
def test_lines_of_a_time_range_are_found_by_all_queries(
    written: list[Record], since: float, until: float
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = [(stream, text, True) for stream, text, _ in written]
        segment(Path(folder)).write_bytes(encoded(whole))
        store, whose = FileLogStore(Path(folder)), LogSelection(since=since, until=until)
        expected = [
            text for number, (_, text, _) in enumerate(whole) if since <= START + number < until
        ]
        for page in (
            store.read(1, None, None, whose),
            store.tail(1, 100, None, whose),
            store.search(1, Pattern(".*", is_regex=True), None, None, whose, time=Slice(60)),
        ):
            assert [part.text for part in page.parts] == expected


@given(expressions, texts)
@example(r"a{2}b", "aab")
@example(r"\.b+c", ".bc")
def test_a_required_literal_is_part_of_every_match(expression: str, text: str) -> None:
    literals = required_literals(expression)
    if literals and Pattern(expression, is_regex=True).matches(text.encode()):
        assert any(literal in text.encode() for literal in literals)


@pytest.mark.parametrize(
    ("expression", "literals"),
    [
        ("loss=(nan|inf)", [b"loss="]),
        ("(nan|inf)=?", [b"nan", b"inf"]),
        ("error|warn(ing)?", [b"error", b"warn"]),
        ("x(error|a*)y", [b"x"]),
        ("(a(bcd|efg)+h|ijkl)", [b"bcd", b"efg", b"ijkl"]),
        ("a|b|c|d|e", []),
        (r"[A-Z]\w+Error: out", [b"Error: out"]),
        (r"CUDA\.out", [b"CUDA.out"]),
        ("ab?cd", [b"cd"]),
        ("ab{0}cd", [b"cd"]),
        ("(loss)?", []),
        ("(loss|)", []),
        (r"\x41\101bc\pLd", [b"bc"]),
        ("[]a]bc", [b"bc"]),
        ("[[:alpha:]]bc", [b"bc"]),
        ("(?s)abc.d", [b"abc"]),
        ("(?i)abc", []),
        ("(?P<x>ab)c(?:de)fgh", [b"fgh"]),
        ("épée", ["épée".encode()]),
    ],
)
def test_the_literals_of_an_expression_are_those_every_match_needs(
    expression: str, literals: list[bytes]
) -> None:
    assert list(required_literals(expression)) == literals


def test_invalid_records_are_skipped(tmp_path: Path) -> None:
    segment(tmp_path).write_bytes(
        encode_lines(START, STDOUT, b"one hit\n") + b"torn hit\n\0\0\0\n"
        + encode_lines(START + 1, STDOUT, b"two hit\n")
    )  # fmt: skip
    for pattern in (Pattern("hit"), Pattern("^.*hit$", is_regex=True)):
        matches = found_in(FileLogStore(tmp_path), pattern, 10)
        assert [part.text for part in matches] == ["one hit", "two hit"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a(b", r"missing \): a\(b"),
        ("(?=a)", "invalid perl operator"),
        (r"(a)\1", "invalid escape sequence"),
        ("(x{1000}){1000}", "invalid repetition size"),
        (r"(\PN*){999}", "pattern too large"),
        (r"\w\pL" * 200, "more than 50 Unicode classes"),
        ("", "The search text is empty"),
        ("a\nb", "single lines"),
        ("x" * 2000, "at most 1000 characters"),
    ],
)
def test_an_invalid_search_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        Pattern(text, is_regex=True)


def test_every_expression_is_parsed_quickly() -> None:
    """The parser blocks the whole server. Without limits it takes more than half a second."""
    hostile = [
        r"(\PN*){999}", r"(?i)(\PN*){999}", r"\pL{1000}", r"(\PL\pL){1,1000}", r"\w\pL" * 200,
        r"(\pL|\pN|\pS)" * 70, r"\pL\pN\pS\pP" * 80, r".{1000}.{999}",
    ]  # fmt: skip
    Pattern("a", is_regex=True)  # loads the imports
    for expression in hostile:
        began = time.thread_time()
        with contextlib.suppress(InvalidArgument):
            Pattern(expression, is_regex=True)
        assert time.thread_time() - began < 0.25, expression


def test_a_pathological_expression_is_processed_in_slices(tmp_path: Path) -> None:
    """Python's `re` would take practically forever for one of these lines."""
    segment(tmp_path).write_bytes(encode_lines(START, STDOUT, (b"a" * 60 + b"\n") * 200))
    for hostile in ("(a+)+$x", "(a*)*b", "(a|aa)+c", "a{0,500}a{0,500}b"):
        assert list(found_in(FileLogStore(tmp_path), Pattern(hostile, is_regex=True), 10)) == []


def test_the_mark_of_an_incomplete_text_occurs_in_no_complete_record() -> None:
    assert MARK not in encode_lines(START, STDERR, b"text\n")
    assert encode_open(START, STDERR, b"text").count(MARK) == 1
