"""The operator process: connects caches, leader election, controller, health and metrics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from windlass.controller.controller import Controller
from windlass.kube.api.connection import Connection
from windlass.kube.api.watch import Watcher
from windlass.model.errors import WindlassError
from windlass.operator.events import EventRecorder
from windlass.operator.health_server import HealthServer
from windlass.operator.jobs.store import JobObjectStore
from windlass.operator.leader_election import LeaderElection, lease_name
from windlass.operator.liveness import PartHealth, first_problem
from windlass.operator.pods.builder import check_pods
from windlass.operator.pods.runtime import PodRuntime
from windlass.operator.prometheus import Counts, OperatorCollector, counted, exposition

WORKERS = 4
_PATIENCE = 60.0  # seconds for running reconciliations to finish when the operator stops

_log = logging.getLogger(__name__)


class Operator:
    """Reconciles the jobs of some or all namespaces while this instance is the leader.

    Instances elect a leader with a lease in `lease_namespace`. If `lease_namespace` is empty, this
    instance always leads.
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
        self._reported: set[str] = set()  # the errors reported since all watchers last worked
        self._recorder = EventRecorder(connection)
        self.jobs = JobObjectStore(
            connection, namespaces, recorder=self._recorder, counts=self.counts,
            check=check_pods, on_trouble=self._report_trouble, clock=clock,
        )  # fmt: skip
        self.pods = PodRuntime(
            connection, self.jobs, namespaces, recorder=self._recorder,
            on_trouble=self._report_trouble, clock=clock,
        )  # fmt: skip
        self._workers = workers
        self._lock = threading.Lock()
        self._controller = self._new_controller()
        self._term = threading.Event()  # set when this instance stops being the leader
        self._term_thread: threading.Thread | None = None
        self._has_started = False
        self._collector = OperatorCollector(self.counts, self._current_controller, self._is_leader)
        self._health = HealthServer(
            host, port,
            {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics},
        )  # fmt: skip
        self._election: LeaderElection | None = None
        self._is_alone = not lease_namespace
        if lease_namespace:
            self._election = LeaderElection(
                connection, lease_namespace, identity, name=lease_name(namespaces),
                on_gain=self._start_term, on_loss=self._end_term,
            )  # fmt: skip

    @property
    def port(self) -> int:
        """The port of the health server."""
        return self._health.port

    def run(self, stop: threading.Event) -> None:
        """Run the operator until `stop` is set."""
        with self._health:
            self.jobs.cache.start()
            if self.jobs.cache.wait_synced(stop):
                # Start the pod cache after the job cache, so that no stored status is newer than
                # the pods.
                self.pods.cache.start()
            if self.pods.cache.wait_synced(stop):
                _log.info("watching %d jobs", len(self.jobs.cache.items()))
                if self._election is not None:
                    self._election.start()
                else:
                    self._start_term()
                stop.wait()
            if self._election is not None:
                self._election.stop()
            else:
                self._end_term()
            self.jobs.cache.stop()
            self.pods.close()
            self._recorder.stop()

    def _new_controller(self) -> Controller:
        return Controller(self.jobs, self.pods, workers=self._workers)

    def _start_term(self) -> None:
        """Start to lead: start a thread that refreshes the caches and then starts a controller."""
        self._term, self._has_started = threading.Event(), False
        self._term_thread = threading.Thread(target=self._run_term, args=(self._term,), name="term")
        self._term_thread.start()

    def _run_term(self, over: threading.Event) -> None:
        """Refresh the caches and start a controller.

        This method runs in its own thread, so that the lease can be renewed at the same time.
        """
        if self._election is not None:
            for cache in (self.jobs.cache, self.pods.cache):  # in the same order as in `run`
                cache.renew()
                if not cache.wait_synced(over):
                    return
        with self._lock:
            if over.is_set():
                return
            self._controller = self._new_controller()
            self.jobs.watch(self._controller.wake)
            self._controller.start()
            self._has_started = True

    def _end_term(self) -> None:
        """Stop the controller, because this instance is no longer the leader."""
        self._term.set()
        if self._term_thread is not None:
            self._term_thread.join(_PATIENCE)
        with self._lock:
            self.jobs.watch(None)
            self.pods.watch(lambda _uid: None)
            controller = self._controller
        controller.stop(_PATIENCE)

    def _report_trouble(self, error: WindlassError | None) -> None:
        """Report an error once.

        The same error is reported again only after all watchers have worked again.
        """
        if error is None:
            if self._reported and all(watcher.trouble is None for watcher in self._watchers()):
                self._reported.clear()
                _log.info("all watches work again")
            return
        if str(error) not in self._reported:
            self._reported.add(str(error))
            self._on_trouble(error)

    def _healthz(self) -> tuple[int, str]:
        problem = first_problem(self._part_health())
        return (503, f"{problem}\n") if problem else (200, "ok\n")

    def _part_health(self) -> Iterator[PartHealth]:
        """Yield the health of every thread that should be running now."""
        for watcher in self._watchers():
            part = f"the watch of {_watched(watcher)}"
            yield PartHealth(part=part, has_died=watcher.has_died, silence=watcher.silence)
        yield PartHealth(part="the reconcile loop", has_died=self._controller.has_died)
        yield PartHealth(
            part="the thread that starts the controller", has_died=self._has_failed_to_start()
        )
        yield PartHealth(part="the thread that posts events", has_died=self._recorder.has_died)
        yield PartHealth(
            part="the thread that reads events of pods", has_died=self.pods.events.has_died
        )
        if self._election is not None:
            yield PartHealth(
                part="the thread that renews the lease", has_died=self._election.has_died
            )

    def _has_failed_to_start(self) -> bool:
        """Return whether the thread that starts the controller ended without starting it."""
        thread, over = self._term_thread, self._term
        is_gone = thread is not None and thread.ident is not None and not thread.is_alive()
        return is_gone and not over.is_set() and not self._has_started

    def _watchers(self) -> Iterator[Watcher]:
        yield from self.jobs.cache.watchers
        yield from self.pods.cache.watchers

    def _readyz(self) -> tuple[int, str]:
        for watcher in self._watchers():
            what = _watched(watcher)
            if watcher.trouble is not None:
                return 503, f"cannot watch {what}: {watcher.trouble}\n"
            if not watcher.synced.is_set():
                return 503, f"has not listed all {what} yet\n"
        return 200, "leading\n" if self._is_leader() else "standing by\n"

    def _metrics(self) -> tuple[int, str]:
        return 200, exposition(self._collector)

    def _current_controller(self) -> Controller:
        with self._lock:
            return self._controller

    def _is_leader(self) -> bool:
        return self._is_alone or (self._election is not None and self._election.is_leading.is_set())


def _watched(watcher: Watcher) -> str:
    where = f" in namespace {watcher.namespace}" if watcher.namespace else ""
    return f"{watcher.kind.plural}{where}"
