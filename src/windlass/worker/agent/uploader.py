"""The upload thread of an agent, so that no program waits for an upload."""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from windlass.worker.agent.http_channel import GivenUp, NoRoom, Refused
from windlass.worker.agent.upload_checkpoints import Saved
from windlass.worker.agent.upload_files import Shipping
from windlass.worker.common.atomic_files import read_json
from windlass.worker.common.nudge import CHECKPOINT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from windlass.worker.agent.http_channel import Channel

_GATHER = 0.02  # seconds in which what is new is left to become more: a thousand lines, one request
_OUTPUTS_EVERY = 10.0  # seconds between two looks at what a program leaves to be kept
_FULL = 5.0  # seconds until it is seen again whether a full disk has room: nothing tells of that
_AGAIN = 1.0  # seconds until an end that was not understood is told again


class Carrier:
    """Ships what is written as it is told of, and in the end all that is left."""

    def __init__(self, channel: Channel, base: str, attempt_dir: str) -> None:
        self._channel = channel
        launch: dict[str, Any] = read_json(os.path.join(attempt_dir, "launch.json")) or {}
        self._shipping = Shipping(channel, base, attempt_dir)
        self._saved = Saved(channel, base, launch)
        self._news = threading.Event()
        self._has_saved = False
        self._reported: set[str] = set()
        self._full_until = 0.0  # when it is worth while to offer files again
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
            # Each for itself: whatever is wrong with one, how it ended is told. After that nothing
            # more is taken in: a server whose disk is full is waited for before.
            self._ship_at_last(self._saved.ship_parts)
            self._ship_at_last(self._saved.ship_checkpoints)
            self._ship_at_last(self._saved.ship_outputs)
            self._ship_at_last(self._shipping.ship_last)
            self._ship_end(is_taken_away)
        except GivenUp:
            sys.stderr.write("windlass: not all of it could be handed over: nobody waits for it\n")

    def _ship_end(self, is_taken_away: bool) -> None:
        """Say how it ended until it is heard, or refused: nobody else knows."""
        while True:
            try:
                return self._shipping.ship_end(is_taken_away=is_taken_away)
            except GivenUp:
                raise
            except Refused as error:
                return self._say(f"how it ended is not wanted: {error}")
            except Exception as error:  # noqa: BLE001 -- whatever it is: it is said again
                self._say(f"how it ended was not understood yet: {str(error) or repr(error)}")
                self._channel.rest(_AGAIN)

    def _ship_at_last(self, ship: Callable[[], None]) -> None:
        while not self._try(ship):
            self._try(self._shipping.ship)  # it says what is waited for
            self._channel.rest(_FULL)
        self._shipping.trouble = ""

    def _try(self, ship: Callable[[], None]) -> bool:
        """Ship something: false if there is no room for it, for now.

        What goes wrong otherwise is said, and keeps nothing else back.
        """
        try:
            ship()
        except GivenUp:
            raise
        except NoRoom as error:
            self._shipping.trouble = f"waits to hand over its files: {error}"
            self._say(self._shipping.trouble)
            return False
        except Exception as error:  # noqa: BLE001 -- whatever it is: the rest is shipped
            self._say(f"not all of it could be handed over: {str(error) or repr(error)}")
        return True

    def _say(self, what: str) -> None:
        """Say something, once."""
        if what not in self._reported:
            self._reported.add(what)
            sys.stderr.write(f"windlass: {what}\n")

    def _carry(self) -> None:
        next_outputs = time.monotonic() + _OUTPUTS_EVERY
        try:
            while not self._is_ending.is_set():
                if self._news.wait(max(0.0, next_outputs - time.monotonic())):
                    self._is_ending.wait(_GATHER)
                    self._news.clear()
                self._try(self._shipping.ship)
                is_due = time.monotonic() >= next_outputs
                if (self._has_saved or is_due) and time.monotonic() >= self._full_until:
                    self._offer_files(with_outputs=is_due or bool(self._shipping.trouble))
                if is_due:
                    next_outputs = time.monotonic() + _OUTPUTS_EVERY
        except GivenUp:
            return  # what is left is tried once more in the end

    def _offer_files(self, *, with_outputs: bool) -> None:
        offers: list[Callable[[], None]] = [self._saved.forget_shipped]
        if self._has_saved:
            self._has_saved = False  # before they are looked for: what comes now counts again
            offers = [self._saved.ship_parts, self._saved.ship_checkpoints]
        if with_outputs:
            offers.append(self._saved.ship_outputs)
        were_taken = [self._try(offer) for offer in offers]
        if all(were_taken):
            self._shipping.trouble = ""
        else:
            self._has_saved = True
            self._full_until = time.monotonic() + _FULL
