"""Functions of the trials in these tests. Quick to import: every trial imports this module."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import windlass as wl

PATIENCE = 120.0  # limits a test that hangs; no test measures it


def wait_for(path: str | Path) -> None:
    """In a trial: continue when the file exists."""
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)


@wl.run
def double(x: int, *, plus: int = 0) -> int:
    """Twice a number."""
    return 2 * x + plus


@wl.run(cpus=0.25)
def divide(a: float, b: float = 1.0) -> float:
    """One number by another."""
    return a / b


@wl.run(cpus=0.25)
def step(word: str, before: str = "", after: str = "") -> str:
    """Wait for a file, then write another."""
    print("begun", flush=True)
    if before:
        wait_for(before)
    if after:
        Path(after).touch()
    print("done")
    return word


@wl.run(cpus=0.25)
def work(word: str) -> str:
    """Fail for an empty word. Wait for a word that is a path."""
    if not word:
        raise LookupError("no word")
    if os.path.isabs(word):
        wait_for(word)
    return word


def held(path: str, fail: bool = False) -> None:
    """Wait for a file, then fail or not."""
    wait_for(path)
    if fail:
        raise ValueError("as asked")


@wl.run(cpus=0.25)
def chatter(count: int) -> None:
    """Write lines, with a warning in each hundred, and some unusual ones at the end."""
    for n in range(count):
        print(f"line {n}")
        if n % 100 == 0:
            print(f"warning {n}", file=sys.stderr)
    print("ünïcode ✓")
    print("10%", end="\r")
    print("50%", end="\r")
    print("100%")
    print("no end of line", end="")


@wl.run(cpus=0.5)
def tell(lr: float, *rest: int, epochs: int = 3, **options: Any) -> list[Any]:
    """Return all arguments."""
    return [lr, rest, epochs, options]


@wl.run(cpus=0.1)
def rate(lr: float) -> None:
    """Print and report a learning rate."""
    print(f"learns at {lr}")
    wl.report(0, loss=lr * 2)


@wl.run(cpus=0.1)
def noise(size: int, seed: int) -> bytes:
    """Random bytes, the same for the same seed."""
    import random

    wl.report(1, loss=0.5)
    return random.Random(seed).randbytes(size)


@wl.run(cpus=0.1)
def save(count: int) -> None:
    """Save a small checkpoint at each step."""
    Path("state").write_text("1")
    for number in range(count):
        wl.save_checkpoint("state", step=number)


@wl.run
def inner(x: int) -> tuple[int, str]:
    """Return a number, and the trial that it ran in."""
    return x, os.environ["WINDLASS_TRIAL_ID"]


@wl.run
def outer(x: int) -> list[tuple[int, str]]:
    """Return the values of `inner` as called by a trial."""
    return [inner(x), inner.local(x + 1)]


@wl.run
def factorial(n: int) -> int:
    """A function that calls itself by its decorated name."""
    return 1 if n == 0 else n * factorial(n - 1)


class Scale:
    """An object that can be called."""

    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, x: int) -> int:
        return self.by * x


def shouting(function: Callable[[int], int]) -> Callable[[int], list[object]]:
    """A decorator of a user."""

    @functools.wraps(function)
    def wrapper(x: int) -> list[object]:
        return ["shouted", function(x)]

    return wrapper


@shouting
def shouted(x: int) -> int:
    """Decorated, but not by Windlass."""
    return x


@wl.run
@shouting
def remote_and_shouted(x: int) -> int:
    """Decorated twice."""
    return x


def look() -> tuple[str, str, str, str]:
    """Return the trial's own package, a package of the caller, and the location of the trial."""
    from importlib import metadata

    import iniconfig
    import numpy

    folder = os.path.dirname(iniconfig.__file__)
    return metadata.version("iniconfig"), folder, numpy.__version__, sys.prefix


def all_cpus() -> float:
    """Return a CPU request that leaves no capacity for other trials."""
    return wl.Client().server_info().capacity.cpus


def newest() -> int:
    """The id of the newest trial, or 0."""
    return next((trial.id for trial in wl.list_trials(sort_by="-id", limit=1)), 0)
