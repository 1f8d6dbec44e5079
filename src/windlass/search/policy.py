"""How a search goes: told what happens to its trials, it says what to do next. No I/O.

All it knows comes from what is recorded, so it does not matter who adds the trials, who asks them
to stop and how often that one was killed: two that are told the same come to the same.
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

# A trial that was asked to stop does so by itself. One that goes on reporting as if nothing had
# been said is not listening; one that is silent may be in the midst of a long step.
_DEAF_REPORTS, _DEAF_SECONDS = 3, 3.0
_PATIENCE = 30.0


class Standing(str, Enum):
    """How a trial of a search stands."""

    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"
    UNREPORTED = "no value"  # it ended well, and never said what is searched for
    STOPPED = "stopped"  # by someone
    INTERRUPTED = "interrupted"  # with the search: it is tried again


class Order(NamedTuple):
    """Something to do: ask a trial to stop, or stop it."""

    trial_id: int
    reason: str
    is_request: bool


class _Point(NamedTuple):
    """One value that one replica of a trial reported."""

    trial_id: int
    source: tuple[str, int]
    step: int
    value: float


class SearchTrial:
    """One trial of a search."""

    def __init__(self, number: int, params: dict[str, Any], record: TrialRecord) -> None:
        self.number = number
        self.params = params
        self.record = record
        self.standing = Standing.RUNNING
        self.value: float | None = None  # the last that was reported; what it came to
        self.step: int | None = None  # of that
        self.is_new = True  # it ended, or will, since the search was taken up
        self.pruned_at = _pruned_at(record)
        self.asked: float | None = None  # when it was asked to stop, as far as it is known
        self.heard = 0  # how much it reported since
        self.is_ended = False  # whether it was told to end, after it had not done so by itself
        self.source: tuple[str, int] | None = None  # the replica whose values count


class SearchPolicy:
    """The trials of one search, and what is to be done.

    `value_of` says what a trial returned, for one that ended well and reported nothing.
    """

    def __init__(
        self, name: str, settings: Settings, value_of: Callable[[TrialRecord], float | None]
    ) -> None:
        self.name = name
        self.settings = settings
        self.study = Study(settings)
        self.tried: list[SearchTrial] = []  # by number
        self._value_of = value_of
        self._by_id: dict[int, SearchTrial] = {}
        self._early: dict[int, TrialRecord] = {}  # heard of before the one before it
        self._unknown: dict[int, list[_Point]] = {}  # heard of before their trial
        self._others: set[int] = set()  # trials of the experiment that are none of this search
        self._orders: list[Order] = []

    # -- what is to be done -------------------------------------------------------------

    @property
    def running(self) -> list[SearchTrial]:
        """Those that have not ended."""
        return [tried for tried in self.tried if tried.standing is Standing.RUNNING]

    @property
    def ended(self) -> list[SearchTrial]:
        """Those that have, and count: one that was cut short is tried again."""
        leftover = (Standing.RUNNING, Standing.INTERRUPTED)
        return [tried for tried in self.tried if tried.standing not in leftover]

    @property
    def to_begin(self) -> int:
        """How many more trials there are to be."""
        cut_short = sum(tried.standing is Standing.INTERRUPTED for tried in self.tried)
        return max(self.settings.trials + cut_short - len(self.tried), 0)

    @property
    def best(self) -> SearchTrial | None:
        """The best so far; of equal ones the first."""
        return next(iter(self.ranked()), None)

    def ranked(self) -> list[SearchTrial]:
        """Those that ran to their end, the best first."""
        done = [tried for tried in self.tried if tried.standing is Standing.COMPLETE]
        sign = 1 if self.settings.is_min else -1
        return sorted(done, key=lambda tried: sign * (tried.value or 0.0))

    def propose(self) -> dict[str, Any]:
        """What the next trial is to try."""
        return self.study.propose()

    def take_orders(self, now: float) -> list[Order]:
        """What to do now with those that are not worth going on with, each once."""
        for tried in self.running:
            if self._is_deaf(tried, now):
                reason = f"pruned at step {tried.pruned_at}, and did not stop by itself"
                self._orders.append(Order(tried.record.id, reason, is_request=False))
                tried.is_ended = True
        orders, self._orders = self._orders, []
        return orders

    def next_due(self, now: float) -> float | None:
        """In how many seconds there may be something to do, if nothing happens before."""
        left = [
            tried.asked + (_DEAF_SECONDS if tried.heard >= _DEAF_REPORTS else _PATIENCE) - now
            for tried in self.running
            if tried.asked is not None and not tried.is_ended
        ]
        return max(min(left), 0.0) if left else None

    # -- what happens -------------------------------------------------------------------

    def recall(self, records: Iterable[TrialRecord], points: Iterable[Points], now: float) -> None:
        """Go through all that was before, in the order in which it was."""
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
            tried.is_new = tried.standing is Standing.RUNNING
            self._changed(tried.record, now)

    def learn(self, news: TrialRecord | Points, now: float) -> None:
        """Something happened."""
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
        """A trial was added; how it stands is heard of later, after what it reported."""
        if self.is_mine(record):
            self._begun(record, now)

    def is_mine(self, record: TrialRecord) -> bool:
        """Whether a trial is one of this search, and no repetition of one."""
        place = record.recipe.search
        if place is None or place.search != self.name:
            return False
        return record.recipe.identity == identity(self.name, place.number)

    def _begun(self, record: TrialRecord, now: float) -> None:
        place = record.recipe.search
        if place is None or record.id in self._by_id:
            return
        self._early[place.number] = record
        while (first := self._early.pop(len(self.tried), None)) is not None:
            assert first.recipe.search is not None  # noqa: S101 -- it is ours
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
        if tried.source != point.source or tried.standing is not Standing.RUNNING:
            return
        tried.step, tried.value = point.step, point.value
        if tried.asked is not None:
            tried.heard += 1
        if tried.pruned_at is not None and point.step > tried.pruned_at:
            return  # what Optuna would not have known: it said that this is the end
        if not self.settings.prunes or not self.study.report(
            tried.number, step=point.step, value=point.value
        ):
            return
        if tried.record.state.is_final or tried.pruned_at is not None:
            return  # it was judged before, and by what was known then
        tried.pruned_at, tried.asked = point.step, now
        what = f"{self.settings.metric} {point.value:g}"
        reason = f"pruned at step {point.step}: {what} is not among the best at this step"
        self._orders.append(Order(tried.record.id, reason, is_request=True))

    def _changed(self, record: TrialRecord, now: float) -> None:
        tried = self._by_id.get(record.id)
        if tried is None or tried.standing is not Standing.RUNNING:
            return
        tried.record = record
        if not record.state.is_final:
            tried.pruned_at = _pruned_at(record) if tried.pruned_at is None else tried.pruned_at
            if tried.pruned_at is not None and tried.asked is None:
                tried.asked = now
            return
        tried.standing, tried.value = self._judged(tried)
        if tried.standing is Standing.COMPLETE and tried.value is not None:
            self.study.complete(tried.number, tried.value)
        elif tried.standing is Standing.PRUNED:
            self.study.prune(tried.number)
        else:
            self.study.fail(tried.number, again=tried.standing is Standing.INTERRUPTED)

    def _judged(self, tried: SearchTrial) -> tuple[Standing, float | None]:
        """What an ended trial came to."""
        record = tried.record
        if record.state is TrialState.STOPPED and record.message == INTERRUPTED:
            return Standing.INTERRUPTED, tried.value
        if _pruned_at(record) is not None:
            return Standing.PRUNED, tried.value
        if record.state is TrialState.STOPPED:
            return Standing.STOPPED, tried.value
        if record.state is TrialState.FAILED:
            return Standing.FAILED, tried.value
        value = self._value_of(record) if tried.value is None else tried.value
        if value is None:
            return Standing.UNREPORTED, None
        if value != value:  # not a number: nothing can be said of it
            return Standing.FAILED, value
        return Standing.COMPLETE, value

    @staticmethod
    def _is_deaf(tried: SearchTrial, now: float) -> bool:
        if tried.asked is None or tried.is_ended:
            return False
        passed = now - tried.asked
        return passed >= _PATIENCE or (tried.heard >= _DEAF_REPORTS and passed >= _DEAF_SECONDS)


def identity(name: str, number: int) -> str:
    """What makes the trial of that number one that is not made twice."""
    return f"search/{name}/{number}"


def is_pruned(record: TrialRecord) -> bool:
    """Whether a trial was asked by its search to stop."""
    return _pruned_at(record) is not None


def _pruned_at(record: TrialRecord) -> int | None:
    """The step at which a trial was asked to stop by its search, if it was."""
    match = _PRUNED.match(record.asked_to_stop)
    return int(match[1]) if match else None


def _split(points: Points) -> list[_Point]:
    source = (points.role, points.index)
    return [
        _Point(points.trial_id, source, step, float(value))
        for step, value in zip(points.steps, points.values, strict=True)
    ]
