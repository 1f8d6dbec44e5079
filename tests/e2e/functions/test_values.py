"""Arguments and results of trials: values of every kind, and values that cannot be sent."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from steps import newest

import windlass as wl
from harness import Project

SHARES_HOME = True


def test_classes_of_the_main_program_come_back_as_the_same_classes(
    home: Path, project: Project
) -> None:
    project.write(
        "train.py",
        """
        import enum
        from dataclasses import dataclass, field
        from typing import NamedTuple

        import windlass as wl


        @dataclass
        class Config:
            lr: float
            layers: list[int] = field(default_factory=lambda: [64, 32])


        @dataclass(frozen=True)
        class Report:
            config: Config
            best: "Score"


        class Score(NamedTuple):
            value: float
            grade: "Grade"


        class Grade(enum.Enum):
            GOOD = "good"


        class Diverged(Exception):
            def __init__(self, epoch, config):
                super().__init__(epoch, config)
                self.epoch, self.config = epoch, config


        @wl.run
        def train(config: Config) -> Report:
            if config.lr > 1:
                raise Diverged(3, config)
            return Report(config, Score(1 - config.lr, Grade.GOOD))


        report = train(Config(0.25))
        assert type(report) is Report
        assert type(report.config) is Config
        assert report == Report(Config(0.25, [64, 32]), Score(0.75, Grade.GOOD))
        assert report.best.grade is Grade.GOOD

        again = next(wl.list_trials(sort_by="-id", limit=1)).result()
        assert type(again) is Report and again == report

        try:
            train(Config(10.0))
        except Diverged as error:
            assert error.epoch == 3
            assert type(error.config) is Config and error.config.lr == 10.0
        else:
            raise AssertionError("nothing was raised")

        # A class that nothing sent knows of, first seen when it comes back.
        @wl.run
        def make():
            class Local:
                size = 7
            return Local()

        assert make().size == 7
        print("all is well")
        """,
    )
    done = project.python("train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all is well\n"


def test_closures_and_lambdas_carry_their_variables(home: Path) -> None:
    factor = 3
    table = {"offset": np.arange(4)}

    def make(power: int) -> Any:
        def scaled(x: int) -> int:
            return factor * x**power + int(table["offset"].sum())

        return wl.run(scaled)

    assert make(2)(5) == 3 * 25 + 6
    trial = wl.run(lambda x, y=factor: x + y).submit(4)
    assert trial.result() == 7
    assert (trial.name, trial.params) == ("lambda", {"x": 4, "y": 3})


def test_arguments_of_every_kind_arrive_and_are_recorded(home: Path) -> None:
    @wl.run
    def gather(
        a: int, /, b: int = 2, *rest: int, c: int, d: list[int] | None = None, **more: Any
    ) -> Any:
        return a, b, rest, c, d, more

    full = gather.submit(1, 20, 30, 40, c=5, d=[6], e={"f": None})
    assert full.result() == (1, 20, (30, 40), 5, [6], {"e": {"f": None}})
    assert full.params == {
        "a": 1, "b": 20, "rest": [30, 40], "c": 5, "d": [6], "more": {"e": {"f": None}},
    }  # fmt: skip
    least = gather.submit(1, c=3)
    assert least.result() == (1, 2, (), 3, None, {})
    assert least.params == {"a": 1, "b": 2, "rest": [], "c": 3, "d": None, "more": {}}


def test_arrays_of_any_size_are_passed_and_returned_whole(home: Path) -> None:
    @wl.run
    def turn(array: np.ndarray, scale: np.float32) -> np.ndarray:
        return array[::-1] * scale

    small = np.array([[1.0, np.nan], [np.inf, -0.0]], dtype=np.float16)
    back = turn(small, np.float32(1))
    assert back.dtype == np.float32
    assert back.tobytes() == (small[::-1] * np.float32(1)).tobytes()

    large = np.random.default_rng(0).integers(0, 255, 5_000_000, dtype=np.uint8)
    trial = turn.submit(large, np.float32(1))
    assert trial.params == {"array": "ndarray uint8 (5000000,)", "scale": 1.0}
    assert trial.result().nbytes == 20_000_000
    assert np.array_equal(trial.result(), large[::-1])


def test_plain_values_are_returned_unchanged(home: Path) -> None:
    same = wl.run(lambda x: x)
    values = [None, 0, -0.0, float("inf"), 10**40, "", "ü\x00\n", b"\xff", {1: {2}}, (), ..., int]
    back = same(values)
    assert [(type(value), repr(value)) for value in back] == [
        (type(value), repr(value)) for value in values
    ]
    assert same(None) is None
    assert same(b"\xff" * 5_000_000) == b"\xff" * 5_000_000


class _Unreadable:
    def __getstate__(self) -> object:
        raise FileNotFoundError(2, "its file is gone")


@pytest.mark.parametrize(
    ("result", "part"),
    [
        (lambda: {"model": [1, threading.Lock()]}, "result['model'][1] (a _thread.lock)"),
        (lambda: (n for n in ()), "result (a generator)"),
        (lambda: _Unreadable(), "its file is gone"),
    ],
    ids=["inside", "whole", "error of a file"],
)
def test_an_unpicklable_part_of_a_result_is_named(home: Path, result: Any, part: str) -> None:
    function = wl.run(result)
    with pytest.raises(wl.SerializationError) as caught:
        function()
    assert part in caught.value.message
    assert "Return plain data" in (caught.value.hint or "")
    trial = wl.get_trial(newest())
    assert (trial.state, trial.exit_code) == ("FAILED", 1)
    assert part in "\n".join(trial.logs(stream="stderr"))


@pytest.mark.parametrize("way", ["call", "submit", "map"])
def test_an_unpicklable_argument_is_named_and_nothing_is_sent(home: Path, way: str) -> None:
    @wl.run
    def train(config: Any) -> None: ...

    before = newest()
    config = {"layers": [64], "locks": ["no", threading.Lock()]}
    call: Any = {"call": train, "submit": train.submit, "map": lambda x: train.map([x])}[way]
    with pytest.raises(wl.SerializationError) as caught:
        call(config)
    assert "argument 'config'['locks'][1] (a _thread.lock)" in caught.value.message
    assert "Create it inside the function" in (caught.value.hint or "")
    assert newest() == before


def test_an_unpicklable_closure_variable_is_named_and_nothing_is_sent(home: Path) -> None:
    lock = threading.Lock()

    @wl.run
    def train() -> None:
        with lock:
            pass

    before = newest()
    with pytest.raises(wl.SerializationError, match="the closure variable 'lock'"):
        train()
    assert newest() == before


def test_a_result_of_an_unknown_class_raises_an_error_with_a_hint(
    home: Path, project: Project
) -> None:
    project.write("shapes.py", "class Circle:\n    radius = 2\n")
    project.write(
        "train.py",
        """
        import windlass as wl


        @wl.run
        def make():
            import shapes

            return shapes.Circle()


        print(make.submit().id)
        """,
    )
    done = project.python("train.py")
    assert done.returncode == 0, done.stderr
    trial = wl.get_trial(json.loads(done.stdout))
    with pytest.raises(wl.SerializationError, match="cannot be read here") as caught:
        trial.result()
    assert "Install 'shapes' here too, or return plain data." in (caught.value.hint or "")
