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
    asked = {"trials": 12, "seed": 4, "reduction": 2, "space": {"x": wl.uniform(0, 1)}, **other}
    return Settings(metric="loss", mode="min", method=method, **asked)


def policy(**asked: Any) -> SearchPolicy:
    return SearchPolicy("search", settings(**asked), lambda _: None)


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
        before = [each for each in self.points if (each.trial_id, each.index) == (trial_id, index)]
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
    told = []
    for each in policy.study.optuna_trials():
        rungs = {name: value for name, value in each.system_attrs.items() if "rung" in name}
        told.append(
            {
                "params": each.params,
                "state": each.state.name,
                "values": each.values,
                "on the way": each.intermediate_values,
                "rungs": rungs,
            }
        )
    return told


@given(seed=st.integers(0, 10_000), cut=st.floats(0, 1))
def test_a_resumed_search_has_the_knowledge_of_the_previous_one(seed: int, cut: float) -> None:
    """A random history. In the middle of it another search starts from the records."""
    chance, script = random.Random(seed), Script()
    first = policy(trials=10)
    story: list[TrialRecord | Points] = []
    second: SearchPolicy | None = None

    def tell(news: TrialRecord | Points) -> None:
        story.append(news)
        for each in (first, second):
            if each is not None:
                each.learn(news, script.time)

    steps = dict.fromkeys(range(1, 11), 0)
    length = 120
    for moment in range(length):
        if moment == int(cut * length):
            second = policy(trials=10)
            second.recall(script.records.values(), script.points, script.time)
        going = [each.record.id for each in first.running]
        if len(going) < 3 and first.to_begin and chance.random() < 0.5:
            tell(script.add(len(first.tried), first.propose()))
            continue
        if not going:
            continue
        trial_id = chance.choice(going)
        asked = script.records[trial_id].asked_to_stop
        if chance.random() < (0.4 if asked else 0.1):
            how = chance.choice([TrialState.SUCCEEDED] * 3 + [TrialState.FAILED])
            tell(script.end(trial_id, how))
            continue
        steps[trial_id] += 1
        tell(script.report(trial_id, steps[trial_id], chance.random()))
        # The remaining wait for an unresponsive trial depends on the process that waited.
        orders = [each for each in first.take_orders(script.time) if each.is_request]
        if second is not None:
            assert [each for each in second.take_orders(script.time) if each.is_request] == orders
        for order in orders:
            tell(script.change(order.trial_id, asked_to_stop=order.reason))
    second = second or policy(trials=10)
    if not second.tried:
        second.recall(script.records.values(), script.points, script.time)
    assert knowledge(second) == knowledge(first)
    assert [each.state for each in second.tried] == [each.state for each in first.tried]
    assert second.propose() == first.propose()


def test_reports_in_another_order_give_the_same_result() -> None:
    script, told = Script(), policy(method="random")
    plan = [{"x": 0.1}, {"x": 0.2}]
    first, second = (script.add(number, params) for number, params in enumerate(plan))
    told.learn(script.report(second.id, 1, 5.0), 0)
    told.learn(second, 0)
    assert told.tried == [], "the first is not known yet"
    told.learn(first, 0)
    assert [each.record.id for each in told.tried] == [first.id, second.id]
    told.learn(script.end(second.id, TrialState.SUCCEEDED), 0)
    assert (told.tried[1].state, told.tried[1].value) == (SearchState.COMPLETE, 5.0)


def test_a_rerun_of_a_trial_is_not_part_of_the_search() -> None:
    script, told = Script(), policy(method="random")
    first = script.add(0, {"x": 0.1})
    told.learn(first, 0)
    recipe = msgspec.structs.replace(first.recipe, identity="", origin_id=first.id)
    told.learn(msgspec.structs.replace(first, id=99, recipe=recipe), 0)
    told.learn(script.report(99, 1, 0.0), 0)
    assert len(told.tried) == 1
    assert told.tried[0].value is None


def test_the_first_replica_that_reported_counts() -> None:
    script, told = Script(), policy(method="random")
    record = script.add(0, {"x": 0.1})
    told.learn(record, 0)
    told.learn(script.report(record.id, 1, 2.0, index=1), 0)
    told.learn(script.report(record.id, 1, 9.0, index=0), 0)
    told.learn(script.end(record.id, TrialState.SUCCEEDED), 0)
    assert told.tried[0].value == 2.0


@pytest.mark.parametrize(("reports", "seconds", "is_stopped"), [
    (0, 29, False), (0, 30, True), (2, 10, False), (3, 2, False), (3, 3, True),
])  # fmt: skip
def test_a_trial_that_is_asked_to_stop_has_a_grace_period(
    reports: int, seconds: float, is_stopped: bool
) -> None:
    script, told = Script(), policy()
    records = [script.add(0, told.propose())]
    told.learn(records[0], 0)
    told.learn(script.report(records[0].id, 1, 0.0), 0)
    records.append(script.add(1, told.propose()))
    told.learn(records[1], 0)
    told.learn(script.report(records[1].id, 1, 1.0), 100)
    [order] = told.take_orders(100)
    assert order.is_request
    assert order.trial_id == records[1].id
    for step in range(reports):
        told.learn(script.report(records[1].id, 2 + step, 1.0), 100)
    orders = told.take_orders(100 + seconds)
    assert [each.trial_id for each in orders if not each.is_request] == [2] * is_stopped
    assert (told.next_due(100 + seconds) is None) is is_stopped
    told.learn(script.change(2, state=TrialState.STOPPING, asked_to_stop=order.reason), 101)
    assert told.take_orders(100 + seconds) == [], "it is reported once"


def test_a_trial_that_ended_before_the_request_to_stop_is_complete() -> None:
    script, told = Script(), policy()
    for number, value in enumerate((0.0, 1.0)):
        told.learn(script.add(number, told.propose()), 0)
        told.learn(script.report(number + 1, 1, value), 0)
    assert len(told.take_orders(0)) == 1
    told.learn(script.report(2, 2, 0.5), 0)
    told.learn(script.end(2, TrialState.SUCCEEDED), 0)
    assert (told.tried[1].state, told.tried[1].value) == (SearchState.COMPLETE, 0.5)


def test_interrupted_trials_do_not_count() -> None:
    script, told = Script(), policy(method="random", trials=2)
    told.learn(script.add(0, told.propose()), 0)
    told.learn(script.end(1, TrialState.STOPPED, INTERRUPTED), 0)
    assert told.to_begin == 2
    again = told.propose()
    assert again == told.tried[0].params
    told.learn(script.add(1, again), 0)
    told.learn(script.end(2, TrialState.STOPPED, "by hand"), 0)
    assert [each.state for each in told.tried] == [SearchState.INTERRUPTED, SearchState.STOPPED]
    assert told.to_begin == 1
    assert told.propose() != again


def test_reports_after_the_decision_are_not_passed_to_optuna() -> None:
    script, told = Script(), policy()
    for number, value in enumerate((0.0, 1.0)):
        told.learn(script.add(number, told.propose()), 0)
        told.learn(script.report(number + 1, 1, value), 0)
    told.learn(script.report(2, 2, 0.5), 0)
    assert knowledge(told)[1]["on the way"] == {1: 1.0}
    [order] = told.take_orders(0)
    script.change(2, asked_to_stop=order.reason)
    again = policy()
    again.recall(script.records.values(), script.points, 0)
    assert knowledge(again) == knowledge(told)
    assert again.take_orders(0) == []
