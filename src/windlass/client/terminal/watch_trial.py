"""Runs a trial in the foreground, printing its output and stopping it on Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from windlass.client.client import Client
from windlass.client.connection.event_stream import News, TrialEvents
from windlass.client.connection.interrupt import TIME_TO_CLEAN_UP, interrupt
from windlass.client.connection.submit import send
from windlass.client.connection.transport import request_path
from windlass.client.resources.trial.outcome import how_it_ended, lacks_value
from windlass.client.resources.trial.replica_names import names_of
from windlass.client.resources.trial.trial import Trial
from windlass.client.terminal.sigterm import Interruption, sigterm_interrupts
from windlass.client.terminal.status_line import share_of, status_text
from windlass.client.terminal.view import View
from windlass.client.terminal.wait_notice import WaitNotice
from windlass.model.errors import WindlassError
from windlass.model.logs import LogPage
from windlass.model.records import TrialRecord, TrialState
from windlass.model.requests import CreateTrial, StreamEnd, TrialPage
from windlass.model.run_time import seconds_run
from windlass.model.status import NOTHING_TO_JUDGE_BY, Event
from windlass.model.text.quantities import format_duration
from windlass.packaging.draft import Draft

if TYPE_CHECKING:
    from windlass.client.terminal.change_notices import ChangeNotices


def run_and_watch(client: Client, draft: Draft, view: View) -> tuple[Trial[Any], StreamEnd]:
    """Submit a prepared trial and watch it until it ends."""

    def begin(request: CreateTrial) -> tuple[TrialEvents, Iterator[News], News]:
        following = TrialEvents(client.transport, request=request)
        events = iter(following)
        return following, events, next(events)

    view.tell_apart(names_of(draft.request.spec))
    with sigterm_interrupts() as interruption:
        try:
            following, events, first = send(client.transport, draft, begin)
        except KeyboardInterrupt:
            _stop_unseen(client, draft.request.key, interruption.reason)
            raise
        return _watch(client, following, view, events, first, interruption)


def watch(
    client: Client,
    trial: Trial[Any],
    view: View,
    *,
    before_stop: Callable[[], int] = lambda: 0,
) -> tuple[Trial[Any], StreamEnd]:
    """Watch a submitted trial until it ends, showing its output from the first line on.

    Ctrl-C stops the trial. Before that, `before_stop` is called, so that it can stop other trials
    before they start. It returns how many trials it has stopped.
    """
    view.tell_apart(names_of(trial.record.spec, trial.record.attempts))
    following = TrialEvents(client.transport, trial_id=trial.id)
    with sigterm_interrupts() as interruption:
        return _watch(client, following, view, iter(following), None, interruption, before_stop)


def wait_and_report(client: Client, trial: Trial[Any], view: View) -> Trial[Any]:
    """Wait until a trial has ended, and report long waits.

    The trial's output is not printed.
    """
    with WaitNotice(view) as standstill:
        for news in TrialEvents(client.transport, trial_id=trial.id, logs=False):
            if isinstance(news, StreamEnd):
                return Trial(client.transport, news.trial)
            if isinstance(news, TrialRecord):
                view.status(status_text(news))
                standstill.update(news)
    raise AssertionError("a stream that was not cut ends with its end")


def _watch(
    client: Client,
    following: TrialEvents,
    view: View,
    events: Iterator[News],
    first: News | None,
    interruption: Interruption,
    before_stop: Callable[[], int] = lambda: 0,
) -> tuple[Trial[Any], StreamEnd]:
    with WaitNotice(view) as standstill:
        watcher = _Watcher(client, following, view, standstill)
        try:
            end = watcher.follow(events, first)
        except KeyboardInterrupt:
            end = watcher.stop_and_follow(before_stop, interruption)
            view.say(f"Trial {end.trial.id} ({end.trial.name}) {how_it_ended(end.trial)}.")
            raise KeyboardInterrupt from None
    return Trial(client.transport, end.trial), end


class _Watcher:
    """Prints one trial's output and state until the trial ends."""

    def __init__(
        self, client: Client, following: TrialEvents, view: View, standstill: WaitNotice
    ) -> None:
        self._client = client
        self._following = following
        self._view = view
        self._notices: ChangeNotices | None = None
        self._has_announced_wait = False
        self._has_started = False
        self._standstill = standstill

    def follow(self, events: Iterator[News], first: News | None = None) -> StreamEnd:
        if first is not None and (end := self._show(first)):
            return end
        for news in events:
            if end := self._show(news):
                return end
        raise AssertionError("a stream that was not cut ends with its end")

    def stop_and_follow(
        self, before_stop: Callable[[], int], interruption: Interruption
    ) -> StreamEnd:
        trial_id = self._following.trial_id
        others = 0
        try:
            others = before_stop()
            self._ask_to_stop(interruption.reason)
            stopping = f"{others + 1} trials" if others else f"trial {trial_id}"
            if self._has_started:
                stopping += f" ({format_duration(TIME_TO_CLEAN_UP)} to clean up)"
            self._view.say(f"Stopping {stopping}; {interruption.again}.")
            return self.follow(iter(self._following))
        except KeyboardInterrupt:
            left = f"trial {trial_id} while it stops. See: windlass show {trial_id}"
            if others:
                left = f"{others + 1} trials while they stop. See: windlass ls"
            self._view.say(f"Left {left}")
            raise KeyboardInterrupt from None

    def _ask_to_stop(self, reason: str) -> None:
        """Send the stop request, even if the user presses Ctrl-C again in the meantime."""
        transport, trial_id = self._client.transport, self._following.trial_id
        assert trial_id is not None  # noqa: S101 -- the trial's record has arrived
        try:
            interrupt(transport, trial_id, reason)
        except KeyboardInterrupt:
            interrupt(transport, trial_id, reason)
            raise

    def _show(self, news: News) -> StreamEnd | None:
        if isinstance(news, TrialRecord):
            self._has_started |= news.started is not None
            self._view.tell_apart(names_of(news.spec, news.attempts))
            self._show_changes(news)
            self._view.status(status_text(news), share_of(news))
            self._announce_wait(news)
            if self._has_announced_wait:
                self._view.wait_for("")
            else:
                self._standstill.update(news)
        elif isinstance(news, LogPage):
            self._has_started = True  # output can arrive before the record of the start
            for part in news.items:
                self._view.show(part)
            self._view.flush()
        else:
            self._view.status("")
            self._view.end_lines()
            self._show_changes(news.trial)
            self._tell_what_stayed(news.trial)
            self._conclude(news.trial)
            return news
        return None

    def _show_changes(self, trial: TrialRecord) -> None:
        """Print a notice for each change to the trial, but only in a terminal."""
        if not self._view.is_live:
            return
        if self._notices is None:
            from windlass.client.terminal.change_notices import ChangeNotices

            self._notices = ChangeNotices(self._events)
        for turn in self._notices.next(trial):
            self._view.note(turn)

    def _announce_wait(self, trial: TrialRecord) -> None:
        """Explain once that this process's trial keeps its resources while it waits.

        The user should know this, because the trial that it waits for may need those very
        resources.
        """
        me = os.environ.get("WINDLASS_TRIAL_ID")
        if "WINDLASS_EXTERNAL" in os.environ:
            return  # external trials reserve no capacity
        is_waiting = trial.state is TrialState.QUEUED and trial.message
        if me is None or not is_waiting or self._has_announced_wait or self._view.is_live:
            return
        self._has_announced_wait = True
        advice = f"Trial {me}, which waits for it, keeps its own resources meanwhile."
        self._view.say(f"T{status_text(trial)[1:]}. {advice}")

    def _tell_what_stayed(self, trial: TrialRecord) -> None:
        """Warn if all checkpoints were kept although the user asked for only the best."""
        if trial.spec.keep is None or not trial.spec.keep.best:
            return
        for event in self._events() or ():
            if event.reason == NOTHING_TO_JUDGE_BY:
                self._view.say(f"Warning: {event.message}")

    def _events(self) -> list[Event] | None:
        """Return the trial's events, or None if the server does not respond."""
        path = request_path("trials", self._following.trial_id, "events")
        try:
            return self._client.transport.ask("GET", path, list[Event])
        except WindlassError:
            return None  # the next record triggers another request

    def _conclude(self, trial: TrialRecord) -> None:
        seconds = seconds_run(trial)
        if trial.state is TrialState.SUCCEEDED and seconds is not None:
            noun = "trial" if trial.kind.is_listed else trial.kind.value
            took = format_duration(seconds)
            end = f"ended after {took} without returning"
            if not lacks_value(trial):
                end = f"succeeded in {took}"
            self._view.note(f"{noun} {trial.id} ({trial.name}) {end}")
        elif self._view.cell is not None:
            self._view.cell.note(f"trial {trial.id} ({trial.name}) {how_it_ended(trial)}")


def _stop_unseen(client: Client, key: str, reason: str) -> None:
    """Stop a trial that may have been submitted although Ctrl-C interrupted the request."""
    page = client.transport.ask("GET", "/trials", TrialPage, query={"uid": key})
    for record in page.items:
        interrupt(client.transport, record.id, reason)
