"""A search's policy, which decides what to try next and which trials to stop.

The policy does no I/O. Its state depends only on recorded events, so the same events always produce
the same state. It does not matter which process runs the search, or how often that process was
killed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from windlass.model.metrics import Points
from windlass.model.records import TrialRecord, TrialState
from windlass.search.settings import Settings
from windlass.search.study import Study

INTERRUPTED = "the search was interrupted"
_PRUNED = re.compile(r"pruned at step (\d+)")

# When asked, a trial should stop by itself. A trial that keeps reporting values ignores the
# request. A trial that reports nothing may be in the middle of a long step.
_DEAF_REPORTS, _DEAF_SECONDS = 3, 3.0
_PATIENCE = 30.0


class SearchState(str, Enum):
    """A trial's state in a search."""

    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"
    UNREPORTED = "no value"  # the trial succeeded without reporting a value of the metric
    STOPPED = "stopped"  # a user stopped the trial
    INTERRUPTED = "interrupted"  # the search was interrupted; its parameters are tried again


class Order(NamedTuple):
    """An order to stop a trial at once or, if `is_request`, to ask it to stop by itself.

    A trial that is asked may still save its state first.
    """

    trial_id: int
    reason: str
    is_request: bool


class _Point(NamedTuple):
    """A value reported by one of a trial's replicas."""

    trial_id: int
    source: tuple[str, int]
    step: int
    value: float


class SearchTrial:
    """A trial in a search, with its parameters and current value."""

    def __init__(self, number: int, params: dict[str, Any], record: TrialRecord) -> None:
        self.number = number
        self.params = params
        self.record = record
        self.state = SearchState.RUNNING
        self.value: float | None = None  # the last reported value, or the final value
        self.step: int | None = None  # the training step at which `value` was reported
        self.is_new = True  # False if the trial ended before the search resumed
        self.pruned_at = _pruned_at(record)
        self.stop_requested_at: float | None = None  # when the trial was asked to stop
        self.reports_since_request = 0  # values reported since then
        self.is_ended = False  # True if the trial was stopped after it ignored the request
        self.source: tuple[str, int] | None = None  # the replica whose values count


