"""Uploads files in a separate thread, so that the program never waits for an upload."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from functools import partial

from windlass.worker.agent.http_channel import GivenUp, NoRoom, Refused
from windlass.worker.agent.upload_checkpoints import CheckpointUploads
from windlass.worker.agent.upload_files import FileUploads
from windlass.worker.agent.upload_outputs import OutputUploads
from windlass.worker.common.file_reads import may_pass, read_json, retried
from windlass.worker.common.nudge import CHECKPOINT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from windlass.worker.agent.http_channel import Channel

_GATHER = 0.02  # seconds to collect data, so that many lines share one request
_OUTPUTS_EVERY = 10.0  # seconds between two scans for output files
_FULL = 5.0  # seconds before the next try if the server's disk is full
_AGAIN = 1.0  # seconds before the exit record is resent after an unexpected error


class Uploader:
    """Uploads new data after each notification, and all remaining data at the end."""

    def __init__(self, channel: Channel, base: str, attempt_dir: str) -> None:
        self._channel = channel
        launch_file = os.path.join(attempt_dir, "launch.json")
        launch: dict[str, Any] = retried(lambda: read_json(launch_file) or {})
        self._shipping = FileUploads(channel, base, attempt_dir)
        self._saved = retried(lambda: CheckpointUploads(channel, base, launch))
        self._outputs = OutputUploads(channel, base, launch)
        self._has_news = threading.Event()
        self._has_saved = False
        self._reported: set[str] = set()
        # upload no files before this time, because the server's disk is full
        self._full_until = 0.0
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windlass-uploader", daemon=True)
        self._thread.start()

    def notify(self, message: bytes) -> None:
        """Handle a notification that the supervisor or the program has written a file."""
        try:
            self._has_saved |= json.loads(message).get("about") == CHECKPOINT
        except (ValueError, AttributeError):
            return  # not a valid nudge
        self._has_news.set()

    def finish(self, *, is_taken_away: bool = False) -> None:
        """Upload all remaining data and then the exit record, however long this takes.

        `is_taken_away` is true if Kubernetes stopped the agent, rather than the program ending by
        itself.
        """
        self._is_ending.set()
        self._has_news.set()
        self._thread.join()
        try:
            # Upload each part separately, so that the exit record is sent even if another part
            # fails. The server accepts nothing after the exit record, so wait while the server's
            # disk is full.
            self._ship_at_last(self._saved.ship_parts)
            self._ship_at_last(self._saved.ship_checkpoints)
            self._ship_at_last(partial(self._outputs.ship, is_over=True))
            self._ship_at_last(self._shipping.ship_last)
            self._ship_end(is_taken_away)
        except GivenUp:
            sys.stderr.write(
                "windlass: not all files could be uploaded: the server does not accept them\n"
            )

    def _ship_end(self, is_taken_away: bool) -> None:
        """Send the exit record until the server accepts or rejects it."""
        while True:
            try:
                return self._shipping.ship_end(is_taken_away=is_taken_away)
            except GivenUp:
                raise
            except Refused as error:
                return self._log_once(f"the server refused the exit record: {error}")
            except Exception as error:  # noqa: BLE001 -- any error is retried
                self._log_once(
                    f"the server did not accept the exit record yet: {str(error) or repr(error)}"
                )
                self._channel.rest(_AGAIN)

    def _ship_at_last(self, ship: Callable[[], None]) -> None:
        while not self._try(lambda: retried(ship)):
            # this tells the server why it has to wait
            self._try(self._shipping.ship)
            self._channel.rest(_FULL)
        self._shipping.trouble = ""

    def _try(self, ship: Callable[[], None]) -> bool:
        """Run an upload. Return False if the server currently has no space.

        Other errors do not stop the remaining uploads. An error is logged unless it might be
        temporary and more uploads follow.
        """
        try:
            ship()
        except GivenUp:
            raise
        except NoRoom as error:
            self._shipping.trouble = f"waiting to upload its files: {error}"
            self._log_once(self._shipping.trouble)
            return False
        except Exception as error:  # noqa: BLE001 -- the other uploads continue
            if self._is_ending.is_set() or not may_pass(error):
                self._log_once(f"not all files could be uploaded: {str(error) or repr(error)}")
        return True

    def _log_once(self, message: str) -> None:
        """Log a message unless it was logged before."""
        if message not in self._reported:
            self._reported.add(message)
            sys.stderr.write(f"windlass: {message}\n")

    def _run(self) -> None:
        next_outputs = time.monotonic() + _OUTPUTS_EVERY
        try:
            while not self._is_ending.is_set():
                if self._has_news.wait(max(0.0, next_outputs - time.monotonic())):
                    self._is_ending.wait(_GATHER)
                    self._has_news.clear()
                self._try(self._shipping.ship)
                is_due = time.monotonic() >= next_outputs
                if (self._has_saved or is_due) and time.monotonic() >= self._full_until:
                    self._offer_files(with_outputs=is_due or bool(self._shipping.trouble))
                if is_due:
                    next_outputs = time.monotonic() + _OUTPUTS_EVERY
        except GivenUp:
            return  # `finish` uploads the remaining data

    def _offer_files(self, *, with_outputs: bool) -> None:
        offers: list[Callable[[], None]] = [self._saved.forget_shipped]
        if self._has_saved:
            # reset before the scan, so that files saved later trigger a new scan
            self._has_saved = False
            offers = [self._saved.ship_parts, self._saved.ship_checkpoints]
        if with_outputs:
            offers.append(self._outputs.ship)
        were_taken = [self._try(offer) for offer in offers]
        if all(were_taken):
            self._shipping.trouble = ""
        else:
            self._has_saved = True
            self._full_until = time.monotonic() + _FULL
