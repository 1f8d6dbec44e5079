"""Logs are read from any cursor, from the end, or by search, and show only complete records."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.client.resources.trial.logs.lines import LineJoiner
from windlass.model.errors import InvalidArgument
from windlass.server.stores.logs.cursors import format_cursor, parse_cursor
from windlass.server.stores.logs.files import FileLogStore
from windlass.server.stores.logs.pattern import Pattern
from windlass.worker.logs.segment import STDERR, STDOUT, encode_lines, encode_open

unhurried = settings(suppress_health_check=[HealthCheck.too_slow])


class Log:
    """The log of trial 1, written record by record."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = FileLogStore(home)
        self._clock = 1_700_000_000.0

    def path(self, replica: str = "main-0", attempt: int = 1) -> Path:
        path = self.home / "trials" / "1" / replica / str(attempt) / "log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(
        self, text: str, stream: str = STDOUT, replica: str = "main-0", attempt: int = 1
    ) -> None:
        """Write a record: a line, or the beginning of one if the text has no final newline."""
        self._clock += 0.5
        encode = encode_lines if text.endswith("\n") else encode_open
        with self.path(replica, attempt).open("ab") as file:
            file.write(encode(self._clock, stream, text.encode()))

    def read_all(self, cursor: str | None = None) -> list[str]:
        """All lines after a cursor, page by page."""
        joiner, lines = LineJoiner(), []
        while True:
            page = self.store.read(1, cursor)
            lines += joiner.feed(page.parts)
            cursor = page.cursor
            if not page.has_more:
                return [*lines, *joiner.rest()]

    def search(self, text: str, stream: str | None = None) -> list[str]:
        """All matching lines, page by page. A page may be empty after its time limit."""
        lines: list[str] = []
        cursor, has_more = None, True
        while has_more:
            page = self.store.search(1, Pattern(text), cursor, stream)
            lines += texts(page)
            cursor, has_more = page.cursor, page.has_more
        return lines


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def texts(page: object) -> list[str]:
    return [part.text for part in page.parts]  # type: ignore[attr-defined]


def test_a_cursor_continues_at_its_position(log: Log) -> None:
    assert log.store.read(1, None).parts == []
    log.write("one\n")
    first = log.store.read(1, None)
    assert texts(first) == ["one"]
    assert log.store.read(1, first.cursor).parts == []
    log.write("two\n", STDERR)
    log.write("thr")
    second = log.store.read(1, first.cursor)
    assert [(p.text, p.stream, p.end) for p in second.parts] == [
        ("two", STDERR, True),
        ("thr", STDOUT, False),
    ]
    log.write("ee\n")
    assert texts(log.store.read(1, second.cursor)) == ["ee"]
    assert texts(log.store.read(1, first.cursor)) == ["two", "thr", "ee"]  # it stays valid
    assert texts(log.store.read(1, None, STDERR)) == ["two"]


def test_a_partial_last_record_is_invisible_until_it_is_complete(log: Log) -> None:
    log.write("whole\n")
    record = encode_lines(1_700_000_001.0, STDOUT, b"needle\n")
    for cut in (1, 17, 19, 22, len(record) - 1):
        log.path().write_bytes(log.path().read_bytes() + record[:cut])
        page = log.store.read(1, None)
        assert texts(page) == ["whole"], cut
        assert texts(log.store.tail(1, 5)) == ["whole"]
        assert log.search("needle") == []
        log.path().write_bytes(log.path().read_bytes() + record[cut:])
        assert texts(log.store.read(1, page.cursor)) == ["needle"]
        log.path().write_bytes(b"")
        log.write("whole\n")


def test_several_attempts_and_replicas_are_one_log_in_order_of_time(log: Log) -> None:
    log.write("a\n", replica="main-0")
    log.write("b\n", replica="worker-1")
    log.write("c\n", STDERR, replica="main-0")
    log.write("d\n", replica="main-0", attempt=2)
    page = log.store.read(1, None)
    rows = [(part.text, part.role, part.index, part.attempt) for part in page.parts]
    assert rows == [
        ("a", "main", 0, 1),
        ("b", "worker", 1, 1),
        ("c", "main", 0, 1),
        ("d", "main", 0, 2),
    ]
    log.write("e\n", replica="worker-1")
    assert texts(log.store.read(1, page.cursor)) == ["e"]
    assert texts(log.store.tail(1, 2)) == ["d", "e"]


