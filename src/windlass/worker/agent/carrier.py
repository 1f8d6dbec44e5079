"""News of an attempt on their way to the server, in a thread: no program waits for it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from windlass.worker.agent.channel import GivenUp
from windlass.worker.agent.saved import Saved
from windlass.worker.agent.shipping import Shipping
from windlass.worker.files import read_json
from windlass.worker.nudge import CHECKPOINT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from windlass.worker.agent.channel import Channel

_GATHER = 0.02  # seconds in which what is new is left to become more: a thousand lines, one request
_OUTPUTS_EVERY = 10.0  # seconds between two looks at what a program leaves to be kept


class Carrier:
    """Ships what is written as it is told of, and in the end all that is left."""

    def __init__(self, channel: Channel, base: str, attempt_dir: str) -> None:
        launch: dict[str, Any] = read_json(os.path.join(attempt_dir, "launch.json")) or {}
        self._shipping = Shipping(channel, base, attempt_dir)
        self._saved = Saved(channel, base, launch)
        self._news = threading.Event()
        self._has_saved = False
        self._told: set[str] = set()
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="windlass-carrier", daemon=True)
        self._thread.start()

    def hear(self, message: bytes) -> None:
        """Something was written."""
        try:
            self._has_saved |= json.loads(message).get("about") == CHECKPOINT
        except (ValueError, AttributeError):
            return  # it is not for us
        self._news.set()

    def finish(self, *, is_taken_away: bool = False) -> None:
        """Have all of it with the server, the end last of all; however long that takes.

        It is taken away if whoever runs this wanted it gone, and not its program.
        """
        self._is_ending.set()
        self._news.set()
        self._thread.join()
        try:
            # Each for itself: whatever is wrong with one, how it ended is told.
            self._try(self._saved.ship_parts)
            self._try(self._saved.ship_checkpoints)
            self._try(self._saved.ship_outputs)
            self._try(lambda: self._shipping.ship_end(is_taken_away=is_taken_away))
        except GivenUp:
            sys.stderr.write("windlass: not all of it could be handed over: nobody waits for it\n")

    def _try(self, ship: Callable[[], None]) -> None:
        """Ship something; what goes wrong is said, and keeps nothing else back."""
        try:
            ship()
        except GivenUp:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it is: the rest is shipped
            told = f"windlass: not all of it could be handed over: {str(error) or repr(error)}\n"
            if told not in self._told:
                self._told.add(told)
                sys.stderr.write(told)

    def _carry(self) -> None:
        next_outputs = time.monotonic() + _OUTPUTS_EVERY
        try:
            while not self._is_ending.is_set():
                if self._news.wait(max(0.0, next_outputs - time.monotonic())):
                    self._is_ending.wait(_GATHER)
                    self._news.clear()
                self._try(self._shipping.ship)
                if self._has_saved:
                    self._has_saved = False
                    self._try(self._saved.ship_parts)
                    self._try(self._saved.ship_checkpoints)
                if time.monotonic() >= next_outputs:
                    self._try(self._saved.ship_outputs)
                    next_outputs = time.monotonic() + _OUTPUTS_EVERY
        except GivenUp:
            return  # what is left is tried once more in the end
