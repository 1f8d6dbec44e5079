"""A hyper-parameter tournament, as an example of a small framework on top of experiments.

    python examples/framework.py

Every round trains all candidates in parallel. The better half continues with twice the budget.
This method is called successive halving. The function `tournament` implements it in ten lines
on top of Windlass's public functions. The program prints:

    8 candidates, budget 5: {'lr': 0.001, 'momentum': 0.9} leads
    4 candidates, budget 10: {'lr': 0.001, 'momentum': 0.9} leads
    2 candidates, budget 20: {'lr': 0.001, 'momentum': 0.9} leads
    the winner: {'lr': 0.001, 'momentum': 0.9}
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import windlass as wl

Candidate = dict[str, Any]
HALF = wl.Local(cpus=0.5)


def tournament(train: Callable[..., float], candidates: list[Candidate], budget: int) -> Candidate:
    """Return the best candidate. Each round keeps the better half and doubles the budget."""
    exp = wl.create_experiment(train.__name__)
    [program] = exp.package([wl.PythonFunction(train)])
    while len(candidates) > 1:
        jobs = [wl.Job(program, args={**c, "budget": budget}, executor=HALF) for c in candidates]
        losses = [trial.result() for trial in [exp.add(job) for job in jobs]]
        ranked = sorted(range(len(losses)), key=losses.__getitem__)
        print(f"{len(losses)} candidates, budget {budget}: {candidates[ranked[0]]} leads")
        candidates = [candidates[place] for place in ranked[: len(ranked) // 2]]
        budget *= 2
    return candidates[0]


def descend(lr: float, momentum: float, budget: int) -> float:
    """Minimize Rosenbrock's function by gradient descent, and return the final value."""
    x, y, dx, dy = -1.0, 1.0, 0.0, 0.0
    for _ in range(100 * budget):
        slope_x = -2 * (1 - x) - 400 * x * (y - x * x)
        slope_y = 200 * (y - x * x)
        dx, dy = momentum * dx - lr * slope_x, momentum * dy - lr * slope_y
        x, y = x + dx, y + dy
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


def main() -> None:
    grid = itertools.product((1e-5, 1e-4, 3e-4, 1e-3), (0.0, 0.9))
    candidates = [{"lr": lr, "momentum": momentum} for lr, momentum in grid]
    print("the winner:", tournament(descend, candidates, budget=5))


if __name__ == "__main__":
    main()
