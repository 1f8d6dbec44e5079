"""The decisions of a search, from reports in any order and after any number of restarts."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass as wl
from windlass.model.job import JobSpec, ProcessCall, Role
from windlass.model.metrics import Points
from windlass.model.records import Recipe, SearchSuggestion, TrialRecord, TrialState
from windlass.search.policy import INTERRUPTED, SearchPolicy, SearchState, identity
from windlass.search.settings import Settings

SPEC = JobSpec(roles=(Role(name="main", executable=ProcessCall(argv=("true",))),))


def settings(method: Any = "asha", **other: Any) -> Settings:
    options = {"trials": 12, "seed": 4, "reduction": 2, "space": {"x": wl.uniform(0, 1)}, **other}
    return Settings(metric="loss", mode="min", method=method, **options)


def policy(**options: Any) -> SearchPolicy:
    return SearchPolicy("search", settings(**options), lambda _: None)


class Script:
    """Trials of a search as a server would record them. Every action advances the time."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.records: dict[int, TrialRecord] = {}
        self.points: list[Points] = []

    def add(self, number: int, params: dict[str, Any]) -> TrialRecord:
        place = SearchSuggestion(search="search", number=number, params=params)
        return self._put(
            TrialRecord(
                id=number + 1, uid=f"{number:032x}", name="train", experiment="e", project="p",
                experiment_id=1, state=TrialState.RUNNING, created=self._tick(), spec=SPEC,
                recipe=Recipe(identity=identity("search", number), search=place),
            )
        )  # fmt: skip

    def report(self, trial_id: int, step: int, value: float, index: int = 0) -> Points:
        before = [
            point for point in self.points if (point.trial_id, point.index) == (trial_id, index)
        ]
        made = Points(
            trial_id=trial_id, name="loss", index=index, start=len(before), steps=(step,),
            times=(self._tick(),), values=(value,),
        )  # fmt: skip
        self.points.append(made)
        return made

    def change(self, trial_id: int, **changes: Any) -> TrialRecord:
        return self._put(msgspec.structs.replace(self.records[trial_id], **changes))

    def end(self, trial_id: int, state: TrialState, message: str = "") -> TrialRecord:
        return self.change(trial_id, state=state, message=message, ended=self._tick())

    def _put(self, record: TrialRecord) -> TrialRecord:
        self.records[record.id] = record
        return record

    def _tick(self) -> float:
        self.time += 1
        return self.time


def knowledge(policy: SearchPolicy) -> list[dict[str, Any]]:
    """Everything that Optuna knows about the trials of a search."""
    values = []
    for trial in policy.study.optuna_trials():
        rungs = {name: value for name, value in trial.system_attrs.items() if "rung" in name}
        values.append(
            {
                "params": trial.params,
                "state": trial.state.name,
                "values": trial.values,
                "on the way": trial.intermediate_values,
                "rungs": rungs,
            }
        )
    return values


@given(seed=st.integers(0, 10_000), cut=st.floats(0, 1))
def test_a_resumed_search_has_the_knowledge_of_the_previous_one(seed: int, cut: float) -> None:
    """A random history. In the middle of it another search starts from the records."""
    chance, script = random.Random(seed), Script()
    first = policy(trials=10)
    story: list[TrialRecord | Points] = []
    second: SearchPolicy | None = None

    def tell(news: TrialRecord | Points) -> None:
        story.append(news)
        for trial in (first, second):
            if trial is not None:
                trial.learn(news, script.time)

    steps = dict.fromkeys(range(1, 11), 0)
    length = 120
    for moment in range(length):
        if moment == int(cut * length):
            second = policy(trials=10)
            second.recall(script.records.values(), script.points, script.time)
        going = [trial.record.id for trial in first.running]
        if len(going) < 3 and first.to_begin and chance.random() < 0.5:
            tell(script.add(len(first.tried), first.propose()))
            continue
        if not going:
            continue
        trial_id = chance.choice(going)
        is_asked = script.records[trial_id].asked_to_stop
        if chance.random() < (0.4 if is_asked else 0.1):
            how = chance.choice([TrialState.SUCCEEDED] * 3 + [TrialState.FAILED])
            tell(script.end(trial_id, how))
            continue
        steps[trial_id] += 1
        tell(script.report(trial_id, steps[trial_id], chance.random()))
        # The remaining wait for an unresponsive trial depends on the process that waited.
        orders = [order for order in first.take_orders(script.time) if order.is_request]
        if second is not None:
            assert [
                order for order in second.take_orders(script.time) if order.is_request
            ] == orders
        for order in orders:
            tell(script.change(order.trial_id, asked_to_stop=order.reason))
    second = second or policy(trials=10)
    if not second.tried:
        second.recall(script.records.values(), script.points, script.time)
    assert knowledge(second) == knowledge(first)
    assert [trial.state for trial in second.tried] == [trial.state for trial in first.tried]
    assert second.propose() == first.propose()


