"""`@wl.run`: the ways to decorate a function, and the ways to run it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from steps import (
    PATIENCE,
    Scale,
    divide,
    double,
    factorial,
    newest,
    outer,
    remote_and_shouted,
    shouted,
    step,
    work,
)  # fmt: skip

import windlass as wl

SHARES_HOME = True

# -- decorating -----------------------------------------------------------------------


def test_a_function_is_decorated_with_and_without_parentheses(home: Path) -> None:
    @wl.run
    def bare(x: int) -> int:
        return x + 1

    @wl.run()
    def called(x: int) -> int:
        return x + 2

    assert [bare(1), called(1)] == [2, 3]


def test_a_decorated_function_keeps_its_name_its_signature_and_its_docstring() -> None:
    assert isinstance(double, wl.Function)
    assert double.__name__ == "double"
    assert double.__module__ == "steps"
    assert double.__doc__ == "Twice a number."
    assert str(inspect.signature(double)) == "(x: 'int', *, plus: 'int' = 0) -> 'int'"
    assert repr(double) == "<windlass function double>"


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> int:
    return 1


async def asynchronous_generator() -> Any:
    yield 1


class Model:
    def fit(self) -> None: ...

    @staticmethod
    def score() -> None: ...


@pytest.mark.parametrize(
    ("what", "problem", "way_out"),
    [
        (generator, "generator is a generator", "return list("),
        (functools.partial(generator), "is a generator", "return list("),
        (asynchronous_generator, "asynchronous_generator is a generator", "return list("),
        (coroutine, "coroutine is a coroutine", "return asyncio.run("),
        (Model.fit, "Model.fit is a method", "pass the object as an argument"),
        (Model().fit, "Model.fit is a method", "pass the object as an argument"),
        (Model.__dict__["score"], "Model.score is a method", "Move the function out of the class"),
        (classmethod(generator), "is a method", "Move the function out of the class"),
    ],
    ids=["generator", "partial", "async-generator", "coroutine", "method", "bound", "static",
         "classmethod"],
)  # fmt: skip
def test_an_unsupported_function_is_refused_at_decoration_with_an_alternative(
    what: Any, problem: str, way_out: str
) -> None:
    for decorate in (wl.run, wl.run(cpus=1)):
        with pytest.raises(wl.Unsupported) as caught:
            decorate(what)
        assert problem in caught.value.message
        assert way_out in (caught.value.hint or "")


def test_a_method_is_refused_while_its_class_is_created() -> None:
    with pytest.raises(wl.Unsupported, match="train is a method"):

        class Trainer:
            @wl.run
            def train(self) -> None: ...


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        (Model, "decorates functions; Model is a type"),
        (3, "decorates functions; 3 is a"),
        (double, "double is already decorated with wl.run"),
    ],
    ids=["class", "number", "decorated"],
)
def test_an_object_that_is_not_a_plain_function_is_refused_at_decoration(
    what: Any, problem: str
) -> None:
    with pytest.raises(wl.InvalidArgument) as caught:
        wl.run(what)
    assert problem in caught.value.message
    assert caught.value.hint


# -- calling --------------------------------------------------------------------------


def test_a_call_returns_the_value_of_the_function(home: Path) -> None:
    assert double(21) == 42
    assert double(x=20, plus=2) == 42


def test_submit_returns_a_trial_at_once_while_the_function_still_waits(
    home: Path, tmp_path: Path
) -> None:
    trial = step.submit("done", before=str(tmp_path / "go"))
    assert isinstance(trial, wl.Trial)
    assert not trial.is_finished
    (tmp_path / "go").touch()
    assert trial.result() == "done"
    assert trial.state == "SUCCEEDED"


def test_local_calls_the_function_in_this_process_and_records_nothing(home: Path) -> None:
    before = newest()
    pid = wl.run(os.getpid)
    assert pid.local() == os.getpid()
    assert double.local(4, plus=1) == 9
    assert newest() == before
    assert pid() != os.getpid()


def test_options_return_the_same_function_with_other_options(home: Path) -> None:
    named = double.options(name="renamed", cpus=0.5).options(env={"MOOD": "fine"})
    trial = named.submit(2)
    role = trial.record.spec.roles[0]
    assert (trial.name, role.resources.cpus, role.env) == ("renamed", 0.5, {"MOOD": "fine"})
    assert trial.result() == 4
    plain = double.submit(2)
    role = plain.record.spec.roles[0]
    assert (plain.name, role.resources.cpus, role.env) == ("double", 1.0, {})
    assert plain.result() == 4


@pytest.fixture
def untouched_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home in which nothing may be stored and no server started."""
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "home"))
    yield
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "'x'"),
        ((1, 2), {}, "too many positional arguments"),
        ((1,), {"pluss": 2}, "'pluss'"),
        ((1,), {"x": 2}, "'x'"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    untouched_home: None, args: tuple[Any, ...], kwargs: dict[str, Any], problem: str
) -> None:
    for way in (double, double.submit):
        with pytest.raises(TypeError, match=problem):
            way(*args, **kwargs)


def test_calling_a_decorated_function_inside_a_trial_just_calls_it(home: Path) -> None:
    trial = outer.submit(1)
    assert trial.result() == [(1, str(trial.id)), (2, str(trial.id))]
    assert factorial(5) == 120
    assert newest() == trial.id + 1


