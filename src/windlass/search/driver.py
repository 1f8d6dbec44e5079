"""Running a search: what its course says is done, and what happens is told to it.

Nothing is kept here that is not recorded: killed at any point, the next one who runs the search
finds the trials that exist, and goes on.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING

from windlass.client.experiment_stream import ExperimentFollowing, ExperimentNews
from windlass.client.live import Live
from windlass.client.transport import path_of
from windlass.client.trials import Trial
from windlass.model.errors import Conflict
from windlass.model.records import ExperimentRecord, TrialRecord
from windlass.model.wire import AskToStop, Points
from windlass.search.board import Board
from windlass.search.course import INTERRUPTED, Course, Standing, Tried
from windlass.search.failing import flaw_of
from windlass.search.result import SearchResult, summary, told
from windlass.search.values import returned_value

if TYPE_CHECKING:
    from windlass.client.session import Client
    from windlass.search.launcher import Launcher
    from windlass.search.settings import Settings


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
        self._inbox: queue.SimpleQueue[ExperimentNews | BaseException] = queue.SimpleQueue()

    def run(self) -> SearchResult:
        """Run it to its end; what came of it."""
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
                self._stop_all()
                raise flaw

    def _fill(self) -> None:
        """Begin as many trials as may run at once."""
        course = self._course
        while course.to_begin and len(course.running) < self._concurrent:
            number = len(course.tried)
            course.begun(self._launcher.add(number, course.propose()).record, time.monotonic())

    def _follow(self, live: Live) -> None:
        """Wait for something to happen, and do what follows from it."""
        course = self._course
        going = course.running
        with contextlib.suppress(queue.Empty):
            news: ExperimentNews | None = self._next(course.next_due(time.monotonic()))
            while news is not None:
                if not isinstance(news, ExperimentRecord):
                    course.learn(news, time.monotonic())
                news = self._next(0.0)
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

    def _stop_all(self) -> list[Tried]:
        """Stop what runs: it is tried again when the search goes on. The newest first."""
        running = self._course.running
        for each in reversed(running):
            self._stop(each.record.id, INTERRUPTED)
        return running

    # -- Ctrl-C -------------------------------------------------------------------------

    def _interrupted(self, live: Live) -> None:
        """Stop what runs, and say how to go on."""
        number = len(self._course.running)
        trials = f"{number} {'trial' if number == 1 else 'trials'}"
        try:
            if number:
                live.say([(f"Stopping {trials}; Ctrl-C again leaves without waiting.", "")])
            self._stop_all()
            while self._course.running:
                self._follow(live)
        except KeyboardInterrupt:
            live.say([(f"Left {trials} while they stop.", "")])
        live.say(*([(line, "")] for line in self._farewell()))

    def _farewell(self) -> list[str]:
        course = self._course
        done, whole = len(course.ended), course.settings.trials
        lines = [f"Search {course.name!r} was interrupted after {done} of {whole} trials."]
        if (best := course.best) is not None:
            lines.append(f"Best so far: trial {best.record.id}, {told(course, best)}")
        return [*lines, "To go on where it stopped, run it again."]