class SearchPolicy:
    """One search's trials, and the orders to stop some of them.

    `value_of` returns the number that a trial's function returned. `value_of` is called for
    successful trials that reported no value.
    """

    def __init__(
        self, name: str, settings: Settings, value_of: Callable[[TrialRecord], float | None]
    ) -> None:
        self.name = name
        self.settings = settings
        self.study = Study(settings)
        self.tried: list[SearchTrial] = []  # ordered by number
        self._value_of = value_of
        self._by_id: dict[int, SearchTrial] = {}
        self._early: dict[int, TrialRecord] = {}  # trials that arrived too early, by number
        self._unknown: dict[int, list[_Point]] = {}  # values that arrived before their trial
        self._others: set[int] = set()  # ids of trials outside this search
        self._orders: list[Order] = []

    # -- decisions -------------------------------------------------------------------------

    @property
    def running(self) -> list[SearchTrial]:
        """The search's trials that have not ended."""
        return [tried for tried in self.tried if tried.state is SearchState.RUNNING]

    @property
    def ended(self) -> list[SearchTrial]:
        """The search's ended trials, except interrupted ones, which will be tried again."""
        leftover = (SearchState.RUNNING, SearchState.INTERRUPTED)
        return [tried for tried in self.tried if tried.state not in leftover]

    @property
    def to_begin(self) -> int:
        """The number of trials that the search has yet to start."""
        cut_short = sum(tried.state is SearchState.INTERRUPTED for tried in self.tried)
        return max(self.settings.trials + cut_short - len(self.tried), 0)

    @property
    def best(self) -> SearchTrial | None:
        """The search's best trial so far. Of several equally good trials, this is the first."""
        return next(iter(self.ranked()), None)

    def ranked(self) -> list[SearchTrial]:
        """Return the trials that ran to their end, ordered from best to worst."""
        done = [tried for tried in self.tried if tried.state is SearchState.COMPLETE]
        sign = 1 if self.settings.is_min else -1
        return sorted(done, key=lambda tried: sign * (tried.value or 0.0))

    def propose(self) -> dict[str, Any]:
        """Return the parameters that the next trial of the search must try."""
        return self.study.propose()

    def propose_several(self, count: int) -> list[dict[str, Any]]:
        """Return the parameters that the next `count` trials of the search must try."""
        return self.study.propose_several(count)

    def take_orders(self, now: float) -> list[Order]:
        """Return the new orders to stop trials. Each order is returned only once."""
        for tried in self.running:
            if self._is_deaf(tried, now):
                reason = f"pruned at step {tried.pruned_at}, and did not stop by itself"
                self._orders.append(Order(tried.record.id, reason, is_request=False))
                tried.is_ended = True
        orders, self._orders = self._orders, []
        return orders

    def next_due(self, now: float) -> float | None:
        """Return the seconds until an order may be due without a new event, or None if never."""
        left = [
            tried.stop_requested_at
            + (_DEAF_SECONDS if tried.reports_since_request >= _DEAF_REPORTS else _PATIENCE)
            - now
            for tried in self.running
            if tried.stop_requested_at is not None and not tried.is_ended
        ]
        return max(min(left), 0.0) if left else None

    # -- events ----------------------------------------------------------------------------

    def recall(self, records: Iterable[TrialRecord], points: Iterable[Points], now: float) -> None:
        """Replay all recorded events of the search's trials in their original order."""
        happened: list[tuple[float, Callable[[], None]]] = []
        by_id = {record.id: record for record in records}
        mine = {number: record for number, record in by_id.items() if self.is_mine(record)}
        self._others |= set(by_id) - set(mine)
        for record in mine.values():
            happened.append((record.created, partial(self._begun, record, now)))
            if record.state.is_final:
                end = record.ended or record.created
                happened.append((end, partial(self._changed, record, now)))
        for some in points:
            if some.trial_id in mine:
                happened += [
                    (time, partial(self._reported, point, now))
                    for time, point in zip(some.times, _split(some), strict=True)
                ]
        for _, happens in sorted(happened, key=itemgetter(0)):
            happens()
        for tried in self.tried:
            tried.is_new = tried.state is SearchState.RUNNING
            self._changed(tried.record, now)

    def learn(self, news: TrialRecord | Points, now: float) -> None:
        """Process an event of the search: a changed trial, or values that a trial reported."""
        if isinstance(news, Points):
            for point in _split(news):
                self._reported(point, now)
        elif self.is_mine(news):
            self._begun(news, now)
            self._changed(news, now)
        else:
            self._others.add(news.id)
            self._unknown.pop(news.id, None)

    def begun(self, record: TrialRecord, now: float) -> None:
        """Register a newly added trial.

        This is necessary, because the event stream reports a trial's values before its state.
        """
        if self.is_mine(record):
            self._begun(record, now)

    def is_mine(self, record: TrialRecord) -> bool:
        """Return True if a trial belongs to this search and is not a rerun."""
        position = record.recipe.search
        if position is None or position.search != self.name:
            return False
        return record.recipe.identity == identity(self.name, position.number)

    def _begun(self, record: TrialRecord, now: float) -> None:
        position = record.recipe.search
        if position is None or record.id in self._by_id:
            return
        self._early[position.number] = record
        while (first := self._early.pop(len(self.tried), None)) is not None:
            assert first.recipe.search is not None  # noqa: S101 -- checked above
            params = first.recipe.search.params
            made = SearchTrial(self.study.begin(params), params, first)
            self.tried.append(made)
            self._by_id[first.id] = made
            for point in self._unknown.pop(first.id, []):
                self._reported(point, now)
            if first is not record:
                self._changed(first, now)

    def _reported(self, point: _Point, now: float) -> None:
        tried = self._by_id.get(point.trial_id)
        if tried is None:
            if point.trial_id in self._others:
                return
            self._unknown.setdefault(point.trial_id, []).append(point)
            return
        tried.source = tried.source or point.source
        if tried.source != point.source or tried.state is not SearchState.RUNNING:
            return
        tried.step, tried.value = point.step, point.value
        if tried.stop_requested_at is not None:
            tried.reports_since_request += 1
        if tried.pruned_at is not None and point.step > tried.pruned_at:
            return  # Optuna must not see values from after the step where it stopped the trial
        if not self.settings.prunes or not self.study.report(
            tried.number, step=point.step, value=point.value
        ):
            return
        if tried.record.state.is_final or tried.pruned_at is not None:
            return  # this trial was already decided on earlier
        tried.pruned_at, tried.stop_requested_at = point.step, now
        what = f"{self.settings.metric} {point.value:g}"
        reason = f"pruned at step {point.step}: {what} is not among the best at this step"
        self._orders.append(Order(tried.record.id, reason, is_request=True))

    def _changed(self, record: TrialRecord, now: float) -> None:
        tried = self._by_id.get(record.id)
        if tried is None or tried.state is not SearchState.RUNNING:
            return
        tried.record = record
        if not record.state.is_final:
            tried.pruned_at = _pruned_at(record) if tried.pruned_at is None else tried.pruned_at
            if tried.pruned_at is not None and tried.stop_requested_at is None:
                tried.stop_requested_at = now
            return
        tried.state, tried.value = self._judged(tried)
        if tried.state is SearchState.COMPLETE and tried.value is not None:
            self.study.complete(tried.number, tried.value)
        elif tried.state is SearchState.PRUNED:
            self.study.prune(tried.number)
        else:
            self.study.fail(tried.number, again=tried.state is SearchState.INTERRUPTED)

    def _judged(self, tried: SearchTrial) -> tuple[SearchState, float | None]:
        """Return the final state of an ended trial in its search, and the trial's value, if any."""
        record = tried.record
        if record.state is TrialState.STOPPED and record.message.startswith(INTERRUPTED):
            return SearchState.INTERRUPTED, tried.value
        if _pruned_at(record) is not None:
            return SearchState.PRUNED, tried.value
        if record.state is TrialState.STOPPED:
            return SearchState.STOPPED, tried.value
        if record.state is TrialState.FAILED:
            return SearchState.FAILED, tried.value
        value = self._value_of(record) if tried.value is None else tried.value
        if value is None:
            return SearchState.UNREPORTED, None
        if value != value:  # a NaN cannot be ranked
            return SearchState.FAILED, value
        return SearchState.COMPLETE, value

    @staticmethod
    def _is_deaf(tried: SearchTrial, now: float) -> bool:
        if tried.stop_requested_at is None or tried.is_ended:
            return False
        passed = now - tried.stop_requested_at
        return passed >= _PATIENCE or (
            tried.reports_since_request >= _DEAF_REPORTS and passed >= _DEAF_SECONDS
        )


def identity(name: str, number: int) -> str:
    """Return text that identifies a trial in its experiment.

    The server never creates two trials with the same identity.
    """
    return f"search/{name}/{number}"


def _pruned_at(record: TrialRecord) -> int | None:
    """Return the step at which a search asked the trial to stop early, or None."""
    match = _PRUNED.match(record.asked_to_stop)
    return int(match[1]) if match else None


def _split(points: Points) -> list[_Point]:
    source = (points.role, points.index)
    return [
        _Point(points.trial_id, source, step, float(value))
        for step, value in zip(points.steps, points.values, strict=True)
    ]
