"""Who keeps an experiment open: programs that are in the midst of building it.

A program holds an experiment by a stream that stays open. When that breaks the program may come
back for a while: the network failed, or this server was restarted. Then it has let go.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable

from windlass.server.http import PING, event
from windlass.server.hub import Hub, Topic

GRACE = 5.0  # for a program whose stream broke to come back
FIRST_GRACE = 15.0  # for all of them, after the server's start

Hold = tuple[int, str]  # the experiment, and who holds it


class Holds:
    """Every hold there is; used on the event loop, asked from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._streams: Counter[Hold] = Counter()
        self._leaving: dict[Hold, asyncio.TimerHandle] = {}
        self._may_return_until = time.monotonic() + FIRST_GRACE
        self.on_let_go: Callable[[int], None] = lambda _experiment_id: None
        self.on_change: Callable[[int], None] = lambda _experiment_id: None

    def is_held(self, experiment_id: int) -> bool:
        """Whether somebody holds an experiment, as far as we know."""
        return any(each[0] == experiment_id for each in self._holds())

    def held_ids(self) -> list[int]:
        """The experiments that somebody holds."""
        return sorted({each[0] for each in self._holds()})

    def may_be_held(self, experiment_id: int) -> bool:
        """The same, but soon after the start those who held it before may yet return."""
        return self.is_early() or self.is_held(experiment_id)

    def may_be_there(self, experiment_id: int, holder: str) -> bool:
        """Whether that program may still hold it."""
        return self.is_early() or (experiment_id, holder) in self._holds()

    def is_early(self) -> bool:
        """Whether it is too soon after the start to say that somebody does not come back."""
        return time.monotonic() < self._may_return_until

    async def early(self) -> None:
        """Wait until it is no longer early."""
        await asyncio.sleep(max(self._may_return_until - time.monotonic(), 0.0))

    async def stream(
        self, hub: Hub, experiment_id: int, holder: str
    ) -> AsyncGenerator[bytes, None]:
        """Hold an experiment for as long as somebody listens to this."""
        hold = (experiment_id, holder)
        news = hub.subscribe(_topic(experiment_id))
        self._take(hold)
        try:
            yield event("held", b"{}")
            while not hub.is_closing:
                try:
                    await asyncio.wait_for(news.wait(), PING)
                except asyncio.TimeoutError:
                    yield b": %d\n\n" % int(time.time())
        finally:
            hub.unsubscribe(news, _topic(experiment_id))
            self._leave(hold)

    def let_go(self, experiment_id: int, holder: str) -> None:
        """Somebody said that it is done: nothing is waited for."""
        hold = (experiment_id, holder)
        self._streams.pop(hold, None)
        self._drop_timer(hold)
        self._gone(experiment_id)

    def _holds(self) -> set[Hold]:
        return {*self._streams, *self._leaving}

    def _take(self, hold: Hold) -> None:
        self._drop_timer(hold)
        self._streams[hold] += 1
        self.on_change(hold[0])

    def _leave(self, hold: Hold) -> None:
        if hold not in self._streams:
            return  # it was let go
        self._streams[hold] -= 1
        if self._streams[hold] <= 0:
            del self._streams[hold]
            self._leaving[hold] = self._loop.call_later(GRACE, self._give_up, hold)

    def _give_up(self, hold: Hold) -> None:
        self._drop_timer(hold)
        self._gone(hold[0])

    def _gone(self, experiment_id: int) -> None:
        self.on_change(experiment_id)
        self.on_let_go(experiment_id)

    def _drop_timer(self, hold: Hold) -> None:
        timer = self._leaving.pop(hold, None)
        if timer is not None:
            timer.cancel()


def _topic(experiment_id: int) -> Topic:
    """There is no news of a hold but the server's end."""
    return ("hold", experiment_id)
