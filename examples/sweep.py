"""A sweep: run a trial for every combination of arguments and print a table of the results.

    python examples/sweep.py             # --dry-run shows the trials and starts none

All trials belong to one experiment. Windlass packages the code once, so each `exp.add` takes only
milliseconds. If pandas or polars is installed, the table is a data frame:

       id      state   seconds    lr  hidden  accuracy
    0  28  SUCCEEDED  1.154235  1.00      32    0.9690
    1  27  SUCCEEDED  1.538930  1.00       4    0.9670
    2  26  SUCCEEDED  1.895571  0.10      32    0.9605
    3  25  SUCCEEDED  1.601959  0.10       4    0.9275
    4  24  SUCCEEDED  1.958014  0.01      32    0.9045
    5  23  SUCCEEDED  1.445610  0.01       4    0.8980
"""

from __future__ import annotations

import itertools
import sys

import numpy as np

import windlass as wl


def train(lr: float, hidden: int, epochs: int = 12) -> float:
    """Train a network to predict whether a point is above a sine wave. Return the accuracy."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (2000, 2))
    y = x[:, 1] > np.sin(2 * x[:, 0])
    w1, b1 = rng.normal(0, 1, (2, hidden)), rng.normal(0, 1, hidden)
    w2, b2 = np.zeros(hidden), 0.0
    right = 0.0
    for epoch in range(1, epochs + 1):
        for rows in rng.permutation(len(x)).reshape(-1, 20):
            layer = np.tanh(x[rows] @ w1 + b1)
            slope = (1 / (1 + np.exp(-(layer @ w2 + b2))) - y[rows]) / len(rows)
            back = np.outer(slope, w2) * (1 - layer**2)
            w2, b2 = w2 - lr * layer.T @ slope, b2 - lr * slope.sum()
            w1, b1 = w1 - lr * x[rows].T @ back, b1 - lr * back.sum(axis=0)
        right = float(((np.tanh(x @ w1 + b1) @ w2 + b2 > 0) == y).mean())
        wl.report(epoch, accuracy=round(right, 4))
    return right


def main() -> None:
    exp = wl.create_experiment("wave", dry_run="--dry-run" in sys.argv)
    [executable] = exp.package([wl.PythonFunction(train)])
    job = wl.Job(executable, executor=wl.Local(cpus=0.5))
    for lr, hidden in itertools.product((0.01, 0.1, 1.0), (4, 32)):
        exp.add(job, args={"lr": lr, "hidden": hidden})
    exp.wait()
    if "--dry-run" not in sys.argv:
        print(exp.table(metrics=["accuracy"], sort_by="-accuracy"))


if __name__ == "__main__":
    main()
