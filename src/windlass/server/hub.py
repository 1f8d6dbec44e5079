"""Who waits for news of what: the bridge from the controller's threads to the event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict

QUEUE = -1  # the topic of "something moved in the queue"


class Hub:
    """Wakes streams when their trial changed.

    `publish` may be called from any thread; a subscription is an `asyncio.Event`
    that is set when there is news, and cleared by whoever looks.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: defaultdict[int, set[asyncio.Event]] = defaultdict(set)
        self.is_closing = False

    def publish(self, topic: int) -> None:
        """Say that there is news of a trial (or of the queue)."""
        if topic in self._waiting and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, topic)

    def subscribe(self, *topics: int) -> asyncio.Event:
        """An event that is set with each piece of news."""
        event = asyncio.Event()
        for topic in topics:
            self._waiting[topic].add(event)
        return event

    def unsubscribe(self, event: asyncio.Event, *topics: int) -> None:
        """Forget a subscription."""
        for topic in topics:
            self._waiting[topic].discard(event)
            if not self._waiting[topic]:
                del self._waiting[topic]

    def close(self) -> None:
        """Wake everyone: the server is leaving."""
        self.is_closing = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for topic in list(self._waiting):
            self._wake(topic)

    def _wake(self, topic: int) -> None:
        for event in self._waiting.get(topic, ()):
            event.set()
