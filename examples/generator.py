"""Shows a generator: a function that adds jobs to a trial and can use results of earlier jobs.

    python examples/generator.py         # --dry-run shows the jobs that do not depend on results

Each trial trains a model briefly. If the loss is low, the trial trains the model for much longer.
The generator runs in this script's process, so it can use all objects in the script, and you can
debug it. Each job that it adds runs as a separate trial. The program prints:

    lr=0.001   given up          loss 0.5084
    lr=0.1     trained further   loss 0.3428 -> 0.1142
    lr=1.0     trained further   loss 0.1752 -> 0.0037
    lr=5.0     given up          loss 318.4419
"""

from __future__ import annotations

import math
import sys
from typing import Any

import windlass as wl

Weights = list[float]


def fit(lr: float, steps: int, start: Weights) -> tuple[Weights, float]:
    """Fit a polynomial to a sine by gradient descent; return its weights and loss."""
    points = [(x / 20, math.sin(3 * x / 20)) for x in range(-20, 21)]
    weights, loss = start, math.inf
    for step in range(1, steps + 1):
        slopes, loss = [0.0] * len(weights), 0.0
        for x, y in points:
            off = sum(w * x**power for power, w in enumerate(weights)) - y
            loss += off * off / len(points)
            slopes = [s + off * x**power / len(points) for power, s in enumerate(slopes)]
        weights = [w - lr * s for w, s in zip(weights, slopes, strict=True)]
        wl.report(step, loss=loss)
    return weights, loss


def main() -> None:
    is_dry = "--dry-run" in sys.argv
    rates = (0.001, 0.1, 1.0, 5.0)
    with wl.create_experiment("sine", dry_run=is_dry) as exp:
        [executable] = exp.package([wl.PythonFunction(fit)])
        job = wl.Job(executable, executor=wl.Local(cpus=0.5))

        def promising(trial: wl.Trial[Any], lr: float) -> None:
            first = trial.add(job, args={"lr": lr, "steps": 10, "start": [0.0] * 4})
            weights, loss = first.result()
            if loss < 0.4:
                trial.add(job, args={"lr": lr, "steps": 200, "start": weights})

        trials = [exp.add(promising, args={"lr": lr}) for lr in rates]

    for lr, trial in zip(rates, trials, strict=True) if not is_dry else ():
        losses = [child.result()[1] for child in trial.wait().children]
        outcome = "given up" if len(losses) == 1 else "trained further"
        print(f"lr={lr:<7} {outcome:<17} loss {' -> '.join(f'{loss:.4f}' for loss in losses)}")


if __name__ == "__main__":
    main()
