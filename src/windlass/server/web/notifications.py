"""Notifications that wake streams. The controller's threads publish them to the event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict

Topic = int | tuple[str, int]  # an int is the id of a trial

QUEUE: Topic = -1  # the topic for changes to the queue


def experiment_topic(experiment_id: int) -> Topic:
    """Return the topic for an experiment and all of its trials."""
    return ("experiment", experiment_id)


class News(asyncio.Event):
    """An event that is set by every notification and cleared by its reader.

    For the topic of an experiment, it also collects the ids of changed trials until `take` is
    called.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changed: dict[int, None] = {}

    def add(self, trial_id: int | None) -> None:
        """Record a notification for this subscriber.

        `trial_id` is the changed trial's id, if any.
        """
        if trial_id is not None:
            self._changed[trial_id] = None
        self.set()

    def take(self) -> list[int]:
        """Return the ids of trials that changed since the last call, and clear the event."""
        self.clear()
        taken, self._changed = list(self._changed), {}
        return taken


class Hub:
    """Wakes streams when their trial or experiment has changed.

    `publish` can be called from any thread. A subscription is an event that is set by every
    notification and cleared by its reader.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: defaultdict[Topic, set[News]] = defaultdict(set)
        self.is_closing = False

    def publish(self, topic: Topic, trial_id: int | None = None) -> None:
        """Notify a topic's subscribers. For an experiment, `trial_id` is the changed trial's id."""
        if topic in self._waiting and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, topic, trial_id)

    def subscribe(self, *topics: Topic) -> News:
        """Return a new subscription: an event that is set by every notification on these topics."""
        event = News()
        for topic in topics:
            self._waiting[topic].add(event)
        return event

    def unsubscribe(self, event: News, *topics: Topic) -> None:
        """Remove a subscription to topics."""
        for topic in topics:
            self._waiting[topic].discard(event)
            if not self._waiting[topic]:
                del self._waiting[topic]

    def close(self) -> None:
        """Wake all subscribers because the server shuts down."""
        self.is_closing = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        for topic in list(self._waiting):
            self._wake(topic, None)

    def _wake(self, topic: Topic, trial_id: int | None) -> None:
        for event in self._waiting.get(topic, ()):
            event.add(trial_id)
