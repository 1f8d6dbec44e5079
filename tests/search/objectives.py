"""The objectives of searches in tests, in a separate module because trials import it."""

from __future__ import annotations

import os
import time

import windlass as wl


@wl.run(cpus=0.1)
def score(x: float, y: float = 0.0) -> float:
    return x + y


@wl.run(cpus=0.1)
def descend(x: float, doomed: list[float], steps: int = 16) -> float:
    """Report the same value at every step. A pruned trial ends only when it is stopped."""
    for step in range(1, steps + 1):
        wl.report(step, loss=x)
    if x in doomed:
        while not wl.should_stop():
            time.sleep(0.01)
    return x


@wl.run(cpus=0.1)
def stubborn(x: int) -> int:
    """The first trial is good. The others report worse values and never check for a stop."""
    for step in range(1, 100_000 if x else 5):
        wl.report(step, loss=x * step)
        time.sleep(0.05)
    return x


@wl.run(cpus=0.1)
def moody(x: int) -> dict[str, float]:
    if x == 2:
        raise ValueError("two is too much")
    if x == 3:
        return {"loss": float("nan")}
    return {"loss": 1 / x, "other": 0}


@wl.run(cpus=0.1)
def mumbling(x: float) -> None:
    wl.report(1, val_los=x, accuracy=x)


@wl.run(cpus=0.1, name="train")
def broken(x: float, mended: str) -> float:
    if not os.path.exists(mended):
        raise ImportError("no module named gold")
    return x


def learn(lr: float = 0.0) -> None:
    wl.report(0, loss=lr)


def act() -> None:
    pass


class Shift:
    """An argument without a JSON form, whose text differs in each instance."""

    amount = 10


@wl.run(cpus=0.1)
def shifted(x: int, by: Shift) -> int:
    return x + by.amount
