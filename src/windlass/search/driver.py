"""Runs a search: adds trials, and stops them when the policy orders it.

All of the driver's state is recorded. If its process is killed, the next driver finds the existing
trials and continues the search.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from windlass.client.connection.experiment_events import ExperimentEvents, ExperimentNews
from windlass.client.connection.interrupt import interrupt
from windlass.client.connection.transport import request_path
from windlass.client.resources.experiment.builder import hold
from windlass.client.resources.trial.list_query import list_trials
from windlass.client.resources.trial.trial import Trial
from windlass.client.terminal.live_lines import Live
from windlass.client.terminal.sigterm import sigterm_interrupts
from windlass.model.errors import Conflict
from windlass.model.metrics import Points
from windlass.model.records import ExperimentRecord, TrialRecord, TrialState
from windlass.model.requests import AskToStop
from windlass.search.hopeless import hopeless_error
from windlass.search.policy import INTERRUPTED, SearchPolicy, SearchState
from windlass.search.progress_table import ProgressTable
from windlass.search.result import SearchResult, metric_text, summary
from windlass.search.values import returned_value

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.search.launcher import Launcher
    from windlass.search.settings import Settings

_AT_ONCE = 1000  # the number of events to process before each decision


class Driver:
    """Runs one search until it ends."""

    def __init__(
        self, client: Client, experiment: ExperimentRecord, launcher: Launcher, name: str,
        settings: Settings, *, concurrent: int, timeout: float | None, to_continue: str,
    ) -> None:  # fmt: skip
        self._transport = client.transport
        self._to_continue = to_continue
        self._launcher = launcher
        self._concurrent = concurrent
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._policy = SearchPolicy(name, settings, self._returned)
        self._progress = ProgressTable(self._policy, concurrent)
        self._following = ExperimentEvents(self._transport, experiment.id, metric=settings.metric)
        self._experiment = experiment
        self._adding: list[tuple[int, dict[str, Any]]] = []  # trials that may or may not exist yet
        self._inbox: queue.SimpleQueue[ExperimentNews | BaseException] = queue.SimpleQueue()

    def run(self) -> SearchResult:
        """Run the search to its end and return the result."""
        # The lease keeps the experiment and its auxiliary trials alive between two trials.
        building = hold(self._transport, self._experiment)
        reader = threading.Thread(target=self._read, name="windlass-search", daemon=True)
        reader.start()
        try:
            with sigterm_interrupts(), Live(self._progress.lines) as live:
                try:
                    self._recall(live)
                    self._go_on(live)
                except KeyboardInterrupt:
                    self._interrupted(live)
                    raise KeyboardInterrupt from None
                live.say(*([(line, "")] for line in summary(self._policy)))
        finally:
            self._following.cut()
            building.release()
        return SearchResult(self._policy, self._transport)

    # -- the loop -----------------------------------------------------------------------

    def _recall(self, live: Live) -> None:
        """Pass all recorded trials and points to the policy.

        The event stream starts with these records.
        """
        records, points = [], []
        rounds = 0
        while rounds < 2:  # the experiment comes both before and after its trials
            news = self._next(None)
            if isinstance(news, TrialRecord):
                records.append(news)
            elif isinstance(news, Points):
                points.append(news)
            else:
                rounds += 1
        self._policy.recall(records, points, time.monotonic())
        self._progress.begin_after(len(self._policy.ended))
        self._progress.update()
        if (done := len(self._policy.ended)) and not live.is_live:
            running = len(self._policy.running)
            goes_on = f", {running} running" if running else ""
            live.say([(f"search {self._policy.name!r} goes on: {done} trials ended{goes_on}", "")])

    def _go_on(self, live: Live) -> None:
        while True:
            if not self._is_late:
                self._fill()
            self._progress.update()
            if not self._policy.running and (self._is_late or not self._policy.to_begin):
                return
            self._follow(live)
            if (
                flaw := hopeless_error(self._policy, self._transport, self._to_continue)
            ) is not None:
                self._stop_all(self._unfinished())
                raise flaw

    def _fill(self) -> None:
        """Start new trials until the maximum number of concurrent trials is reached."""
        policy = self._policy
        while count := min(policy.to_begin, self._concurrent - len(policy.running)):
            if count < 0:
                return
            self._adding = list(enumerate(policy.propose_several(count), len(policy.tried)))
            for trial in self._launcher.add(self._adding):
                policy.begun(trial.record, time.monotonic())
            self._adding = []

    def _follow(self, live: Live) -> None:
        """Wait for events of the trials, and carry out the policy's orders to stop trials."""
        policy = self._policy
        going = policy.running
        due = policy.next_due(time.monotonic())
        with contextlib.suppress(queue.Empty):
            for index in range(_AT_ONCE):
                news = self._next(0.0 if index else due)
                if not isinstance(news, ExperimentRecord):
                    policy.learn(news, time.monotonic())
        for order in policy.take_orders(time.monotonic()):
            if order.is_request:
                self._ask_to_stop(order.trial_id, order.reason)
            else:
                self._stop(order.trial_id, order.reason)
        if not live.is_live:
            ended = [tried for tried in going if tried.state is not SearchState.RUNNING]
            live.say(*([(self._progress.describe_end(tried), "")] for tried in ended))

    def _next(self, seconds: float | None) -> ExperimentNews:
        """Return the experiment's next event.

        Raise `queue.Empty` if none arrives within `seconds`.
        """
        news = self._inbox.get_nowait() if seconds == 0.0 else self._inbox.get(timeout=seconds)
        if isinstance(news, BaseException):
            raise news
        return news

    def _read(self) -> None:
        try:
            for news in self._following:
                self._inbox.put(news)
        except BaseException as error:  # noqa: BLE001 -- raised in the waiting thread
            self._inbox.put(error)

    @property
    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    # -- trials -------------------------------------------------------------------------

    def _returned(self, record: TrialRecord) -> float | None:
        return returned_value(Trial(self._transport, record), self._policy.settings.metric)

    def _ask_to_stop(self, trial_id: int, reason: str) -> None:
        with contextlib.suppress(Conflict):  # the trial has already ended
            path = request_path("trials", trial_id, "ask-to-stop")
            self._transport.ask("POST", path, TrialRecord, body=AskToStop(reason=reason))

    def _stop(self, trial_id: int, reason: str) -> None:
        with contextlib.suppress(Conflict):
            path = request_path("trials", trial_id)
            record = self._transport.ask("GET", path, TrialRecord)
            if not record.state.is_final:
                Trial(self._transport, record).stop(reason=reason)

    # -- interruption ----------------------------------------------------------------------

    def _interrupted(self, live: Live) -> None:
        """Stop the running trials and print how to continue."""
        try:
            running = self._unfinished()
            if running:
                these = "1 trial" if len(running) == 1 else f"{len(running)} trials"
                live.say([(f"Stopping {these}; Ctrl-C again leaves without waiting.", "")])
            self._stop_all(running, ctrl_c=True)
            for trial in running:
                trial.wait()
        except KeyboardInterrupt:
            live.say([("Left the trials while they stop. See: windlass ls", "")])
        live.say(*([(line, "")] for line in self._farewell()))

    def _unfinished(self) -> list[Trial[Any]]:
        """Return this search's unfinished trials, as reported by the server.

        Ctrl-C may interrupt the program at any line, so the local state may be outdated. If the
        server has yet to confirm a new trial, the request is repeated first, which never creates a
        second trial.
        """
        if self._adding:
            self._launcher.add(self._adding)
        states = [state.value for state in TrialState if not state.is_final]
        trials = list_trials(self._transport, experiment=self._experiment.id, state=states)
        return [trial for trial in trials if self._policy.is_mine(trial.record)]

    def _stop_all(self, running: list[Trial[Any]], *, ctrl_c: bool = False) -> None:
        """Stop trials, newest first. A resumed search tries their parameters again."""
        for trial in reversed(running):
            if ctrl_c:
                interrupt(self._transport, trial.id, INTERRUPTED)
            else:
                trial.stop(reason=INTERRUPTED)

    def _farewell(self) -> list[str]:
        policy = self._policy
        done, whole = len(policy.ended), policy.settings.trials
        after = f" after {done} of {whole} trials" if policy.tried else ""
        lines = [f"Search {policy.name!r} was interrupted{after}."]
        if (best := policy.best) is not None:
            lines.append(f"Best so far: trial {best.record.id}, {metric_text(policy, best)}")
        return [*lines, f"To continue: {self._to_continue}"]
