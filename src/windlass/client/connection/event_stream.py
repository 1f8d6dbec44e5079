"""Follows a trial or an experiment through one stream of events.

A broken stream resumes after the last received event.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from windlass.client.connection.http import EventStream, StreamEvent
from windlass.client.connection.transport import Transport, decode, request_path
from windlass.model.errors import Deadlock, ServerUnreachable, WaitTimeout
from windlass.model.logs import LogPage
from windlass.model.records import TrialRecord
from windlass.model.requests import CreateTrial, StreamEnd

T = TypeVar("T")
News = TrialRecord | LogPage | StreamEnd
N = TypeVar("N")

_PATIENCE = 60.0  # seconds without a response before the client gives up
_STUCK = 5.0  # seconds before a wait that can never end raises an error
_PAUSE = 0.2  # seconds between requests to a server that does not respond


def insist(ask: Callable[[], T]) -> T:
    """Call `ask`, and retry for a limited time while the server does not respond."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            return ask()
        except ServerUnreachable:
            if time.monotonic() > give_up:
                raise
        time.sleep(_PAUSE)  # nothing announces that a server is back


class Stream(ABC, Generic[N]):
    """An iterator that yields events from the server as they arrive.

    If the stream breaks, for example because the server restarts, the iterator reopens it.
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
                    time.sleep(_PAUSE)  # as in `insist`
            if self._is_cut:
                return
            self._check_deadline()

    def cut(self) -> None:
        """End the stream. Any thread can call this method."""
        self._is_cut = True
        if self._stream is not None:
            self._stream.cut()

    @abstractmethod
    def _open(self) -> contextlib.AbstractContextManager[EventStream]:
        """Open the event stream, starting after the last received event."""

    @abstractmethod
    def _decode(self, event: StreamEvent) -> N | None:
        """Decode an event. Return None if the event was already received."""

    def _is_last(self, news: N) -> bool:  # noqa: ARG002 -- most streams have no last event
        return False

    def _too_late(self, limit: str) -> WaitTimeout:
        """Build the error for a wait that exceeded its timeout. `limit` is the timeout as text."""
        return WaitTimeout(f"It did not end within {limit}. It continues to run.")

    def _events(self) -> Iterator[StreamEvent]:
        with self._open() as stream:
            self._stream = stream
            if self._is_cut:  # `cut` was called before the stream was open
                return
            with self._watched(stream):
                yield from stream

    @contextlib.contextmanager
    def _watched(self, stream: EventStream) -> Iterator[None]:
        """Close an event stream at the wait's deadline, unless the `with` block ends earlier."""
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
    """The events of a trial as they happen, until the trial ends.

    Pass `request` to create a trial and follow it, or `trial_id` to follow an existing trial. If
    the stream breaks, for example because the server restarts, it continues at the last cursor.
    `query` contains log filters, which the server applies. `tail` is the number of existing log
    lines to start with.
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
        self._own_trial = _own_trial(transport)
        self._query["waiter"] = self._own_trial
        self._hopeless: TrialRecord | None = None
        self._stuck_timer: threading.Timer | None = None
        self.trial_id = trial_id

    def __iter__(self) -> Iterator[News]:
        try:
            yield from super().__iter__()
        finally:
            self._watch_blockers(None)
        if self._hopeless is not None:
            raise _deadlock_error(self._hopeless, self._own_trial)

    def _watch_blockers(self, record: TrialRecord | None) -> None:
        """End this wait for a trial once it has been hopeless for some time.

        A wait is hopeless if this process belongs to a trial, and trials wait for each other or for
        each other's capacity. Of these trials, only the newest gives up its wait.
        """
        is_stuck = record is not None and self._own_trial == max(record.blocked_by, default=None)
        if not is_stuck and self._stuck_timer is not None:
            self._stuck_timer.cancel()
            self._stuck_timer = None
        elif is_stuck and self._stuck_timer is None:
            self._stuck_timer = threading.Timer(_STUCK, self._give_up, [record])
            self._stuck_timer.daemon = True
            self._stuck_timer.start()

    def _give_up(self, record: TrialRecord) -> None:
        self._hopeless = record
        self.cut()

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
        if self._own_trial is not None:
            self._watch_blockers(record)
        return record

    def _is_last(self, news: News) -> bool:
        return isinstance(news, StreamEnd)

    def _too_late(self, limit: str) -> WaitTimeout:
        return WaitTimeout(
            f"Trial {self.trial_id} did not end within {limit}. It continues to run.",
            hint=f"Wait again, or stop it: windlass stop {self.trial_id}",
        )


def _own_trial(transport: Transport) -> int | None:
    """Return the id of this process's own trial, if it occupies capacity on the same server."""
    number = os.environ.get("WINDLASS_TRIAL_ID", "")
    is_elsewhere = "WINDLASS_EXTERNAL" in os.environ or "WINDLASS_AWAY" in os.environ
    if is_elsewhere or transport.named != (None, None) or not number.isdecimal():
        return None
    return int(number)


def _deadlock_error(record: TrialRecord, own_trial: int | None) -> Deadlock:
    return Deadlock(
        f"Trial {record.id} ({record.name}) can never start: {record.message}. This is trial "
        f"{own_trial}, so its wait would never end.",
        hint="Call the function directly (train(...)), which runs it inside this trial. Or reserve "
        "less for the trials that wait: cpus=0.1. Or submit the other trials from a program that "
        f"is no trial. To stop trial {record.id}: windlass stop {record.id}",
    )
