"""`windlass run --sweep`: one trial for each combination of values."""

from __future__ import annotations

import json

import pytest

from cli.shells import Shell
from cli.terminals import CTRL_C

TRAIN = """
    import argparse, time
    import windlass as wl

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--amp", action=argparse.BooleanOptionalAction)
    parser.add_argument("--seconds", type=float, default=0)
    args = parser.parse_args()
    if args.lr == 13:
        raise ValueError("an unlucky rate")
    wl.report(1, loss=abs(args.lr - 0.01) * args.layers)
    time.sleep(args.seconds)
"""


@pytest.fixture(scope="module", autouse=True)
def project(module_shell: Shell) -> None:
    """A project with one script."""
    module_shell.write("train.py", TRAIN)


def test_a_grid_passes_arguments_and_records_typed_values(module_shell: Shell) -> None:
    sweeps = ("--sweep", "lr=0.1,1e-2", "--sweep", "layers=1..2", "--sweep", "amp=true,false")
    done = module_shell("run", *sweeps, "train.py", "--seconds", "0")
    assert done.returncode == 0, done.stderr
    assert "8 trials: 8 succeeded" in done.stderr
    first, last = module_shell.trial(1), module_shell.newest()
    assert first.params == {"lr": 0.1, "layers": 1, "amp": True, "seconds": 0}
    assert last.params == {"lr": 0.01, "layers": 2, "amp": False, "seconds": 0}
    assert first.experiment == last.experiment == "train-sweep"
    assert first.experiment_id == last.experiment_id
    shown = module_shell.good("show", str(last.id))
    assert "python train.py --seconds 0 --lr=0.01 --layers=2 --no-amp" in shown


def test_a_metric_sorts_the_table_and_a_failed_trial_does_not_stop_the_others(
    module_shell: Shell,
) -> None:
    options = ("--sweep", "lr=0.5,13,0.2", "--metric", "min loss", "-e", "rates", "--label", "s")
    done = module_shell("run", *options, "train.py")
    assert done.returncode == 1
    rates = [line.split()[3] for line in done.stdout.splitlines()[1:4]]
    assert rates == ["0.2", "0.5", "13"]
    assert "1 of 3 trials did not succeed" in done.stderr
    assert "ValueError: an unlucky rate" in done.stderr
    trial = module_shell.newest()
    assert (trial.experiment, trial.labels) == ("rates", ("s",))

    done = module_shell("run", "--sweep", "lr=0.3", "-e", "rates", "train.py")
    assert (done.returncode, done.stdout.count("SUCCEEDED")) == (0, 1)  # only its own trials
    assert module_shell.newest().experiment_id == trial.experiment_id


def test_a_detached_sweep(module_shell: Shell) -> None:
    printed = module_shell.good("run", "--sweep", "lr=1,2", "-d", "--json", "train.py")
    ids = [record["id"] for record in json.loads(printed)]
    assert len(ids) == 2
    module_shell.good("logs", str(ids[1]), "-f")
    assert "of experiment" in module_shell.good("run", "--sweep", "lr=1,2", "-d", "train.py")


def test_a_dry_run_lists_the_combinations(module_shell: Shell) -> None:
    newest = module_shell.newest().id
    shown = module_shell.good("run", "--sweep", "lr=1,2", "--dry-run", "train.py")
    assert "2 trials in a grid" in shown
    assert "train.py --lr=1" in shown
    assert shown.endswith("lr\n 1\n 2\n")
    assert module_shell.newest().id == newest


def test_a_search_chooses_values_from_a_range_and_continues(module_shell: Shell) -> None:
    search = ("run", "--sweep", "lr=1e-4..1e-1", "--search", "random", "--metric", "loss")
    search += ("--seed", "1", "-e", "searched")
    done = module_shell(*search, "--trials", "2", "train.py")
    assert done.returncode == 0, done.stderr
    assert "2 trials: 2 complete" in done.stderr
    assert 1e-4 <= module_shell.newest().params["lr"] <= 1e-1
    done = module_shell(*search, "--trials", "3", "train.py")
    assert "3 trials: 3 complete" in done.stderr
    done = module_shell(*search, "--sweep", "layers=1,2", "train.py")
    assert "another experiment: --experiment NAME" in done.stderr
    misspelt = [word.replace("loss", "los") for word in search[:-2]]
    done = module_shell(*misspelt, "--trials", "1", "train.py")
    assert "Did you mean --metric 'loss'?" in done.stderr


def test_ctrl_c_stops_all_trials(module_shell: Shell) -> None:
    options = ("--sweep", "lr=1..5", "train.py", "--seconds", "60")
    with module_shell.terminal("run", *options).closing() as terminal:
        terminal.until("5 running").until("lr=1")
        terminal.type(CTRL_C).until("5 trials: 5 stopped")
        assert terminal.end() == 130


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--sweep", "lr"), "'lr' is not NAME=VALUES"),
        (("--sweep", "lr=1,,2"), "--sweep lr=1,,2: a value is empty"),
        (("--sweep", "x=0..1.5"), "or a step: --sweep x=0..1.5:0.15"),
        (("--sweep", "lr=1e-4..1e-1"), "Or let a search choose values: --search random --metric"),
        (("--sweep", "n=9..2"), "Swap them: 2..9"),
        (("--sweep", "n=2..9:x"), "'x' is neither a scale nor a step"),
        (("--sweep", "n=1", "--sweep", "n=2"), "Join the values: --sweep n=1,2,3"),
        (("--sweep", "seconds=1,2"), "the command already has a value of seconds"),
        (("--sweep", "n=1,2", "--search", "best"), "Use grid, random, tpe, asha."),
        (("--sweep", "n=1,2", "--search", "tpe"), "--metric 'min val_loss'"),
        (("--sweep", "n=1,2", "--trials", "3"), "--trials has no effect on a grid"),
        (("--sweep", "n=1..200", "--sweep", "m=1..99"), "19,800 combinations exceed the limit"),
        (("--sweep", "n=1,2", "--search", "tpe", "--metric", "x", "-d"), "for example in tmux"),
        (("--metric", "loss"), "--metric applies to sweeps. Add --sweep NAME=VALUES"),
    ],
)
def test_errors_explain_what_to_write(
    module_shell: Shell, words: tuple[str, ...], error: str
) -> None:
    done = module_shell("run", *words, "train.py", "--seconds", "0")
    assert done.returncode != 0
    assert error in done.stderr
