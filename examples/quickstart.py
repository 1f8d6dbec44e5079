"""Train a small classifier at three learning rates, as three recorded trials in an experiment.

The points form two interleaved spirals. The network has one hidden layer and needs only NumPy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import windlass as wl


def spirals(points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of two classes that form two interleaved spirals."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, points)
    radius = rng.uniform(0.2, 2.5, points)
    angle = 2.2 * radius + np.pi * label
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return x + rng.normal(0, 0.08, x.shape), label


def train(lr: float, epochs: int = 30, hidden: int = 64, batch: int = 32) -> float:
    """Fit the network by gradient descent. Return its accuracy on unseen points."""
    x, y = spirals(4000, seed=0)
    test_x, test_y = spirals(1000, seed=1)
    rng = np.random.default_rng(0)
    w1, b1 = rng.normal(0, 1.0, (2, hidden)), rng.normal(0, 1.0, hidden)
    w2, b2 = rng.normal(0, 0.1, hidden), 0.0

    for epoch in range(1, epochs + 1):
        order = rng.permutation(len(x))
        losses = []
        for start in range(0, len(x), batch):
            rows = order[start : start + batch]
            layer = np.tanh(x[rows] @ w1 + b1)
            chance = 1 / (1 + np.exp(-(layer @ w2 + b2)))
            losses.append(-np.log(np.where(y[rows] == 1, chance, 1 - chance).clip(1e-9)).mean())
            slope = (chance - y[rows]) / len(rows)
            back = np.outer(slope, w2) * (1 - layer**2)
            w2, b2 = w2 - lr * layer.T @ slope, b2 - lr * slope.sum()
            w1, b1 = w1 - lr * x[rows].T @ back, b1 - lr * back.sum(axis=0)
        accuracy = float(((np.tanh(test_x @ w1 + b1) @ w2 + b2 > 0) == test_y).mean())
        wl.report(epoch, loss=float(np.mean(losses)), accuracy=accuracy)
        if epoch % 10 == 0:
            print(f"epoch {epoch}  loss {np.mean(losses):.3f}  accuracy {accuracy:.3f}")
    return accuracy


def main() -> None:
    experiment = wl.create_experiment("spirals")
    [program] = experiment.package([wl.PythonFunction(train)])
    job = wl.Job(program, executor=wl.Local(cpus=0.5))
    trials = [experiment.add(job, args={"lr": lr}) for lr in (0.003, 0.03, 0.3)]
    experiment.wait()
    print(experiment.table(metrics=["accuracy"], sort_by="-accuracy"))

    beside = str(Path(sys.executable).parent / "windlass")
    windlass = (
        "windlass"
        if shutil.which("windlass") == beside
        else min(beside, os.path.relpath(beside), key=len)
    )
    numbers = " ".join(str(trial.id) for trial in trials)
    command = f"metrics {numbers} loss --plot --log"
    print(f"\n$ {windlass} {command}", flush=True)
    lines = str(min(shutil.get_terminal_size().lines, 18))  # a plot that leaves space for the rest
    subprocess.run([windlass, *command.split()], check=True, env={**os.environ, "LINES": lines})

    print("\nWindlass keeps the code, the arguments, the output and the metrics. Next, try:")
    print(f"  {windlass} ls")
    print(f"  {windlass} show {trials[-1].id}")
    print(f"  {windlass} compare {numbers}")


if __name__ == "__main__":
    main()
