"""Encoded pages of logs, which the followers of a trial share.

Threads read and encode the pages. If many clients follow a log, most pages are read once.
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

_PAGE = 64 * 1024  # bytes of segments per page; a follower that does not read holds one page
_AT_ONCE = 500  # lines to encode
_MEMORY = 16 << 20  # bytes of encoded pages that are kept


class EncodedPage(NamedTuple):
    """A page of a log as a server-sent event."""

    event: bytes
    cursor: str
    has_lines: bool
    has_more: bool


class _Key(NamedTuple):
    """A position in a log and the filters that a store applies."""

    trial_id: int
    cursor: str | None
    stream: str | None
    whose: LogSelection


def encode_page(parts: list[LogPart], cursor: str | None) -> bytes:
    """Encode a `LogPage` in small steps: another thread may run only between them.

    >>> encode_page([LogPart(time=1.0, stream="stdout", text="a")], "main-0.1:9")
    b'{"items":[{"time":1.0,"stream":"stdout","text":"a"}],"next":"main-0.1:9"}'
    """
    steps = (parts[start : start + _AT_ONCE] for start in range(0, len(parts), _AT_ONCE))
    items = b",".join(msgspec.json.encode(step)[1:-1] for step in steps)
    return b'{"items":[%b],"next":%b}' % (items, msgspec.json.encode(cursor))


def encode_event(page: Page) -> EncodedPage:
    """Encode a page as an event. Call it in a thread: a page may have many lines."""
    data = event("log", encode_page(page.parts, page.cursor), page.cursor)
    return EncodedPage(data, page.cursor, bool(page.parts), page.has_more)


class SharedLogPages:
    """Reads pages for followers, and keeps the full pages that were read last.

    A full page never changes, since logs only grow. The last page of a log is read for all
    followers that requested it before the read began.
    """

    def __init__(self, logs: LogStore, memory: int = _MEMORY) -> None:
        self._logs = logs
        self._memory = memory
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="windlass-log")
        self._lock = threading.Lock()
        self._pages: OrderedDict[_Key, EncodedPage] = OrderedDict()  # the latest used ones last
        self.size = 0  # bytes of them
        self._waiting: dict[_Key, asyncio.Future[EncodedPage]] = {}  # reads that have not begun

    async def read(
        self,
        trial_id: int,
        cursor: str | None,
        stream: str | None = None,
        whose: LogSelection = WHOLE_LOG,
    ) -> EncodedPage:
        """Return the page after a cursor."""
        key = _Key(trial_id, cursor, stream, whose)
        with self._lock:
            if (page := self._kept(key)) is not None:
                return page
            read = self._waiting.get(key)
            if read is None:
                loop = asyncio.get_running_loop()
                read = self._waiting[key] = loop.run_in_executor(self._threads, self._read, key)
        return await asyncio.shield(read)  # other followers may need it, too

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
