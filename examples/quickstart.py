"""Train a small classifier at three learning rates, each as a recorded trial.

Two interleaved spirals, a network of one hidden layer, plain NumPy.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np

import windlass as wl


def spirals(points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of points, wound around each other."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, points)
    radius = rng.uniform(0.2, 2.5, points)
    angle = 2.2 * radius + np.pi * label
    x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return x + rng.normal(0, 0.08, x.shape), label


@wl.run
def train(lr: float, epochs: int = 30, hidden: int = 64, batch: int = 32) -> float:
    """Fit the network by gradient descent; the share of unseen points it gets right."""
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
        if epoch % 6 == 0:
            right = ((np.tanh(test_x @ w1 + b1) @ w2 + b2 > 0) == test_y).mean()
            print(f"lr={lr:<5} epoch {epoch:3}  loss {np.mean(losses):.3f}  accuracy {right:.3f}")
    return float(right)


def main() -> None:
    rates = [0.003, 0.03, 0.3]
    accuracies = list(train.map(rates))

    print("\nlearning rate   accuracy")
    for lr, accuracy in zip(rates, accuracies, strict=True):
        mark = "  <- best" if accuracy == max(accuracies) else ""
        print(f"{lr:>13}   {accuracy:8.3f}{mark}")

    beside = Path(sys.executable).parent / "windlass"
    windlass = "windlass" if shutil.which("windlass") else str(beside)
    trial = max(trial.id for trial in wl.list_trials(experiment="train"))
    print("\nAll of it is recorded. Look further:")
    print(f"  {windlass} ls         what ran")
    print(f"  {windlass} show {trial}     everything about one trial")
    print(f"  {windlass} logs {trial}     what it printed")


if __name__ == "__main__":
    main()
