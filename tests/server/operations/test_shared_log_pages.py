"""Followers share the pages of a log, and get every line once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from windlass.model.logs import LogPage
from windlass.server.operations.shared_log_pages import SharedLogPages
from windlass.server.stores.logs.base import Page
from windlass.server.stores.logs.files import FileLogStore
from windlass.worker.logs.segment import STDOUT, encode_lines

TRIAL = 7
LINES = 10_000


class CountedStore(FileLogStore):
    """A log store that counts its reads, and holds them while `gate` is closed."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.reads: Counter[str | None] = Counter()
        self.gate = threading.Event()
        self.gate.set()

    def read(self, trial_id: int, cursor: str | None, *more: Any, **options: Any) -> Page:
        self.reads[cursor] += 1
        self.gate.wait()
        return super().read(trial_id, cursor, *more, **options)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "trials" / str(TRIAL) / "main-0" / "1"
    folder.mkdir(parents=True)
    return folder / "log"


def append(log: Path, first: int, count: int) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(first, first + count))
    with log.open("ab") as file:
        file.write(encode_lines(1763244000.0, STDOUT, lines))


async def follow(pages: SharedLogPages, end: int) -> list[str]:
    """Read until a line; as a follower that is woken again and again."""
    lines: list[str] = []
    cursor = None
    while len(lines) < end:
        page = await pages.read(TRIAL, cursor)
        data = page.event.partition(b"data: ")[2]
        lines += [part["text"] for part in json.loads(data)["items"]]
        cursor = page.cursor
        await asyncio.sleep(0)
    return lines


@pytest.mark.finding("A9")
def test_many_followers_read_each_page_a_few_times_and_get_each_line_once(
    tmp_path: Path, log: Path
) -> None:
    append(log, 0, LINES)
    store = CountedStore(tmp_path)

    async def run() -> list[list[str]]:
        pages = SharedLogPages(store)
        return await asyncio.gather(*(follow(pages, LINES) for _ in range(30)))

    expected = [f"line {number}" for number in range(LINES)]
    assert all(lines == expected for lines in asyncio.run(run()))
    assert len(store.reads) >= 5
    assert store.reads.total() < 4 * len(store.reads)


@pytest.mark.finding("A9")
def test_followers_of_a_growing_log_get_each_line_once(tmp_path: Path, log: Path) -> None:
    append(log, 0, 1)

    async def run() -> list[list[str]]:
        pages = SharedLogPages(FileLogStore(tmp_path))
        followers = asyncio.gather(*(follow(pages, LINES) for _ in range(20)))
        for first in range(1, LINES, 101):
            append(log, first, min(101, LINES - first))
            await asyncio.sleep(0)
        return await followers

    expected = [f"line {number}" for number in range(LINES)]
    assert all(lines == expected for lines in asyncio.run(run()))


@pytest.mark.finding("A9")
def test_a_read_that_has_begun_is_not_shared(tmp_path: Path, log: Path) -> None:
    """It may be of the time before the latest line."""
    append(log, 0, 1)
    store = CountedStore(tmp_path)

    async def run() -> tuple[bytes, bytes]:
        pages = SharedLogPages(store)
        early = asyncio.create_task(pages.read(TRIAL, None))
        while not store.reads:
            await asyncio.sleep(0)
        early_page = await early
        append(log, 1, 1)
        return early_page.event, (await pages.read(TRIAL, None)).event

    early, late = asyncio.run(run())
    assert b"line 1" not in early
    assert b"line 1" in late


@pytest.mark.finding("A9")
def test_a_slow_disk_delays_followers_and_not_the_event_loop(tmp_path: Path, log: Path) -> None:
    append(log, 0, 1)
    store = CountedStore(tmp_path)
    store.gate.clear()

    async def run() -> list[list[str]]:
        followers = asyncio.gather(*(follow(SharedLogPages(store), 1) for _ in range(3)))
        for _ in range(100):  # the loop runs although all reads hang
            await asyncio.sleep(0)
        store.gate.set()
        return await followers

    assert asyncio.run(run()) == [["line 0"]] * 3


@pytest.mark.finding("A9")
def test_kept_pages_have_a_bound_and_a_dropped_page_is_read_again(
    tmp_path: Path, log: Path
) -> None:
    append(log, 0, LINES)
    store = CountedStore(tmp_path)

    async def run() -> list[list[str]]:
        pages = SharedLogPages(store, memory=300_000)
        lines = [await follow(pages, LINES) for _ in range(2)]
        assert pages.size <= 300_000
        return lines

    first, second = asyncio.run(run())
    assert first == second
    assert set(store.reads.values()) == {2}


@pytest.mark.finding("A9")
def test_the_followers_of_a_cancelled_one_still_get_the_page(tmp_path: Path, log: Path) -> None:
    append(log, 0, 3)
    store = CountedStore(tmp_path)
    store.gate.clear()

    blocked: list[asyncio.Task[list[str]]] = []

    async def run() -> list[str]:
        pages = SharedLogPages(store)
        for number in (1, 2):  # each of the two threads is busy with a read
            blocked.append(asyncio.create_task(follow(pages, 3)))
            while store.reads.total() < number:
                await asyncio.sleep(0)
        cancelled, other = (asyncio.create_task(follow(pages, 3)) for _ in range(2))
        await asyncio.sleep(0)  # both wait for one read
        cancelled.cancel()
        await asyncio.sleep(0)
        store.gate.set()
        return await other

    assert asyncio.run(run()) == ["line 0", "line 1", "line 2"]


def test_an_encoded_page_is_a_log_page(tmp_path: Path, log: Path) -> None:
    import msgspec

    append(log, 0, 1234)
    page = asyncio.run(SharedLogPages(FileLogStore(tmp_path)).read(TRIAL, None))
    decoded = msgspec.json.decode(page.event.partition(b"data: ")[2], type=LogPage)
    assert [part.text for part in decoded.items] == [f"line {number}" for number in range(1234)]
    assert decoded.next == page.cursor
