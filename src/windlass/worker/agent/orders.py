"""Receives the server's orders to stop an attempt or to ask its program to end.

The agent uses long polling. The server responds when an order changes.
"""

from __future__ import annotations

import os
import sys
import threading

from windlass.worker.agent.http_channel import GivenUp, Refused
from windlass.worker.common.atomic_files import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from windlass.worker.agent.http_channel import Channel

_AGAIN = 1.0  # seconds before an order that could not be written is requested again


class Orders:
    """Receives orders in its own thread and writes them to files that the program reads."""

    def __init__(
        self, channel: Channel, base: str, attempt_dir: str, on_stop: Callable[[float, bool], None]
    ) -> None:
        self._channel = channel
        self._base = base
        self._dir = attempt_dir
        self._trial = os.path.dirname(os.path.dirname(attempt_dir))
        self._on_stop = on_stop
        self._seen = ""
        self._last_message = ""
        self.is_dismissed = False  # True if the server needs no more data from this attempt
        threading.Thread(target=self._listen, name="windlass-orders", daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                self._receive_one()
        except GivenUp:
            return
        except Refused:
            # The trial was deleted, or a newer attempt has replaced this one.
            self.is_dismissed = True
            self._on_stop(0.0, False)

    def _receive_one(self) -> None:
        try:
            path = f"{self._base}/orders?seen={self._seen}"
            self._execute(self._channel.ask_json("GET", path))
        except (OSError, ValueError) as error:
            # The disk is full or the response is invalid. Continue, because the next order may be
            # to stop.
            self._log(f"an order could not be executed yet: {error}")
            self._channel.rest(_AGAIN)

    def _execute(self, orders: dict[str, Any]) -> None:
        stop = orders.get("stop")
        if stop:
            self._on_stop(float(stop.get("grace", 0.0)), bool(stop.get("interrupt")))
        if orders.get("should_stop"):
            write_json(os.path.join(self._trial, "should_stop"), orders["should_stop"])
        # set last, so that the server resends an order that failed here
        self._seen = str(orders.get("seen", ""))

    def _log(self, message: str) -> None:
        """Log a message unless it equals the previously logged message."""
        if message != self._last_message:
            self._last_message = message
            sys.stderr.write(f"windlass: {message}\n")
