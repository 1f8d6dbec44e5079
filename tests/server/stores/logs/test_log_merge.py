"""The merged log of several replicas: each line once, in order of its writer and of time."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass as wl
from harness import PATIENCE
from job_requests import role, submit
from windlass.model.logs import LogPart
from windlass.server.stores.logs.base import LogSelection, Slice
from windlass.server.stores.logs.cursors import Key
from windlass.server.stores.logs.files import FileLogStore
from windlass.server.stores.logs.pattern import Pattern
from windlass.worker.logs.segment import STDERR, STDOUT, encode_lines, encode_open

START = 1_700_000_000.0


class Written(NamedTuple):
    """A record that a replica wrote."""

    key: Key
    time: float
    stream: str
    text: str
    end: bool


def put(home: Path, records: list[Written]) -> None:
    for key, run in itertools.groupby(records, lambda record: record.key):
        path = home / "trials" / "1" / f"{key[0]}-{key[1]}" / str(key[2]) / "log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            for entry in run:
                encode = encode_lines if entry.end else encode_open
                text = entry.text.encode() + (b"\n" if entry.end else b"")
                file.write(encode(entry.time, entry.stream, text))


def seen(part: LogPart) -> Written:
    key = (part.role, part.index, part.attempt)
    return Written(key, part.time, part.stream, part.text, part.end)


def replica_of(record: Written) -> tuple[str, int]:
    return record.key[:2]


def read_all(
    store: FileLogStore, cursor: str | None, size: int, stream: str | None = None
) -> tuple[list[Written], str]:
    records: list[Written] = []
    for _ in range(10_000):
        page = store.read(1, cursor, stream, size=size)
        records += map(seen, page.parts)
        cursor = page.cursor
        if not page.has_more:
            return records, cursor
    raise AssertionError("it never ends")


@st.composite
def replicas(draw: st.DrawFn, *, clocks_agree: bool, whole: bool = False) -> list[list[Written]]:
    """The records of some replicas over several attempts."""
    records = []
    serial = itertools.count()
    names = [("ps", 0), ("worker", 0), ("worker", 1), ("worker", 2), ("worker-a", 10)]
    least = 0 if clocks_agree else -30
    for name, index in draw(st.lists(st.sampled_from(names), max_size=5, unique=True)):
        time = START + draw(st.integers(0, 20))
        mine = []
        for attempt in range(1, draw(st.integers(1, 3)) + 1):
            for step in draw(st.lists(st.integers(least, 30), max_size=15)):
                time += step / 8  # exact in a float with that many digits
                stream = draw(st.sampled_from([STDOUT, STDERR]))
                text = f"{next(serial)} " + "x" * draw(st.sampled_from([0, 0, 7, 300]))
                end = whole or draw(st.booleans())
                mine.append(Written((name, index, attempt), time, stream, text, end))
        records.append(mine)
    return records


def in_time(records: list[Written]) -> bool:
    return all(a.time <= b.time for a, b in itertools.pairwise(records))


def by_replica(records: list[Written]) -> dict[tuple[str, int], list[Written]]:
    ordered = sorted(records, key=replica_of)  # a stable sort
    return {who: list(run) for who, run in itertools.groupby(ordered, replica_of)}


def flat(written: list[list[Written]]) -> list[Written]:
    return [record for mine in written for record in mine]


sizes = st.sampled_from([1, 40, 100, 700, 100_000])


@given(replicas(clocks_agree=True), sizes)
def test_pages_of_any_size_hold_every_line_once_and_in_the_order_of_time(
    written: list[list[Written]], size: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        put(Path(folder), flat(written))
        records, _ = read_all(FileLogStore(Path(folder)), None, size)
        assert by_replica(records) == by_replica(flat(written))
        assert in_time(records)


@given(replicas(clocks_agree=False), sizes)
def test_a_clock_set_back_keeps_the_order_of_each_replica(
    written: list[list[Written]], size: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        put(Path(folder), flat(written))
        store = FileLogStore(Path(folder))
        assert by_replica(read_all(store, None, size)[0]) == by_replica(flat(written))
        stdout = [record for record in flat(written) if record.stream == STDOUT]
        assert by_replica(read_all(store, None, size, STDOUT)[0]) == by_replica(stdout)


@given(replicas(clocks_agree=True), sizes, st.data())
def test_lines_written_between_two_pages_are_neither_lost_nor_repeated(
    written: list[list[Written]], size: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = FileLogStore(Path(folder))
        records: list[Written] = []
        cursor: str | None = None
        left = written
        for _ in range(3):
            cuts = [data.draw(st.integers(0, len(mine))) for mine in left]
            put(Path(folder), flat([mine[:cut] for mine, cut in zip(left, cuts, strict=True)]))
            left = [mine[cut:] for mine, cut in zip(left, cuts, strict=True)]
            page = store.read(1, cursor, size=size)  # one page, which may not be everything
            records += map(seen, page.parts)
            cursor = page.cursor
        put(Path(folder), flat(left))
        records += read_all(store, cursor, size)[0]
        assert by_replica(records) == by_replica(flat(written))


@given(replicas(clocks_agree=True, whole=True), st.integers(0, 50), st.integers(1, 20))
def test_the_tail_and_a_search_are_parts_of_the_whole_log(
    written: list[list[Written]], count: int, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        put(Path(folder), flat(written))
        store = FileLogStore(Path(folder))
        whole, end = read_all(store, None, 100_000)
        tail = store.tail(1, count)
        assert [seen(part) for part in tail.parts] == (whole[-count:] if count else [])
        assert read_all(store, tail.cursor, 100_000)[0] == []
        assert read_all(store, end, 100_000)[0] == []
        records: list[Written] = []
        cursor: str | None = None
        for _ in range(1000):
            # Whole pages: a truncated page may change the order of lines with equal times.
            page = store.search(1, Pattern("1"), cursor, limit=limit, time=Slice(60))
            assert len(page.parts) <= limit
            records += map(seen, page.parts)
            cursor = page.cursor
            if not page.has_more:
                break
        assert records == [record for record in whole if "1" in record.text]


def test_only_the_selected_replicas_are_read(tmp_path: Path) -> None:
    keys = [("ps", 0, 1), ("worker", 0, 1), ("worker", 0, 2), ("worker", 1, 1)]
    put(
        tmp_path,
        [Written(key, START + n, STDOUT, str(key), True) for n, key in enumerate(keys)],
    )
    store = FileLogStore(tmp_path)

    def of(whose: LogSelection) -> list[str]:
        pages = [
            store.read(1, None, None, whose),
            store.tail(1, 9, None, whose),
            store.search(1, Pattern("("), None, None, whose, time=Slice(60)),
        ]
        first, *others = [[part.text for part in page.parts] for page in pages]
        assert others == [first, first]
        return first

    assert of(LogSelection()) == [str(key) for key in keys]
    assert of(LogSelection("worker")) == [str(key) for key in keys[1:]]
    assert of(LogSelection("worker", 0)) == [str(key) for key in keys[1:3]]
    assert of(LogSelection("worker", 0, 2)) == [str(keys[2])]
    assert of(LogSelection(index=0, attempt=1)) == [str(keys[0]), str(keys[1])]


@pytest.mark.thorough
def test_a_hundred_replicas_with_one_flood_are_read_in_limited_memory(tmp_path: Path) -> None:
    loud = [Written(("worker", 0, 1), START + n / 8, STDOUT, "x" * 90, True) for n in range(40_000)]
    calm = [
        Written(("worker", index, 1), START + n * 50, STDOUT, f"{index} {n}", True)
        for index in range(1, 100)
        for n in range(100)
    ]
    put(tmp_path, loud + calm)
    store = FileLogStore(tmp_path)
    last, count, cursor = 0.0, 0, None
    tracemalloc.start()
    while True:
        page = store.read(1, cursor)
        times = [last, *(part.time for part in page.parts)]
        assert times == sorted(times)
        last, cursor = times[-1], page.cursor
        count += len(page.parts)
        if not page.has_more:
            break
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == len(loud) + len(calm)
    assert peak < 16 << 20, "of a log of 4 MB and 2 MB of others"


def test_a_cursor_of_a_hundred_replicas_over_many_attempts_is_accepted(home: Path) -> None:
    trial = submit(role("print(name)", replicas=1)).wait(PATIENCE)
    name = "w" * 40
    records = [
        Written((name, index, attempt), START + attempt, STDOUT, "y" * 500, True)
        for index in range(100)
        for attempt in range(1, 8)
    ]
    put_into(home, trial.id, records)
    lines = list(trial.logs())
    assert len(lines) == 701
    assert [line.time for line in lines] == sorted(line.time for line in lines)
    assert list(trial.logs(search="y", tail=5)) == lines[-6:-1]
    answer = wl.Client().transport.ask("GET", f"/trials/{trial.id}/logs", dict)
    assert len(answer["next"]) > 1000, "or this test shows nothing"


def put_into(home: Path, trial_id: int, records: list[Written]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        put(Path(folder), records)
        for path in (Path(folder) / "trials" / "1").iterdir():
            shutil.move(path, home / "trials" / str(trial_id) / path.name)