def test_the_tail_has_whole_lines_also_far_from_the_end(log: Log) -> None:
    for number in range(30):
        log.write(f"{number} " + "x" * 60_000)  # a long line is several records
        log.write("y" * 50_000 + "\n")
    log.write("10%\r")
    log.write("20%\r")
    tail = log.store.tail(1, 4)
    assert [text[:3].strip() for text in texts(tail)] == ["27", "28", "29", "10%"]
    assert [len(text) for text in texts(tail)] == [110_003, 110_003, 110_003, 8]
    log.write("done\n")
    assert texts(log.store.tail(1, 1)) == ["10%\r20%\rdone"]
    assert texts(log.store.tail(1, 0)) == []
    assert len(texts(log.store.tail(1, 1000))) == 31
    assert log.store.read(1, tail.cursor).parts[0].text == "done"  # continues after it


def test_a_search_finds_a_text_that_was_written_in_pieces(log: Log) -> None:
    log.write("nothing\n")
    log.write("a nee")
    log.write("a needle of stderr\n", STDERR)
    log.write("dle in pieces\n")
    log.write("needle at once\n")
    log.write("the last nee")
    log.write("dle, unended")
    assert sorted(log.search("needle")) == [
        "a needle in pieces",
        "a needle of stderr",
        "needle at once",
        "the last needle, unended",
    ]
    assert log.search("needle", STDERR) == ["a needle of stderr"]
    assert log.search("1700000000") == []  # the times are not searched
    assert log.search(" o ") == []
    assert log.search("NEEDLE") == []


def test_a_search_continues_from_its_cursor(log: Log) -> None:
    for number in range(2500):
        log.write(f"hit {number}\nmiss\n")
    page_texts: list[str] = []
    cursor: str | None = None
    pages = 0
    while True:
        page = log.store.search(1, Pattern("hit"), cursor)
        page_texts += texts(page)
        cursor, pages = page.cursor, pages + 1
        if not page.has_more:
            break
    assert page_texts == [f"hit {number}" for number in range(2500)]
    assert pages >= 3


@unhurried
@given(
    st.lists(
        st.tuples(
            st.sampled_from([STDOUT, STDERR]),
            st.sampled_from(["a", "needle", "nee", "dle", "", "é", "\r"]),
            st.sampled_from(["", "\n"]),
        ),
        max_size=30,
    )
)
def test_reading_searching_and_tailing_agree(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[str, str, str]]
) -> None:
    log = Log(tmp_path_factory.mktemp("home"))
    expected: list[str] = []
    begun = {STDOUT: "", STDERR: ""}
    for stream, text, ending in written:
        if not text + ending:
            continue
        log.write(text + ending, stream)
        begun[stream] += text
        if ending:
            expected.append(begun[stream])
            begun[stream] = ""
    expected += [text for text in begun.values() if text]
    assert sorted(log.read_all()) == sorted(expected)
    hits = sorted(line for line in expected if "needle" in line)
    assert sorted(log.search("needle")) == hits
    assert sorted(texts(log.store.tail(1, 1000))) == sorted(expected)


@pytest.mark.parametrize(
    "cursor",
    ["x", "main-0.1", "main-0.1:", "main-0.1:-1", "main-0.1:1e3", "../0.1:5", "main-0.1:5,",
     "main-0.1:" + "9" * 19, "main-0.1:5\n", "MAIN-0.1:5", "main-0.1:\u0665"],
)  # fmt: skip
def test_an_invalid_cursor_is_refused(log: Log, cursor: str) -> None:
    log.write("one\n")
    for look in (log.store.read, lambda trial, at: log.store.search(trial, Pattern("one"), at)):
        with pytest.raises(InvalidArgument, match="cursor"):
            look(1, cursor)


def test_a_cursor_survives_a_round_trip_as_text(log: Log) -> None:
    places = {("main", 0, 1): 4096, ("worker-b", 12, 3): 0}
    assert parse_cursor(format_cursor(places)) == places
    log.write("one\n")
    assert log.store.read(1, "main-0.1:999999").parts == []  # beyond the end is harmless
