"""Follows a trial or an experiment: one stream of events, resumed where it broke off."""

from __future__ import annotations

import contextlib
import http.client
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from windlass.client.connection.http import EventStream, StreamEvent
from windlass.client.connection.transport import Transport, decode, request_path
from windlass.model.errors import ServerUnreachable, WaitTimeout
from windlass.model.logs import LogPage
from windlass.model.records import TrialRecord
from windlass.model.requests import CreateTrial, StreamEnd

T = TypeVar("T")
News = TrialRecord | LogPage | StreamEnd
N = TypeVar("N")

_PATIENCE = 60.0  # time without a server after which the wait gives up
_PAUSE = 0.2  # pause between two requests to a server that does not answer


def insist(ask: Callable[[], T]) -> T:
    """Request events of a trial, and retry for a limited time while the server does not answer."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            return ask()
        except ServerUnreachable:
            if time.monotonic() > give_up:
                raise
        time.sleep(_PAUSE)  # no notification arrives when a server returns


class Stream(ABC, Generic[N]):
    """News of something, as they come, for as long as they are asked for.

    When the stream breaks (the server was restarted), it is opened again.
    """

    def __init__(self, transport: Transport, *, timeout: float | None = None) -> None:
        self._transport = transport
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._timeout = timeout
        self._stream: EventStream | None = None
        self._is_cut = False

    def __iter__(self) -> Iterator[N]:
        silent_since: float | None = None
        while True:
            try:
                for event in self._events():
                    silent_since = None
                    news = self._decode(event)
                    if news is None:
                        continue
                    yield news
                    if self._is_last(news):
                        return
            except (OSError, http.client.HTTPException, ServerUnreachable) as error:
                if self._is_cut:
                    return
                self._check_deadline()
                now = time.monotonic()
                silent_since = silent_since or now
                if now - silent_since > _PATIENCE:
                    raise
                if isinstance(error, ServerUnreachable):
                    time.sleep(_PAUSE)  # as above
            if self._is_cut:
                return
            self._check_deadline()

    def cut(self) -> None:
        """Stop following, from any thread."""
        self._is_cut = True
        if self._stream is not None:
            self._stream.cut()

    @abstractmethod
    def _open(self) -> contextlib.AbstractContextManager[EventStream]:
        """Open the stream, from the last cursor on."""

    @abstractmethod
    def _decode(self, event: StreamEvent) -> N | None:
        """Decode an event; return None for a duplicate."""

    def _is_last(self, news: N) -> bool:  # noqa: ARG002 -- most streams have no last event
        return False

    def _too_late(self, limit: str) -> WaitTimeout:
        """Build the error for a missed deadline."""
        return WaitTimeout(f"It did not end within {limit}. It continues to run.")

    def _events(self) -> Iterator[StreamEvent]:
        with self._open() as stream:
            self._stream = stream
            if self._is_cut:  # before there was anything to cut
                return
            with self._watched(stream):
                yield from stream

    @contextlib.contextmanager
    def _watched(self, stream: EventStream) -> Iterator[None]:
        """Cut the stream when the deadline comes."""
        if self._deadline is None:
            yield
            return
        import threading

        timer = threading.Timer(max(self._deadline - time.monotonic(), 0.0), stream.cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _check_deadline(self) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            from windlass.model.text.quantities import format_duration

            raise self._too_late(format_duration(self._timeout or 0.0))


class TrialEvents(Stream[News]):
    """The events of a trial, as they happen, until its end.

    The stream starts with the request that creates the trial, or with an existing trial. After a
    break (the server restarted), it continues from the last cursor. `query` has the filters of
    the log, which the server applies, and the `tail` to start with.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        trial_id: int | None = None,
        request: CreateTrial | None = None,
        logs: bool = True,
        query: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(transport, timeout=timeout)
        self._request = request
        self._query = {"logs": "true" if logs else "false", **(query or {})}
        self._cursor: str | None = None
        self.trial_id = trial_id

    def _open(self) -> contextlib.AbstractContextManager[EventStream]:
        query = self._query
        if self.trial_id is None:
            return self._transport.stream("POST", "/trials", body=self._request, query=query)
        if self._cursor is not None:
            query = {**query, "tail": None, "cursor": self._cursor}
        path = request_path("trials", self.trial_id, "stream")
        return self._transport.stream("GET", path, query=query)

    def _decode(self, event: StreamEvent) -> News:
        if event.name == "log":
            page = decode(event.data, LogPage)
            self._cursor = page.next
            return page
        if event.name == "end":
            return decode(event.data, StreamEnd)
        record = decode(event.data, TrialRecord)
        self.trial_id = record.id
        return record

    def _is_last(self, news: News) -> bool:
        return isinstance(news, StreamEnd)

    def _too_late(self, limit: str) -> WaitTimeout:
        return WaitTimeout(
            f"Trial {self.trial_id} did not end within {limit}. It continues to run.",
            hint=f"Wait again, or stop it: windlass stop {self.trial_id}",
        )
