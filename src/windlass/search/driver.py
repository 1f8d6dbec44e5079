"""Running a search: what its course says is done, and what happens is told to it.

Nothing is kept here that is not recorded: killed at any point, the next one who runs the search
finds the trials that exist, and goes on.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from windlass.client.building import hold
from windlass.client.experiment_stream import ExperimentFollowing, ExperimentNews
from windlass.client.listing import list_trials
from windlass.client.live import Live
from windlass.client.transport import path_of
from windlass.client.trials import Trial
from windlass.model.errors import Conflict
from windlass.model.metrics import Points
from windlass.model.records import ExperimentRecord, TrialRecord, TrialState
from windlass.model.wire import AskToStop
from windlass.search.board import Board
from windlass.search.course import INTERRUPTED, Course, Standing
from windlass.search.failing import flaw_of, how_to_go_on
from windlass.search.result import SearchResult, summary, told
from windlass.search.values import returned_value

if TYPE_CHECKING:
    from windlass.client.session import Client
    from windlass.search.launcher import Launcher
    from windlass.search.settings import Settings

_AT_ONCE = 1000  # pieces of news that are heard before something is done about them


class Driver:
    """One search, run here and now."""

    def __init__(
        self, client: Client, experiment: ExperimentRecord, launcher: Launcher, name: str,
        settings: Settings, *, concurrent: int, timeout: float | None,
    ) -> None:  # fmt: skip
        self._transport = client.transport
        self._launcher = launcher
        self._concurrent = concurrent
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._course = Course(name, settings, self._returned)
        self._board = Board(self._course, concurrent)
        self._following = ExperimentFollowing(
            self._transport, experiment.id, metric=settings.metric
        )
        self._experiment = experiment
        self._adding: tuple[int, dict[str, Any]] | None = None  # a trial that may exist or not
        self._inbox: queue.SimpleQueue[ExperimentNews | BaseException] = queue.SimpleQueue()

    def run(self) -> SearchResult:
        """Run it to its end; what came of it."""
        # Between two trials the experiment goes on, and so does what ends with it.
        building = hold(self._transport, self._experiment)
        reader = threading.Thread(target=self._read, name="windlass-search", daemon=True)
        reader.start()
        try:
            with Live(self._board.lines) as live:
                try:
                    self._recall(live)
                    self._go_on(live)
                except KeyboardInterrupt:
                    self._interrupted(live)
                    raise KeyboardInterrupt from None
                live.say(*([(line, "")] for line in summary(self._course)))
        finally:
            self._following.cut()
            building.release()
        return SearchResult(self._course, self._transport)

    # -- the loop -----------------------------------------------------------------------

    def _recall(self, live: Live) -> None:
        """Take in all that is recorded: the first round of the stream."""
        records, points = [], []
        rounds = 0
        while rounds < 2:  # the experiment is told before its trials, and after them
            news = self._next(None)
            if isinstance(news, TrialRecord):
                records.append(news)
            elif isinstance(news, Points):
                points.append(news)
            else:
                rounds += 1
        self._course.recall(records, points, time.monotonic())
        self._board.begin_after(len(self._course.ended))
        self._board.update()
        if (done := len(self._course.ended)) and not live.is_live:
            running = len(self._course.running)
            goes_on = f", {running} running" if running else ""
            live.say([(f"search {self._course.name!r} goes on: {done} trials ended{goes_on}", "")])

    def _go_on(self, live: Live) -> None:
        while True:
            if not self._is_late:
                self._fill()
            self._board.update()
            if not self._course.running and (self._is_late or not self._course.to_begin):
                return
            self._follow(live)
            if (flaw := flaw_of(self._course, self._transport)) is not None:
                self._stop_all(self._unfinished())
                raise flaw

    def _fill(self) -> None:
        """Begin as many trials as may run at once."""
        course = self._course
        while course.to_begin and len(course.running) < self._concurrent:
            self._adding = len(course.tried), course.propose()
            added = self._launcher.add(*self._adding)
            course.begun(added.record, time.monotonic())
            self._adding = None

    def _follow(self, live: Live) -> None:
        """Wait for something to happen, and do what follows from it."""
        course = self._course
        going = course.running
        due = course.next_due(time.monotonic())
        with contextlib.suppress(queue.Empty):
            for place in range(_AT_ONCE):
                news = self._next(0.0 if place else due)
                if not isinstance(news, ExperimentRecord):
                    course.learn(news, time.monotonic())
        for order in course.take_orders(time.monotonic()):
            if order.is_request:
                self._ask_to_stop(order.trial_id, order.reason)
            else:
                self._stop(order.trial_id, order.reason)
        if not live.is_live:
            ended = [each for each in going if each.standing is not Standing.RUNNING]
            live.say(*([(self._board.line_of(each), "")] for each in ended))

    def _next(self, seconds: float | None) -> ExperimentNews:
        """The next piece of news; `queue.Empty` if there is none for so long."""
        news = self._inbox.get_nowait() if seconds == 0.0 else self._inbox.get(timeout=seconds)
        if isinstance(news, BaseException):
            raise news
        return news

    def _read(self) -> None:
        try:
            for news in self._following:
                self._inbox.put(news)
        except BaseException as error:  # noqa: BLE001 -- raised where it is waited for
            self._inbox.put(error)

    @property
    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    # -- trials -------------------------------------------------------------------------

    def _returned(self, record: TrialRecord) -> float | None:
        return returned_value(Trial(self._transport, record), self._course.settings.metric)

    def _ask_to_stop(self, trial_id: int, reason: str) -> None:
        with contextlib.suppress(Conflict):  # it has ended meanwhile
            path = path_of("trials", trial_id, "ask-to-stop")
            self._transport.ask("POST", path, TrialRecord, body=AskToStop(reason=reason))

    def _stop(self, trial_id: int, reason: str) -> None:
        with contextlib.suppress(Conflict):
            path = path_of("trials", trial_id)
            record = self._transport.ask("GET", path, TrialRecord)
            if not record.state.is_final:
                Trial(self._transport, record).stop(reason=reason)

    # -- leaving in the midst -----------------------------------------------------------

    def _interrupted(self, live: Live) -> None:
        """Stop what runs, and say how to go on."""
        try:
            running = self._unfinished()
            if running:
                these = "1 trial" if len(running) == 1 else f"{len(running)} trials"
                live.say([(f"Stopping {these}; Ctrl-C again leaves without waiting.", "")])
            self._stop_all(running)
            for trial in running:
                trial.wait()
        except KeyboardInterrupt:
            live.say([("Left the trials while they stop. See: windlass ls", "")])
        live.say(*([(line, "")] for line in self._farewell()))

    def _unfinished(self) -> list[Trial[Any]]:
        """What goes on of this search, asked of the server: Ctrl-C may come between any two lines.

        A trial that was being added is added for certain, for it may be on its way.
        """
        if self._adding is not None:
            self._launcher.add(*self._adding)
        states = [state.value for state in TrialState if not state.is_final]
        found = list_trials(self._transport, experiment=self._experiment.id, state=states)
        return [trial for trial in found if self._course.is_mine(trial.record)]

    def _stop_all(self, running: list[Trial[Any]]) -> None:
        """Stop trials that are to be tried again when the search goes on. The newest first."""
        for trial in reversed(running):
            trial.stop(reason=INTERRUPTED)

    def _farewell(self) -> list[str]:
        course = self._course
        done, whole = len(course.ended), course.settings.trials
        after = f" after {done} of {whole} trials" if course.tried else ""
        lines = [f"Search {course.name!r} was interrupted{after}."]
        if (best := course.best) is not None:
            lines.append(f"Best so far: trial {best.record.id}, {told(course, best)}")
        return [*lines, f"To go on: {how_to_go_on(self._experiment.id)}"]
