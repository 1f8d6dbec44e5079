"""An ASHA search: only the best of twenty-four training runs continue to the end.

    python examples/search_asha.py             # needs Optuna: pip install 'windlass[search]'
    python examples/search_asha.py 7           # continues the search of experiment 7

Each run fits a logistic regression by stochastic gradient descent in plain Python and reports
its loss on unseen points. The search compares the runs at epochs 1, 3 and 9 and asks those
with a high loss to stop. You can continue the search after Ctrl-C, a crash or a reboot. At the end,
the program prints:

    24 trainings: 4 complete, 20 pruned
    135 of 480 epochs were trained
    lr 0.805, decay 0.00022, batch 4: loss 0.1614
"""

from __future__ import annotations

import math
import random
import sys

import windlass as wl

EPOCHS = 20


def points(number: int, seed: int) -> list[tuple[list[float], bool]]:
    """Return points with eight coordinates. The class depends on three coordinates and on noise."""
    luck = random.Random(seed)
    made = []
    for _ in range(number):
        x = [luck.gauss(0, 1) for _ in range(8)]
        made.append((x, 3 * x[0] - 2 * x[1] + x[2] + luck.gauss(0, 1) > 0))
    return made


def chance(weights: list[float], x: list[float]) -> float:
    """Return the probability that a point belongs to the first class."""
    score = sum(weight * each for weight, each in zip(weights, x, strict=True))
    return 1 / (1 + math.exp(-max(min(score, 30), -30)))


@wl.run(cpus=0.5)
def train(lr: float, decay: float, batch: int) -> list[float]:
    seen, unseen = points(400, seed=1), points(400, seed=2)
    weights = [0.0] * 8
    luck = random.Random(3)
    for epoch in range(1, EPOCHS + 1):
        luck.shuffle(seen)
        for begin in range(0, len(seen), batch):
            rows = seen[begin : begin + batch]
            slopes = [(chance(weights, x) - y) / len(rows) for x, y in rows]
            for i in range(8):
                slope = sum(each * x[i] for each, (x, _) in zip(slopes, rows, strict=True))
                weights[i] -= lr * (slope + decay * weights[i])
        losses = [-math.log(chance(weights, x) if y else 1 - chance(weights, x)) for x, y in unseen]
        wl.report(epoch, val_loss=sum(losses) / len(losses))
        if wl.should_stop():
            break
    return weights


def main() -> None:
    known = int(sys.argv[1]) if sys.argv[1:] else None
    exp = wl.create_experiment("logistic") if known is None else wl.get_experiment(known)
    found = exp.search(
        train,
        space={
            "lr": wl.loguniform(1e-4, 1),
            "decay": wl.loguniform(1e-6, 1e-1),
            "batch": wl.choice(4, 16, 64),
        },
        metric="val_loss",
        mode="min",
        method="asha",
        trials=24,
        concurrent=4,
        reduction=3,
        seed=0,
    )
    print(f"{len(found)} trainings:", ", ".join(f"{n} {how}" for how, n in found.counts.items()))
    trained = sum(row["step"] for row in found.table)
    print(f"{trained} of {len(found) * EPOCHS} epochs were trained")
    best = found.best_params
    told = f"lr {best['lr']:.3g}, decay {best['decay']:.2g}, batch {best['batch']}"
    print(f"{told}: loss {found.best_value:.4f}")


if __name__ == "__main__":
    main()
