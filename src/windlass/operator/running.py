"""Running: the operator as a whole, from the first look to the last."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from windlass.controller.loop import Controller
from windlass.kube.connecting import Connection
from windlass.model.errors import WindlassError
from windlass.operator.counting import Counts, counted, exposition
from windlass.operator.events import Recorder
from windlass.operator.health import HealthServer
from windlass.operator.jobs import Jobs
from windlass.operator.leading import Leading
from windlass.operator.runtime import Pods

WORKERS = 4
_PATIENCE = 60.0  # seconds for the looks that are being taken when it ends

_log = logging.getLogger(__name__)


class Operator:
    """Looks after the jobs of some namespaces, or of all, as long as it leads.

    `lease_namespace` is where it and others like it agree on who leads; empty: it leads alone.
    """

    def __init__(
        self,
        connection: Connection,
        namespaces: Sequence[str] = (),
        *,
        identity: str,
        lease_namespace: str = "",
        host: str = "127.0.0.1",
        port: int = 0,
        workers: int = WORKERS,
        on_trouble: Callable[[WindlassError], None] = lambda _error: None,
    ) -> None:
        self.counts = Counts()
        connection = counted(connection, self.counts)
        self._on_trouble = on_trouble
        self._recorder = Recorder(connection)
        self.jobs = Jobs(
            connection, namespaces, recorder=self._recorder, counts=self.counts,
            on_trouble=self._tell_trouble,
        )  # fmt: skip
        self.pods = Pods(
            connection, self.jobs, namespaces, recorder=self._recorder,
            on_trouble=self._tell_trouble,
        )  # fmt: skip
        self._workers = workers
        self._lock = threading.Lock()
        self._controller = self._new_controller()
        self._term = threading.Event()  # set when the time in which it may act is over
        self._beginner: threading.Thread | None = None
        self._health = HealthServer(
            host, port,
            {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics},
        )  # fmt: skip
        self._leading: Leading | None = None
        self._is_alone = not lease_namespace
        if lease_namespace:
            self._leading = Leading(
                connection, lease_namespace, identity, on_gain=self._begin, on_loss=self._end
            )

    @property
    def port(self) -> int:
        """Where its health is asked for."""
        return self._health.port

    def run(self, stop: threading.Event) -> None:
        """Work until it is told to stop."""
        with self._health:
            self.jobs.start()
            if self._wait(stop, self.jobs):
                # After the jobs: what is remembered of them must not be newer than their pods.
                self.pods.start()
            if self._wait(stop, self.pods):
                _log.info(
                    "seeing %d objects", sum(len(each.items()) for each in self.jobs.watchers)
                )
                if self._leading is not None:
                    self._leading.start()
                else:
                    self._begin()
                stop.wait()
            if self._leading is not None:
                self._leading.stop()
            else:
                self._end()
            self.jobs.stop()
            self.pods.stop()
            self._recorder.stop()

    def _wait(self, stop: threading.Event, view: Jobs | Pods) -> bool:
        """Wait until all was seen once; whether it was, before it was told to stop."""
        for watcher in view.watchers:
            while not watcher.synced.wait(0.1):
                if stop.is_set():
                    return False
        return not stop.is_set()

    def _new_controller(self) -> Controller:
        return Controller(self.jobs, self.pods, workers=self._workers)

    def _begin(self) -> None:
        """Act from now on, or as soon as all is seen that another did until now."""
        self._term = threading.Event()
        self._beginner = threading.Thread(target=self._act, args=(self._term,), name="beginner")
        self._beginner.start()

    def _act(self, over: threading.Event) -> None:
        """Not in the thread that renews the lease: in a large cluster this takes a while."""
        if self._leading is not None:
            for watcher in self.pods.watchers:
                watcher.renew()
            if not self._wait(over, self.pods):
                return
        with self._lock:
            if over.is_set():
                return
            self._controller = self._new_controller()
            self.jobs.watch(self._controller.wake)
            self._controller.start()

    def _end(self) -> None:
        """Act no more."""
        self._term.set()
        if self._beginner is not None:
            self._beginner.join(_PATIENCE)
        with self._lock:
            self.jobs.watch(lambda _uid: None)
            self.pods.watch(lambda _uid: None)
            controller = self._controller
        controller.stop(_PATIENCE)

    def _tell_trouble(self, error: WindlassError | None) -> None:
        if error is not None:
            self._on_trouble(error)

    def _healthz(self) -> tuple[int, str]:
        return 200, "ok\n"

    def _readyz(self) -> tuple[int, str]:
        for watcher in (*self.jobs.watchers, *self.pods.watchers):
            where = f" in namespace {watcher.namespace}" if watcher.namespace else ""
            what = f"{watcher.kind.plural}{where}"
            if watcher.trouble is not None:
                return 503, f"cannot see {what}: {watcher.trouble}\n"
            if not watcher.synced.is_set():
                return 503, f"has not seen all {what} yet\n"
        leads = self._is_alone or (self._leading is not None and self._leading.led.is_set())
        return 200, "leading\n" if leads else "standing by\n"

    def _metrics(self) -> tuple[int, str]:
        with self._lock:
            controller = self._controller
        leads = self._is_alone or (self._leading is not None and self._leading.led.is_set())
        return 200, exposition(self.counts, controller.queue, controller.timing, leads=leads)
