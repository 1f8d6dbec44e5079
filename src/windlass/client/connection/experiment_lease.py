"""The lease that keeps an experiment open while a program adds trials to it."""

from __future__ import annotations

import contextlib
import http.client
import threading
import uuid

from windlass.client.connection.event_stream import Stream
from windlass.client.connection.http import EventStream, StreamEvent
from windlass.client.connection.transport import Transport, request_path
from windlass.model.errors import ServerUnreachable, WindlassError
from windlass.model.records import ExperimentRecord


class ExperimentLease(Stream[str]):
    """Holds an experiment's lease until `release` is called or the process ends.

    The lease keeps the experiment open on the server. While the lease is held, a thread keeps a
    stream to the server open. If the stream breaks, the server keeps the lease for a short time, in
    which the thread opens the stream again.
    """

    def __init__(self, transport: Transport, experiment_id: int) -> None:
        super().__init__(transport)
        self._experiment_id = experiment_id
        self._is_held = threading.Event()
        self._failure: BaseException | None = None
        self.holder = uuid.uuid4().hex

    def begin(self) -> None:
        """Take the lease and wait until the server has confirmed it."""
        thread = threading.Thread(
            target=self._hold, name=f"windlass-hold-{self._experiment_id}", daemon=True
        )
        thread.start()
        self._is_held.wait()
        if self._failure is not None:
            self.cut()
            raise self._failure

    def release(self) -> None:
        """Release the lease."""
        self.cut()
        path = request_path("experiments", self._experiment_id, "hold")
        with contextlib.suppress(ServerUnreachable):  # the server notices that the stream has ended
            self._transport.ask("DELETE", path, ExperimentRecord, query={"holder": self.holder})

    def _hold(self) -> None:
        while not self._is_cut:
            try:
                for _ in self:
                    self._is_held.set()
            except (ServerUnreachable, OSError, http.client.HTTPException) as error:
                self._failure = error  # the server may come back after a long time
            except WindlassError as error:
                self._failure = error
                break
            self._is_held.set()
        self._is_held.set()

    def _open(self) -> contextlib.AbstractContextManager[EventStream]:
        path = request_path("experiments", self._experiment_id, "hold")
        return self._transport.stream("GET", path, query={"holder": self.holder})

    def _decode(self, event: StreamEvent) -> str:
        return event.name
