"""Encoded log pages that all of a trial's followers share.

Threads read and encode the pages. If many clients follow the same log, most pages are read and
encoded only once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec

from windlass.model.logs import LogPart
from windlass.server.stores.logs.base import WHOLE_LOG, LogSelection, LogStore, Page
from windlass.server.web.messages import event

# Log bytes per page. A client that stops reading keeps one page in memory.
_PAGE = 64 * 1024
_AT_ONCE = 500  # lines to encode in one step
_MEMORY = 16 << 20  # bytes of encoded pages to keep


class EncodedPage(NamedTuple):
    """A page of a log as a server-sent event."""

    event: bytes
    cursor: str
    has_lines: bool
    has_more: bool


class _Key(NamedTuple):
    """A position in a trial's log and the filters that the log store applies."""

    trial_id: int
    cursor: str | None
    stream: str | None
    whose: LogSelection


def encode_page(parts: list[LogPart], cursor: str | None) -> bytes:
    """Encode a `LogPage` in small steps, so that other threads can run between steps.

    >>> encode_page([LogPart(time=1.0, stream="stdout", text="a")], "main-0.1:9")
    b'{"items":[{"time":1.0,"stream":"stdout","text":"a"}],"next":"main-0.1:9"}'
    """
    steps = (parts[start : start + _AT_ONCE] for start in range(0, len(parts), _AT_ONCE))
    items = b",".join(msgspec.json.encode(step)[1:-1] for step in steps)
    return b'{"items":[%b],"next":%b}' % (items, msgspec.json.encode(cursor))


def encode_event(page: Page) -> EncodedPage:
    """Encode a page as a server-sent event.

    Call this in a thread, because a page may have many lines.
    """
    data = event("log", encode_page(page.parts, page.cursor), page.cursor)
    return EncodedPage(data, page.cursor, bool(page.parts), page.has_more)


class SharedLogPages:
    """Reads pages for followers, and keeps the most recently used full pages.

    Logs only grow, so a full page never changes. A log's last page is read again for every request,
    but one read serves all followers that requested the page before the read began.
    """

    def __init__(self, logs: LogStore, memory: int = _MEMORY) -> None:
        self._logs = logs
        self._memory = memory
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="windlass-log")
        self._lock = threading.Lock()
        # The kept pages, least recently used first.
        self._pages: OrderedDict[_Key, EncodedPage] = OrderedDict()
        self.size = 0  # the bytes in all kept pages
        # Reads that have not started yet.
        self._waiting: dict[_Key, asyncio.Future[EncodedPage]] = {}

    async def read(
        self,
        trial_id: int,
        cursor: str | None,
        stream: str | None = None,
        whose: LogSelection = WHOLE_LOG,
    ) -> EncodedPage:
        """Return the encoded page of a trial's log that follows a cursor."""
        key = _Key(trial_id, cursor, stream, whose)
        with self._lock:
            if (page := self._kept(key)) is not None:
                return page
            read = self._waiting.get(key)
            if read is None:
                loop = asyncio.get_running_loop()
                read = self._waiting[key] = loop.run_in_executor(self._threads, self._read, key)
        # Shield the read, because other followers may wait for the same page.
        return await asyncio.shield(read)

    def _read(self, key: _Key) -> EncodedPage:
        with self._lock:
            del self._waiting[key]
            if (page := self._kept(key)) is not None:
                return page
        page = encode_event(
            self._logs.read(key.trial_id, key.cursor, key.stream, key.whose, size=_PAGE)
        )
        if page.has_more:
            with self._lock:
                self._keep(key, page)
        return page

    def _kept(self, key: _Key) -> EncodedPage | None:
        page = self._pages.get(key)
        if page is not None:
            self._pages.move_to_end(key)
        return page

    def _keep(self, key: _Key, page: EncodedPage) -> None:
        replaced = self._pages.pop(key, None)
        self._pages[key] = page
        self.size += len(page.event) - (len(replaced.event) if replaced else 0)
        while self.size > self._memory:
            _, oldest = self._pages.popitem(last=False)
            self.size -= len(oldest.event)
