"""Running: the operator as a whole, from the first look to the last."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from windlass.controller.loop import Controller
from windlass.kube.connecting import Connection
from windlass.kube.watching import Watcher
from windlass.model.errors import WindlassError
from windlass.operator.counting import Counts, counted, exposition
from windlass.operator.events import Recorder
from windlass.operator.health import HealthServer
from windlass.operator.jobs import Jobs
from windlass.operator.leading import Leading, lease_name
from windlass.operator.runtime import Pods
from windlass.operator.signs import Sign, ailment

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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = Counts()
        connection = counted(connection, self.counts)
        self._on_trouble = on_trouble
        self._told: set[str] = set()  # troubles, since all was last seen
        self._recorder = Recorder(connection)
        self.jobs = Jobs(
            connection, namespaces, recorder=self._recorder, counts=self.counts,
            on_trouble=self._tell_trouble, clock=clock,
        )  # fmt: skip
        self.pods = Pods(
            connection, self.jobs, namespaces, recorder=self._recorder,
            on_trouble=self._tell_trouble, clock=clock,
        )  # fmt: skip
        self._workers = workers
        self._lock = threading.Lock()
        self._controller = self._new_controller()
        self._term = threading.Event()  # set when the time in which it may act is over
        self._beginner: threading.Thread | None = None
        self._has_begun = False
        self._health = HealthServer(
            host, port,
            {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics},
        )  # fmt: skip
        self._leading: Leading | None = None
        self._is_alone = not lease_namespace
        if lease_namespace:
            self._leading = Leading(
                connection, lease_namespace, identity, name=lease_name(namespaces),
                on_gain=self._begin, on_loss=self._end,
            )  # fmt: skip

    @property
    def port(self) -> int:
        """Where its health is asked for."""
        return self._health.port

    def run(self, stop: threading.Event) -> None:
        """Work until it is told to stop."""
        with self._health:
            self.jobs.view.start()
            if self.jobs.view.wait_seen(stop):
                # After the jobs: what is remembered of them must not be newer than their pods.
                self.pods.view.start()
            if self.pods.view.wait_seen(stop):
                _log.info("jobs in sight: %d", len(self.jobs.view.items()))
                if self._leading is not None:
                    self._leading.start()
                else:
                    self._begin()
                stop.wait()
            if self._leading is not None:
                self._leading.stop()
            else:
                self._end()
            self.jobs.view.stop()
            self.pods.close()
            self._recorder.stop()

    def _new_controller(self) -> Controller:
        return Controller(self.jobs, self.pods, workers=self._workers)

    def _begin(self) -> None:
        """Act from now on, or as soon as all is seen that another did until now."""
        self._term, self._has_begun = threading.Event(), False
        self._beginner = threading.Thread(target=self._act, args=(self._term,), name="beginner")
        self._beginner.start()

    def _act(self, over: threading.Event) -> None:
        """Not in the thread that renews the lease: in a large cluster this takes a while."""
        if self._leading is not None:
            for view in (self.jobs.view, self.pods.view):  # in this order, as in `run`
                view.renew()
                if not view.wait_seen(over):
                    return
        with self._lock:
            if over.is_set():
                return
            self._controller = self._new_controller()
            self.jobs.watch(self._controller.wake)
            self._controller.start()
            self._has_begun = True

    def _end(self) -> None:
        """Act no more."""
        self._term.set()
        if self._beginner is not None:
            self._beginner.join(_PATIENCE)
        with self._lock:
            self.jobs.watch(None)
            self.pods.watch(lambda _uid: None)
            controller = self._controller
        controller.stop(_PATIENCE)

    def _tell_trouble(self, error: WindlassError | None) -> None:
        """Tell it once, whoever meets it, until all is seen again."""
        if error is None:
            if self._told and all(each.trouble is None for each in self._watchers()):
                self._told.clear()
                _log.info("all is seen again")
            return
        if str(error) not in self._told:
            self._told.add(str(error))
            self._on_trouble(error)

    def _healthz(self) -> tuple[int, str]:
        found = ailment(self._signs())
        return (503, f"{found}\n") if found else (200, "ok\n")

    def _signs(self) -> Iterator[Sign]:
        """Of everything that must be at work now."""
        for watcher in self._watchers():
            part = f"the watch of {_seen_by(watcher)}"
            yield Sign(part=part, has_died=watcher.has_died, silence=watcher.silence)
        yield Sign(part="the loop that looks at jobs", has_died=self._controller.has_died)
        yield Sign(part="the thread that begins it", has_died=self._has_not_begun())
        yield Sign(part="the thread that tells of events", has_died=self._recorder.has_died)
        yield Sign(part="the thread that reads events of pods", has_died=self.pods.events.has_died)
        if self._leading is not None:
            yield Sign(part="the thread that renews the lease", has_died=self._leading.has_died)

    def _has_not_begun(self) -> bool:
        """Whether it is to act, and whoever was to begin that is gone without having done it."""
        beginner, over = self._beginner, self._term
        is_gone = beginner is not None and beginner.ident is not None and not beginner.is_alive()
        return is_gone and not over.is_set() and not self._has_begun

    def _watchers(self) -> Iterator[Watcher]:
        yield from self.jobs.view.watchers
        yield from self.pods.view.watchers

    def _readyz(self) -> tuple[int, str]:
        for watcher in self._watchers():
            what = _seen_by(watcher)
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


def _seen_by(watcher: Watcher) -> str:
    where = f" in namespace {watcher.namespace}" if watcher.namespace else ""
    return f"{watcher.kind.plural}{where}"