def test_reports_in_another_order_give_the_same_result() -> None:
    script, search_policy = Script(), policy(method="random")
    plan = [{"x": 0.1}, {"x": 0.2}]
    first, second = (script.add(number, params) for number, params in enumerate(plan))
    search_policy.learn(script.report(second.id, 1, 5.0), 0)
    search_policy.learn(second, 0)
    assert search_policy.tried == [], "the first is not known yet"
    search_policy.learn(first, 0)
    assert [trial.record.id for trial in search_policy.tried] == [first.id, second.id]
    search_policy.learn(script.end(second.id, TrialState.SUCCEEDED), 0)
    assert (search_policy.tried[1].state, search_policy.tried[1].value) == (
        SearchState.COMPLETE,
        5.0,
    )


def test_a_rerun_of_a_trial_is_not_part_of_the_search() -> None:
    script, search_policy = Script(), policy(method="random")
    first = script.add(0, {"x": 0.1})
    search_policy.learn(first, 0)
    recipe = msgspec.structs.replace(first.recipe, identity="", origin_id=first.id)
    search_policy.learn(msgspec.structs.replace(first, id=99, recipe=recipe), 0)
    search_policy.learn(script.report(99, 1, 0.0), 0)
    assert len(search_policy.tried) == 1
    assert search_policy.tried[0].value is None


def test_the_first_replica_that_reported_counts() -> None:
    script, search_policy = Script(), policy(method="random")
    record = script.add(0, {"x": 0.1})
    search_policy.learn(record, 0)
    search_policy.learn(script.report(record.id, 1, 2.0, index=1), 0)
    search_policy.learn(script.report(record.id, 1, 9.0, index=0), 0)
    search_policy.learn(script.end(record.id, TrialState.SUCCEEDED), 0)
    assert search_policy.tried[0].value == 2.0


@pytest.mark.parametrize(("reports", "seconds", "is_stopped"), [
    (0, 29, False), (0, 30, True), (2, 10, False), (3, 2, False), (3, 3, True),
])  # fmt: skip
def test_a_trial_that_is_asked_to_stop_has_a_grace_period(
    reports: int, seconds: float, is_stopped: bool
) -> None:
    script, search_policy = Script(), policy()
    records = [script.add(0, search_policy.propose())]
    search_policy.learn(records[0], 0)
    search_policy.learn(script.report(records[0].id, 1, 0.0), 0)
    records.append(script.add(1, search_policy.propose()))
    search_policy.learn(records[1], 0)
    search_policy.learn(script.report(records[1].id, 1, 1.0), 100)
    [order] = search_policy.take_orders(100)
    assert order.is_request
    assert order.trial_id == records[1].id
    for step in range(reports):
        search_policy.learn(script.report(records[1].id, 2 + step, 1.0), 100)
    orders = search_policy.take_orders(100 + seconds)
    assert [order.trial_id for order in orders if not order.is_request] == [2] * is_stopped
    assert (search_policy.next_due(100 + seconds) is None) is is_stopped
    search_policy.learn(
        script.change(2, state=TrialState.STOPPING, asked_to_stop=order.reason), 101
    )
    assert search_policy.take_orders(100 + seconds) == [], "it is reported once"


def test_a_trial_that_ended_before_the_request_to_stop_is_complete() -> None:
    script, search_policy = Script(), policy()
    for number, value in enumerate((0.0, 1.0)):
        search_policy.learn(script.add(number, search_policy.propose()), 0)
        search_policy.learn(script.report(number + 1, 1, value), 0)
    assert len(search_policy.take_orders(0)) == 1
    search_policy.learn(script.report(2, 2, 0.5), 0)
    search_policy.learn(script.end(2, TrialState.SUCCEEDED), 0)
    assert (search_policy.tried[1].state, search_policy.tried[1].value) == (
        SearchState.COMPLETE,
        0.5,
    )


def test_interrupted_trials_do_not_count() -> None:
    script, search_policy = Script(), policy(method="random", trials=2)
    search_policy.learn(script.add(0, search_policy.propose()), 0)
    search_policy.learn(script.end(1, TrialState.STOPPED, INTERRUPTED), 0)
    assert search_policy.to_begin == 2
    again = search_policy.propose()
    assert again == search_policy.tried[0].params
    search_policy.learn(script.add(1, again), 0)
    search_policy.learn(script.end(2, TrialState.STOPPED, "by hand"), 0)
    assert [trial.state for trial in search_policy.tried] == [
        SearchState.INTERRUPTED,
        SearchState.STOPPED,
    ]
    assert search_policy.to_begin == 1
    assert search_policy.propose() != again


def test_reports_after_the_decision_are_not_passed_to_optuna() -> None:
    script, search_policy = Script(), policy()
    for number, value in enumerate((0.0, 1.0)):
        search_policy.learn(script.add(number, search_policy.propose()), 0)
        search_policy.learn(script.report(number + 1, 1, value), 0)
    search_policy.learn(script.report(2, 2, 0.5), 0)
    assert knowledge(search_policy)[1]["on the way"] == {1: 1.0}
    [order] = search_policy.take_orders(0)
    script.change(2, asked_to_stop=order.reason)
    again = policy()
    again.recall(script.records.values(), script.points, 0)
    assert knowledge(again) == knowledge(search_policy)
    assert again.take_orders(0) == []
