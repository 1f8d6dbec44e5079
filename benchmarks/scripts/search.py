"""A search one trial at a time, the same trials called one by one, and Optuna without either."""

import sys
import time

import optuna

import windlass as wl

TRIALS = 30
optuna.logging.set_verbosity(optuna.logging.ERROR)


@wl.run
def train(x: float, y: float) -> float:
    return (x - 1) ** 2 + y


def searched() -> float:
    """The loop with the server: each trial is recorded and has a process of its own."""
    experiment = wl.create_experiment("bench")
    space = {"x": wl.uniform(-5, 5), "y": wl.loguniform(1e-3, 1)}
    start = time.perf_counter()
    experiment.search(
        train, space=space, metric="loss", method="tpe", trials=TRIALS, concurrent=1, seed=1
    )
    return time.perf_counter() - start


def called() -> float:
    start = time.perf_counter()
    for number in range(TRIALS):
        train(number, 0.5)
    return time.perf_counter() - start


def alone() -> float:
    """Optuna's own loop, all in this process."""
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1, constant_liar=True))
    start = time.perf_counter()
    for _ in range(TRIALS):
        trial = study.ask()
        x, y = trial.suggest_float("x", -5, 5), trial.suggest_float("y", 1e-3, 1, log=True)
        study.tell(trial, train.local(x, y))
    return time.perf_counter() - start


for _ in sys.stdin:
    told = ", ".join(
        f'"{name}": {measure() / TRIALS}'
        for name, measure in (("search", searched), ("call", called), ("optuna", alone))
    )
    print(f"= {{{told}}}", flush=True)