def test_a_partial_and_a_callable_object_run_like_the_function_inside(home: Path) -> None:
    half = wl.run(functools.partial(divide.__wrapped__, b=2))
    trial = half.submit(3)
    assert (trial.result(), trial.params, trial.experiment) == (1.5, {"a": 3, "b": 2}, "divide")
    assert wl.run(Scale(3))(4) == 12


def test_a_function_with_another_decorator_runs_with_it(home: Path) -> None:
    assert wl.run(shouted)(3) == ["shouted", 3]
    assert remote_and_shouted(3) == ["shouted", 3]


# -- sweeps ---------------------------------------------------------------------------


def test_map_returns_the_values_in_the_order_of_the_items(home: Path, tmp_path: Path) -> None:
    # The first can end only after the second has ended.
    flag = str(tmp_path / "flag")
    items = [("first", flag, ""), ("second", "", flag)]
    assert list(step.starmap(items)) == ["first", "second"]
    assert list(double.map(range(2))) == [0, 2]
    assert list(double.map([])) == []


def test_map_submits_at_once_and_waits_only_for_the_next_value(home: Path, tmp_path: Path) -> None:
    before = newest()
    values = step.starmap([("one",), ("two", str(tmp_path / "go"))])
    assert newest() == before + 2
    assert next(values) == "one"
    assert not wl.get_trial(before + 2).is_finished
    (tmp_path / "go").touch()
    assert list(values) == ["two"]


def test_starmap_passes_each_item_as_the_arguments(home: Path) -> None:
    assert list(divide.starmap([(1, 2), [5]])) == [0.5, 5.0]


def test_a_mapping_in_starmap_contains_keyword_arguments(home: Path) -> None:
    assert list(divide.starmap([{"a": 3, "b": 2}, (1, 2)])) == [1.5, 0.5]
    with pytest.raises(TypeError, match="argument 'c'"):
        divide.starmap([{"a": 3, "c": 2}])
    with pytest.raises(TypeError, match="'ab' is neither a list nor a mapping"):
        divide.starmap(["ab"])


def test_map_takes_one_value_of_each_list(home: Path) -> None:
    assert list(divide.map([3, 1], [2, 4])) == [1.5, 0.25]
    assert list(divide.map(b=[2, 4], a=repeat(1))) == [0.5, 0.25]
    assert list(divide.map([3], b=(2,))) == [1.5]
    with pytest.raises(wl.InvalidArgument, match="list 1 has 2, b has 1"):
        divide.map([3, 1], b=[2])
    with pytest.raises(wl.InvalidArgument, match=r"b=itertools\.repeat\(2\)"):
        divide.map([3, 1], b=2)
    with pytest.raises(wl.InvalidArgument, match="has no values"):
        divide.map()


def test_map_returns_exceptions_among_the_values_on_request(home: Path) -> None:
    error, value = divide.starmap([(1, 0), (4, 2)], return_exceptions=True)
    assert isinstance(error, ZeroDivisionError)
    assert value == 2.0


def test_map_raises_the_first_error_and_stops_the_rest(home: Path, tmp_path: Path) -> None:
    never = str(tmp_path / "never")
    before = newest()
    values = work.map(["fine", "", never])
    assert next(values) == "fine"
    with pytest.raises(LookupError, match="no word"):
        next(values)
    assert list(values) == []
    last = wl.get_trial(before + 3).wait(timeout=PATIENCE)
    assert last.state == "STOPPED"
    assert "ended early" in last.message


def test_a_map_closed_early_stops_its_unfinished_trials(home: Path, tmp_path: Path) -> None:
    before = newest()
    values = work.map(["fine", str(tmp_path / "never")])
    for _ in values:
        break
    values.close()  # type: ignore[attr-defined]
    assert wl.get_trial(before + 2).wait(timeout=PATIENCE).state == "STOPPED"


@pytest.mark.parametrize("wrong", [("a", "b", "c", "d"), None], ids=repr)
def test_an_invalid_item_of_a_starmap_is_refused_before_any_trial_starts(
    home: Path, wrong: Any
) -> None:
    before = newest()
    with pytest.raises(TypeError):
        step.starmap([("never sent",), wrong, ("never sent",)])
    assert newest() == before


def test_an_invalid_item_of_a_generator_stops_the_trials_of_its_earlier_items(
    home: Path, tmp_path: Path
) -> None:
    before = newest()
    with pytest.raises(TypeError):
        step.starmap(item for item in (("begun", str(tmp_path / "never")), None))
    assert newest() == before + 1
    assert wl.get_trial(before + 1).wait(timeout=PATIENCE).state == "STOPPED"


def test_a_generator_may_wait_for_the_trials_of_its_earlier_items(home: Path) -> None:
    first = newest() + 1

    def items() -> Iterator[int]:
        yield 1
        yield double.__wrapped__(wl.get_trial(first).result(timeout=PATIENCE))

    assert list(double.map(items())) == [2, 8]


def test_the_trials_of_a_map_are_submitted_together(home: Path) -> None:
    before = newest()
    assert list(divide.starmap(zip((2, 4), (1, 2), strict=True))) == [2.0, 2.0]
    assert list(double.map(range(3))) == [0, 2, 4]
    assert newest() == before + 5
