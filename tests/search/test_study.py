"""Studies give the same results as Optuna alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import optuna
import pytest

import windlass as wl
from windlass.search.settings import Settings
from windlass.search.study import Study

SPACE = {
    "lr": wl.loguniform(1e-5, 1e-1),
    "layers": wl.randint(1, 9),
    "kind": wl.choice("adam", "sgd", None),
    "drop": wl.uniform(0, 0.5, step=0.1),
}


def settings(method: Any, **other: Any) -> Settings:
    arguments = {"space": SPACE, "metric": "loss", "mode": "min", "seed": 7, "trials": 30, **other}
    return Settings(method=method, **arguments)


def loss(params: dict[str, Any]) -> float:
    kind = 0 if params["kind"] == "sgd" else 1
    value: float = (params["layers"] - 3) ** 2 + kind + abs(params["lr"] - 0.01) + params["drop"]
    return value


def run(study: Study, trials: int) -> list[dict[str, Any]]:
    """Run this many more trials, one after the other."""
    tried = []
    for _ in range(trials):
        params = study.propose()
        number = study.begin(params)
        study.complete(number, loss(params))
        tried.append(params)
    return tried


def by_optuna_alone(sampler: optuna.samplers.BaseSampler, trials: int) -> list[dict[str, Any]]:
    tried = []

    def objective(trial: optuna.Trial) -> float:
        params = {
            "lr": trial.suggest_float("lr", 1e-5, 1e-1, log=True),
            "layers": trial.suggest_int("layers", 1, 9),
            "kind": trial.suggest_categorical("kind", ("adam", "sgd", None)),
            "drop": trial.suggest_float("drop", 0, 0.5, step=0.1),
        }
        tried.append(params)
        return loss(params)

    optuna.create_study(sampler=sampler).optimize(objective, n_trials=trials)
    return tried


ALONE: dict[str, Callable[[], optuna.samplers.BaseSampler]] = {
    "random": lambda: optuna.samplers.RandomSampler(seed=7),
    "tpe": lambda: optuna.samplers.TPESampler(seed=7, constant_liar=True),
}


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_suggestions_equal_those_of_optuna_alone(method: str) -> None:
    assert run(Study(settings(method)), 30) == by_optuna_alone(ALONE[method](), 30)


@pytest.mark.parametrize("method", ["random", "tpe", "asha"])
def test_a_replayed_study_continues_unchanged(method: str) -> None:
    whole = run(Study(settings(method)), 30)
    again = Study(settings(method))
    for params in whole[:17]:
        again.complete(again.begin(params), loss(params))
    assert run(again, 13) == whole[17:]


def test_a_trial_may_try_other_values_than_the_suggestion() -> None:
    study = Study(settings("tpe"))
    run(study, 12)
    other = {"lr": 0.01, "layers": 3, "kind": "sgd", "drop": 0.0}
    study.propose()
    number = study.begin(other)
    assert number == 12
    study.complete(number, loss(other))
    assert len(run(study, 5)) == 5


def test_a_grid_is_the_product_in_its_order() -> None:
    space = {"a": wl.choice("x", "y"), "b": wl.randint(1, 3), "c": wl.uniform(0, 1, step=0.5)}
    study = Study(settings("grid", space=space, trials=18))
    tried = []
    for _ in range(18):
        params = study.propose()
        study.complete(study.begin(params), 0.0)
        tried.append(tuple(params.values()))
    assert tried == list(itertools.product("xy", [1, 2, 3], [0.0, 0.5, 1.0]))


@pytest.mark.parametrize("method", ["grid", "random"])
def test_interrupted_trials_are_repeated_and_no_others(method: str) -> None:
    space = {"a": wl.randint(0, 5)} if method == "grid" else SPACE
    whole = Study(settings(method, space=space))
    expected = []
    for _ in range(6):
        expected.append(whole.propose())
        whole.begin(expected[-1])
    study = Study(settings(method, space=space))
    for _ in range(3):
        study.begin(study.propose())
    study.fail(1, again=True)
    rest = []
    for _ in range(4):
        rest.append(study.propose())
        study.begin(rest[-1])
    assert rest == [expected[1], *expected[3:]]


def test_successive_halving_ends_the_worse_half_also_after_a_replay() -> None:
    def story(study: Study) -> list[tuple[int, int]]:
        """Eight trials in rounds. A higher number is worse."""
        ended = []
        for _ in range(8):
            study.begin(study.propose())
        for step in (1, 2, 4):
            for number in range(8):
                is_over = any(number == other for other, _ in ended)
                if not is_over and study.report(number, step=step, value=float(number)):
                    ended.append((number, step))
                    study.prune(number)
        return ended

    first = story(Study(settings("asha", reduction=2)))
    assert first == story(Study(settings("asha", reduction=2)))
    assert {number for number, _ in first} == {1, 2, 3, 4, 5, 6, 7}, "only the best goes on"


def test_intermediate_values_give_the_same_result_as_optuna_alone() -> None:
    """Many trials, passed completely to Optuna, and passed by Windlass."""
    chance = random.Random(2)
    stories = [[chance.random() for _ in range(40)] for _ in range(30)]
    ours = Study(settings("asha", reduction=3, min_steps=2))
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3)
    alone = optuna.create_study(pruner=pruner)
    for story in stories:
        number, trial = ours.begin(ours.propose()), alone.ask()
        for step, value in enumerate(story):
            trial.report(value, step)
            expected = trial.should_prune()
            assert ours.report(number, step=step, value=value) is expected
            if expected:
                ours.prune(number)
                alone.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            ours.complete(number, story[-1])
            alone.tell(trial, story[-1])
    rows = [(trial.state, trial.value) for trial in ours.optuna_trials()]
    assert rows == [(trial.state, trial.value) for trial in alone.trials]
    assert len({state for state, _ in rows}) == 2


def test_a_trial_with_many_reports_is_processed_quickly() -> None:
    study = Study(settings("asha"))
    number = study.begin(study.propose())
    for step in range(1, 200_001):
        study.report(number, step=step, value=1 / step)
    assert len(study.optuna_trials()[0].intermediate_values) < 20


def test_importance_needs_no_other_packages() -> None:
    study = Study(settings("random"))
    assert study.importances() == {}
    run(study, 30)
    importances = study.importances()
    assert next(iter(importances)) == "layers"
    assert sum(importances.values()) == pytest.approx(1)
