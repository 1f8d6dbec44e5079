"""Who waits for news of what: the bridge from the controller's threads to the event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict

Topic = int | tuple[str, int]  # a number is that of a trial

QUEUE: Topic = -1  # the topic of "something moved in the queue"


def experiment_topic(experiment_id: int) -> Topic:
    """The topic of an experiment and of all its trials."""
    return ("experiment", experiment_id)


class News(asyncio.Event):
    """Set when there is news, and cleared by whoever looks.

    Of an experiment it also says which trials changed, until they are taken.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changed: dict[int, None] = {}

    def add(self, trial_id: int | None) -> None:
        """There is news, of that trial if it is one."""
        if trial_id is not None:
            self._changed[trial_id] = None
        self.set()

    def take(self) -> list[int]:
        """The trials that changed since this was last asked for; the news are seen."""
        self.clear()
        taken, self._changed = list(self._changed), {}
        return taken


class Hub:
    """Wakes streams when their trial or experiment changed.

    `publish` may be called from any thread; a subscription is an event that is set when
    there is news, and cleared by whoever looks.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: defaultdict[Topic, set[News]] = defaultdict(set)
        self.is_closing = False

    def publish(self, topic: Topic, trial_id: int | None = None) -> None:
        """Say that there is news of a trial, of an experiment (of which trial), of the queue."""
        if topic in self._waiting and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, topic, trial_id)

    def subscribe(self, *topics: Topic) -> News:
        """An event that is set with each piece of news."""
        event = News()
        for topic in topics:
            self._waiting[topic].add(event)
        return event

    def unsubscribe(self, event: News, *topics: Topic) -> None:
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
            self._wake(topic, None)

    def _wake(self, topic: Topic, trial_id: int | None) -> None:
        for event in self._waiting.get(topic, ()):
            event.add(trial_id)
