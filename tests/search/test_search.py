"""Searches through a real server: suggestions, pruning, results."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import optuna
import pytest

import windlass as wl
from harness import PATIENCE
from small_projects import import_copy
from windlass.search.settings import Settings
from windlass.search.study import Study

objectives = import_copy(Path(__file__).with_name("objectives.py"))
score = objectives.score

QUICK = wl.Local(cpus=0.1)


def tried(experiment: wl.Experiment, search: str = "search") -> list[dict[str, Any]]:
    """The recorded suggestions of each trial of a search, by number."""
    places = [trial.record.recipe.search for trial in experiment.list_trials()]
    mine = sorted(
        (place.number, place.params) for place in places if place and place.search == search
    )
    assert [number for number, _ in mine] == list(range(len(mine)))
    return [params for _, params in mine]


def test_a_grid_tries_every_combination_once_and_finds_the_best(home: Path) -> None:
    experiment = wl.create_experiment("grid")
    space = {"x": wl.choice(1, 2, 3), "y": wl.uniform(0, 1, step=0.5)}
    search_result = experiment.search(score, space=space, metric="score", method="grid", mode="max")
    product = [{"x": x, "y": y} for x, y in itertools.product([1, 2, 3], [0.0, 0.5, 1.0])]
    assert tried(experiment) == product
    assert (search_result.best_params, search_result.best_value) == ({"x": 3, "y": 1.0}, 4.0)
    assert search_result.best is not None
    assert search_result.best.result() == 4.0
    assert experiment.best().id == search_result.best.id
    assert search_result.table[0]["trial"] == search_result.best.id
    assert search_result.counts == {"complete": 9}
    identities = {trial.record.recipe.identity for trial in experiment.list_trials()}
    assert identities == {f"search/search/{number}" for number in range(9)}


@pytest.mark.parametrize("method", [pytest.param("random", marks=pytest.mark.thorough), "tpe"])
def test_a_sequential_search_tries_the_suggestions_of_optuna(home: Path, method: str) -> None:
    experiment = wl.create_experiment(f"alone-{method}")
    space = {"x": wl.uniform(-5, 5), "y": wl.loguniform(1e-3, 1)}
    experiment.search(
        score, space=space, metric="score", method=method, trials=14, concurrent=1, seed=5
    )
    sampler = (
        optuna.samplers.RandomSampler(seed=5)
        if method == "random"
        else optuna.samplers.TPESampler(seed=5, constant_liar=True)
    )
    alone = []

    def objective(trial: optuna.Trial) -> float:
        params = {
            "x": trial.suggest_float("x", -5, 5),
            "y": trial.suggest_float("y", 1e-3, 1, log=True),
        }
        alone.append(params)
        return params["x"] + params["y"]

    optuna.create_study(sampler=sampler).optimize(objective, n_trials=14)
    assert tried(experiment) == alone


def fates_by_optuna_alone(seed: int, trials: int) -> dict[float, int | None]:
    """The suggestion of each trial, and the step at which it would be pruned."""
    study = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed=seed),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
    )
    fates: dict[float, int | None] = {}

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        fates[x] = None
        for step in range(1, 17):
            trial.report(x, step)
            if trial.should_prune():
                fates[x] = step
                raise optuna.TrialPruned
        return x

    study.optimize(objective, n_trials=trials)
    return fates


def test_asha_ends_bad_trials_early_and_keeps_good_ones(home: Path) -> None:
    fates = fates_by_optuna_alone(seed=3, trials=10)
    doomed = [x for x, step in fates.items() if step is not None]
    assert 0 < len(doomed) < 10, "there are both"
    experiment = wl.create_experiment("asha")
    search_result = experiment.search(
        objectives.descend, space={"x": wl.uniform(0, 1)}, metric="loss", method="asha", trials=10,
        concurrent=1, seed=3, reduction=2, args={"doomed": doomed},
    )  # fmt: skip
    stop_requests = {
        trial.record.recipe.search.params["x"]: trial.record.asked_to_stop  # type: ignore[union-attr]
        for trial in experiment.list_trials()
    }
    assert list(stop_requests) == list(fates)
    for x, step in fates.items():
        assert stop_requests[x].startswith(f"pruned at step {step}: loss " if step else "")
        assert bool(stop_requests[x]) is (step is not None)
    assert search_result.counts == {"complete": 10 - len(doomed), "pruned": len(doomed)}
    assert search_result.best_value == min(fates)


def test_a_trial_that_ignores_the_request_to_stop_is_stopped(home: Path) -> None:
    experiment = wl.create_experiment("stubborn")
    search_result = experiment.search(
        objectives.stubborn, space={"x": wl.choice(*range(40))}, metric="loss", method="asha",
        trials=2, concurrent=1, seed=seed_of_zero_first(), reduction=2,
    )  # fmt: skip
    first, second = experiment.list_trials()
    assert first.state == "SUCCEEDED"
    assert second.state == "STOPPED"
    assert "did not stop by itself" in second.message
    assert search_result.counts == {"complete": 1, "pruned": 1}


def seed_of_zero_first() -> int:
    """A seed with which the first of two trials tries 0, and the second does not."""
    for seed in range(1000):
        study = Study(
            Settings(
                space={"x": wl.choice(*range(40))}, metric="loss", mode="min", method="asha",
                seed=seed, trials=2,
            )
        )  # fmt: skip
        first = study.propose()
        study.begin(first)
        if first["x"] == 0 and study.propose()["x"] != 0:
            return seed
    raise AssertionError("the random choices differ")


def test_a_failed_trial_is_left_out_and_the_others_continue(home: Path) -> None:
    experiment = wl.create_experiment("moody")
    space = {"x": wl.randint(1, 4)}
    search_result = experiment.search(
        objectives.moody, space=space, metric="loss", method="grid", concurrent=2
    )
    assert search_result.counts == {"complete": 2, "failed": 2}
    assert (search_result.best_params, search_result.best_value) == ({"x": 4}, 0.25)
    assert experiment.best("loss", "max").params["x"] == 1


def test_a_search_whose_first_trials_all_fail_says_why_and_continues_after_a_fix(
    home: Path, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    experiment = wl.create_experiment("broken")
    options: dict[str, Any] = {
        "space": {"x": wl.uniform(0, 1)}, "metric": "loss", "trials": 9,
        "args": {"mended": str(mended)},
    }  # fmt: skip
    with pytest.raises(wl.TrialFailed) as failed:
        experiment.search(objectives.broken, concurrent=2, **options)
    assert "All of the first" in str(failed.value)
    assert "no module named gold" in str(failed.value)
    assert f"wl.get_experiment({experiment.id}).search(...)" in str(failed.value)
    failures = experiment.refresh().states["FAILED"]
    assert failures < 9
    mended.touch()
    search_result = experiment.search(objectives.broken, concurrent=2, **options)
    assert search_result.counts["failed"] == failures
    assert len(tried(experiment)) == len(search_result)
    assert search_result.counts["complete"] + failures == 9


def test_an_unreported_metric_is_detected_early_with_a_list_of_reported_ones(home: Path) -> None:
    experiment = wl.create_experiment("mumbling")
    with pytest.raises(wl.InvalidArgument) as refused:
        experiment.search(
            objectives.mumbling,
            space={"x": wl.uniform(0, 1)},
            metric="val_loss",
            trials=40,
            concurrent=2,
        )
    assert "accuracy, val_los" in str(refused.value)
    assert "Did you mean metric='val_los'?" in str(refused.value)
    assert experiment.refresh().trial_count < 10


def test_a_search_can_be_resumed_and_extended(home: Path) -> None:
    experiment = wl.create_experiment("extended")
    space = {"x": wl.uniform(0, 1)}
    options: dict[str, Any] = {"space": space, "metric": "score", "method": "random"}
    first = experiment.search(score, trials=3, concurrent=2, **options)
    before = tried(experiment)
    again = wl.get_experiment(experiment.id).search(score, concurrent=1, **options)
    assert str(again) == str(first), "as many trials as before, and all of them are done"
    more = experiment.search(score, trials=7, **options)
    assert (len(first), len(more)) == (3, 7)
    assert tried(experiment)[:3] == before
    assert len({params["x"] for params in tried(experiment)}) == 7, "nothing is tried twice"
    assert experiment.refresh().record.searches["search"]["trials"] == 7

    other = {**options, "space": {"x": wl.uniform(0, 2)}, "mode": "max"}
    with pytest.raises(wl.Conflict) as refused:
        experiment.search(score, trials=9, **other)
    assert "space['x'] was uniform(0, 1), now uniform(0, 2)" in str(refused.value)
    assert "mode was 'min', now 'max'" in str(refused.value)
    assert experiment.refresh().record.searches["search"]["trials"] == 7
    assert len(experiment.search(score, trials=2, name="another", **other)) == 2


def test_importance_is_computed_once_ten_trials_have_completed(home: Path) -> None:
    experiment = wl.create_experiment("mattered")
    settings: dict[str, Any] = {
        "space": {"x": wl.uniform(0, 9), "y": wl.uniform(0, 1)}, "metric": "score", "seed": 1
    }  # fmt: skip
    few = experiment.search(score, trials=9, **settings)
    assert (few.counts, few.importances) == ({"complete": 9}, {})
    enough = experiment.search(score, trials=10, **settings)
    assert sorted(enough.importances) == ["x", "y"]
    assert all(f"{share:.0%}" in str(enough) for share in enough.importances.values())


def test_fixed_arguments_are_passed_and_cannot_also_be_searched(home: Path) -> None:
    experiment = wl.create_experiment("along")
    space = {"x": wl.choice(1, 2)}
    search_result = experiment.search(score, space=space, args={"y": 10}, metric="v", method="grid")
    assert search_result.best_value == 11
    assert search_result.best is not None
    assert search_result.best.params == {"x": 1, "y": 10}
    with pytest.raises(wl.InvalidArgument, match="both in space and in args"):
        experiment.search(score, space=space, args={"x": 1}, metric="v", method="grid")


def test_a_search_continues_although_its_arguments_cannot_be_recorded(home: Path) -> None:
    experiment = wl.create_experiment("shifted")
    options: dict[str, Any] = {"space": {"x": wl.choice(1, 2)}, "metric": "v", "method": "grid"}
    first = experiment.search(
        objectives.shifted, args={"by": objectives.Shift()}, trials=1, **options
    )
    again = experiment.search(
        objectives.shifted, args={"by": objectives.Shift()}, trials=2, mode="min", **options
    )
    assert (len(first), len(again), again.best_value) == (1, 2, 11)
    assert experiment.trial_count == 2


def test_a_program_gets_suggestions_on_its_command_line(home: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import argparse, windlass as wl\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--net.layers', type=int, dest='layers')\n"
        "parser.add_argument('--kind')\n"
        "given = parser.parse_args()\n"
        "wl.report(0, loss=given.layers + len(given.kind))\n"
    )
    experiment = wl.create_experiment("flags")
    job = wl.Job(wl.PythonScript(str(script)), executor=QUICK)
    space = {"net": {"layers": wl.choice(2, 4)}, "kind": wl.choice("adam", "sgd")}
    search_result = experiment.search(job, space=space, metric="loss", method="grid")
    assert search_result.best_params == {"net.layers": 2, "kind": "sgd"}
    assert search_result.best_value == 5


def test_names_of_a_group_begin_with_the_role(home: Path) -> None:
    group = wl.JobGroup(
        learner=wl.Job(wl.PythonFunction(objectives.learn), executor=QUICK),
        actor=wl.Job(wl.PythonFunction(objectives.act), executor=QUICK, replicas=2),
    )
    experiment = wl.create_experiment("group")
    with pytest.raises(wl.InvalidArgument) as refused:
        experiment.search(group, space={"lr": wl.choice(1, 2)}, metric="loss", method="grid")
    assert "'learner.lr'" in str(refused.value)
    search_result = experiment.search(
        group, space={"learner.lr": wl.choice(1, 2)}, metric="loss", method="grid", mode="max"
    )
    assert (search_result.best_params, search_result.best_value) == ({"learner.lr": 2}, 2.0)


def test_a_trial_with_the_identity_of_a_search_trial_is_reported(home: Path) -> None:
    experiment = wl.create_experiment("taken")
    trial = experiment.add(score, args={"x": 1.0}, identity="search/taken/1")
    with pytest.raises(
        wl.Conflict, match=f"trial {trial.id} .*does not belong to the search 'taken'"
    ):
        experiment.search(
            score, space={"x": wl.uniform(0, 1)}, metric="score", trials=3, name="taken"
        )
    experiment.wait()
    assert trial.refresh().params["x"] == 1.0


def test_after_the_time_limit_no_more_trials_start(home: Path) -> None:
    experiment = wl.create_experiment("late")
    search_result = experiment.search(
        score, space={"x": wl.uniform(0, 1)}, metric="v", trials=10_000, concurrent=1, timeout=1.0
    )
    assert 0 < len(search_result) < 1000
    assert search_result.counts == {"complete": len(search_result)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "least"}, '"min" or "max"'),
        ({"method": "bayes"}, '"grid", "random", "tpe", "asha"'),
        ({"metric": ""}, "the trials report"),
        ({"trials": 0}, "trials is 0"),
        ({"concurrent": 0}, "concurrent is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"name": "a/b"}, "without slashes"),
        ({"method": "grid", "space": {"x": wl.uniform(0, 1)}}, "wl.uniform(0, 1, step=...)"),
        ({"method": "grid", "space": {"x": wl.loguniform(0.1, 1)}}, "wl.choice(0.1, ..., 1)"),
        ({"space": {"x": 3}}, 'args={"x": 3}'),
        ({"n_trials": 5}, "exp.search: there is no option 'n_trials'; did you mean 'trials'?"),
    ],
)
def test_an_invalid_search_is_refused_before_anything_runs(
    home: Path, options: dict[str, Any], message: str
) -> None:
    experiment = wl.create_experiment("senseless")
    arguments = {"space": {"x": wl.uniform(0, 1)}, "metric": "loss", **options}
    with pytest.raises(wl.InvalidArgument) as refused:
        experiment.search(score, **arguments)
    assert message in str(refused.value)
    assert experiment.refresh().trial_count == 0
    assert experiment.record.searches == {}


def test_best_returns_the_trial_with_the_minimum_or_maximum(home: Path) -> None:
    experiment = wl.create_experiment("best")
    with pytest.raises(wl.InvalidArgument, match="needs a metric"):
        experiment.best()
    with pytest.raises(wl.InvalidArgument) as refused:
        experiment.best("value")
    assert "If lower is better, write exp.best('value', 'min')" in str(refused.value)
    for x in (3.0, 1.0, 2.0):
        experiment.add(score, args={"x": x}).wait(PATIENCE)
    assert experiment.best("value", "min").params["x"] == 1.0
    assert experiment.best("value", "max").params["x"] == 3.0
    assert wl.create_experiment("empty").trial_count == 0
    with pytest.raises(wl.NotFound):
        wl.create_experiment("empty too").best("value", "min")
