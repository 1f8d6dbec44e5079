"""`exp.add_many` adds trials of one job in one request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE

SHARES_HOME = True
LITTLE = wl.Local(cpus=0.1)


def echo(**options: Any) -> wl.Job:
    return wl.Job(wl.Command(["echo"]), executor=LITTLE, **options)


def test_each_entry_of_args_is_a_trial(home: Path) -> None:
    exp = wl.create_experiment("many")
    trials = exp.add_many(echo(args={"epochs": 3}), [{"lr": 0.1}, {"lr": 0.2}], labels=["grid"])
    assert [trial.wait(timeout=PATIENCE).params for trial in trials] == [
        {"epochs": 3, "lr": 0.1},
        {"epochs": 3, "lr": 0.2},
    ]
    assert [list(trial.logs()) for trial in trials] == [
        ["--epochs=3 --lr=0.1"],
        ["--epochs=3 --lr=0.2"],
    ]
    assert {trial.labels for trial in trials} == {("grid",)}
    assert exp.trial_count == 2
    assert exp.add_many(echo(), []) == []


def test_an_identity_creates_one_trial_in_either_way_of_adding(home: Path) -> None:
    exp = wl.create_experiment("many identities")
    job = echo(suspend=True)
    first = exp.add(job, args={"n": 1}, identity="n=1")
    names = ["n=1", "n=2", "n=2"]
    trials = exp.add_many(job, [{"n": 1}, {"n": 2}, {"n": 2}], identities=names)
    assert trials[0].id == first.id
    assert trials[1].id == trials[2].id
    assert exp.trial_count == 2
    exp.stop()


def test_an_invalid_entry_is_named_and_nothing_is_added(home: Path) -> None:
    exp = wl.create_experiment("many mistakes")
    with pytest.raises(wl.InvalidArgument, match=r"args\[1\]"):
        exp.add_many(echo(), [{"lr": 0.1}, 7])  # type: ignore[list-item]
    with pytest.raises(wl.InvalidArgument, match="2 entries and identities has 1"):
        exp.add_many(echo(), [{"lr": 0.1}, {"lr": 0.2}], identities=["one"])
    with pytest.raises(wl.InvalidArgument, match="list with the arguments of each trial"):
        exp.add_many(echo(), {"lr": 0.1})  # type: ignore[arg-type]
    assert exp.trial_count == 0


def test_functions_are_added_with_their_arguments(home: Path) -> None:
    @wl.run(cpus=0.1)
    def double(number: int) -> int:
        return 2 * number

    exp = wl.create_experiment("many functions")
    trials = exp.add_many(double, [{"number": number} for number in range(3)])
    assert [trial.result(timeout=PATIENCE) for trial in trials] == [0, 2, 4]


def test_a_dry_run_prints_each_trial(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exp = wl.create_experiment("many", dry_run=True)
    exp.add_many(echo(), [{"lr": 0.5}, {"lr": 0.25}])
    shown = capsys.readouterr().out
    assert "0.5" in shown
    assert "0.25" in shown
