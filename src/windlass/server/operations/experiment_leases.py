"""Leases, with which a program that adds trials keeps its experiment open.

A program holds a lease for as long as it reads a stream. If the stream breaks because the network
failed or the server restarted, the program has a grace period to reconnect. After that, the lease
ends.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable

from windlass.server.web.messages import PING, event
from windlass.server.web.notifications import Hub, Topic

GRACE = 5.0  # seconds for a program to reconnect after its stream broke
FIRST_GRACE = 15.0  # seconds for all programs to reconnect after the server started

Lease = tuple[int, str]  # the experiment's id and the id of the program that holds the lease


class ExperimentLeases:
    """All experiment leases. They change on the event loop but can be read from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._streams: Counter[Lease] = Counter()
        self._leaving: dict[Lease, asyncio.TimerHandle] = {}
        self._may_return_until = time.monotonic() + FIRST_GRACE
        self.on_let_go: Callable[[int], None] = lambda _experiment_id: None
        self.on_change: Callable[[int], None] = lambda _experiment_id: None

    def is_held(self, experiment_id: int) -> bool:
        """Return whether any program holds a lease on this experiment."""
        return any(lease[0] == experiment_id for lease in self._holds())

    def held_ids(self) -> list[int]:
        """Return the ids of all experiments that have a lease."""
        return sorted({lease[0] for lease in self._holds()})

    def may_be_held(self, experiment_id: int) -> bool:
        """Return whether any program holds, or may soon renew, a lease on this experiment.

        Shortly after the server has started, the result is always True, because a program may still
        reconnect.
        """
        return self.is_early() or self.is_held(experiment_id)

    def may_be_there(self, experiment_id: int, holder: str) -> bool:
        """Return whether the program `holder` holds, or may soon renew, a lease on this experiment.

        Shortly after the server has started, the result is always True, because the program may
        still reconnect.
        """
        return self.is_early() or (experiment_id, holder) in self._holds()

    def is_early(self) -> bool:
        """Return whether programs can still reconnect, because the server has just started."""
        return time.monotonic() < self._may_return_until

    async def early(self) -> None:
        """Wait until the time in which programs can reconnect after the server's start is over."""
        await asyncio.sleep(max(self._may_return_until - time.monotonic(), 0.0))

    async def stream(
        self, hub: Hub, experiment_id: int, holder: str
    ) -> AsyncGenerator[bytes, None]:
        """Hold a lease on an experiment for as long as the client reads this stream."""
        lease = (experiment_id, holder)
        news = hub.subscribe(_topic(experiment_id))
        self._take(lease)
        try:
            yield event("held", b"{}")
            while not hub.is_closing:
                try:
                    await asyncio.wait_for(news.wait(), PING)
                except asyncio.TimeoutError:
                    yield b": %d\n\n" % int(time.time())
        finally:
            hub.unsubscribe(news, _topic(experiment_id))
            self._leave(lease)

    def let_go(self, experiment_id: int, holder: str) -> None:
        """End a program's lease on an experiment at once, because the program has finished."""
        lease = (experiment_id, holder)
        self._streams.pop(lease, None)
        self._drop_timer(lease)
        self._gone(experiment_id)

    def _holds(self) -> set[Lease]:
        return {*self._streams, *self._leaving}

    def _take(self, lease: Lease) -> None:
        self._drop_timer(lease)
        self._streams[lease] += 1
        self.on_change(lease[0])

    def _leave(self, lease: Lease) -> None:
        if lease not in self._streams:
            return  # the lease was released
        self._streams[lease] -= 1
        if self._streams[lease] <= 0:
            del self._streams[lease]
            self._leaving[lease] = self._loop.call_later(GRACE, self._give_up, lease)

    def _give_up(self, lease: Lease) -> None:
        self._drop_timer(lease)
        self._gone(lease[0])

    def _gone(self, experiment_id: int) -> None:
        self.on_change(experiment_id)
        self.on_let_go(experiment_id)

    def _drop_timer(self, lease: Lease) -> None:
        timer = self._leaving.pop(lease, None)
        if timer is not None:
            timer.cancel()


def _topic(experiment_id: int) -> Topic:
    """Return a topic that is never notified, so that subscribers wake only at a shutdown."""
    return ("hold", experiment_id)
