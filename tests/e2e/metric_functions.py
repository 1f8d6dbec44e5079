"""Functions that report metrics in these tests. Quick to import: every trial imports this
module.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from steps import wait_for

import windlass as wl


@wl.run(cpus=0.05)
def report_all(values: list[Any], gate: str = "", **options: Any) -> None:
    """Report values of `loss`, one per step, then wait."""
    for step, value in enumerate(values):
        wl.report(step, loss=value, **options)
    if gate:
        wait_for(gate)


@wl.run(cpus=0.05)
def report_odd() -> None:
    """Report unusual values."""
    for value in (float("nan"), float("inf"), 2.5, float("-inf"), 0.5, float("nan")):
        wl.report(7, odd=value)
    wl.report(8, none=float("nan"))
    wl.report(9, group="validation", whole=3, huge=1.7e308, **{"a/b": 1, "größe, [m]": 2})
    wl.report(10, group="validation", huge=1.7e308)


@wl.run(cpus=0.05)
def report_kinds() -> list[str]:
    """Report numbers of all kinds and invalid values, and return the errors of the invalid
    values.
    """
    from decimal import Decimal
    from fractions import Fraction

    import numpy as np

    arrays = (np.array(4), np.array([5]), np.array([[6.5]]))
    for value in (1, True, Decimal("0.5"), Fraction(1, 4), np.float32(2), np.int8(3), *arrays):
        wl.report(np.int64(5), kind=value)
    messages = []
    bad: list[tuple[Any, dict[str, Any]]] = [
        (0, {"loss": "0.5"}),
        (0, {"loss": None}),
        (0, {"loss": np.array([1, 2])}),
        (0, {"loss": 10**400}),
        (0, {}),
        (1, {"group": {"loss": 1}}),
        ("loss", {"group": 0.25}),
        (0, {"loss": np.array([])}),
        (0, {"loss": np.array(["1"])}),
        (-1, {"loss": 1}),
        (2**63, {"loss": 1}),
        (0.5, {"loss": 1}),
        (0, {"x" * 10_000: 1}),
        (0, {"a\nb": 1}),
        (0, {"": 1}),
        (0, {"group": "", "loss": 1}),
    ]
    for step, metrics in bad:
        try:
            wl.report(step, **metrics)
        except (TypeError, ValueError) as error:
            python = "TypeError" if isinstance(error, TypeError) else "ValueError"
            assert isinstance(error, wl.InvalidArgument)
            messages.append(f"{python}: {error}")
        else:
            messages.append("taken")
    return messages


@wl.run(cpus=0.05)
def report_names(number: int) -> str:
    """Report this number of metrics and return the final error."""
    try:
        for n in range(number):
            wl.report(0, **{f"m{n}": n})
    except ValueError as error:
        return str(error)
    return ""


@wl.run(cpus=0.05)
def report_at_once(threads: int, forks: int, points: int) -> None:
    """Report from threads of several processes at once."""

    def run(first: int) -> None:
        for n in range(points):
            wl.report(n, n=first + n, text_that_makes_it_longer=0.1)

    def run_threads() -> None:
        running = [threading.Thread(target=run, args=(0,)) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    children = []
    for _ in range(forks):
        child = os.fork()
        if child == 0:
            run_threads()
            os._exit(0)
        children.append(child)
    run_threads()
    for child in children:
        assert os.waitpid(child, 0)[1] == 0


@wl.run(cpus=0.05)
def report_without_descriptors() -> None:
    """Report while the program closes all descriptors, like a daemon, and opens others."""
    wl.report(0, loss=1)
    os.closerange(3, 256)
    others = [os.open("other.txt", os.O_RDWR | os.O_CREAT) for _ in range(20)]
    wl.report(1, loss=2)
    assert os.stat("other.txt").st_size == 0, others


@wl.run(cpus=0.05, retries=2)
def report_again(last: int) -> int:
    """Die at first, and resume from the previous step."""
    attempt = int(os.environ["WINDLASS_ATTEMPT"])
    for step in range(attempt - 1, last):
        wl.report(step, loss=attempt * 10 + step)
    if attempt < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return attempt


@wl.run(cpus=0.05)
def until_asked(started: str = "", deaf: bool = False) -> str:
    """Run until `should_stop` returns true, and return the reason in its file."""
    import json
    import time

    if deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    trial = wl.current_trial()
    assert trial is not None
    if started:
        open(started, "w").close()
    while not wl.should_stop():
        time.sleep(0.01)
    path = os.path.join(trial.directory, "should_stop")
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return str(json.load(file)["reason"])


@wl.run(cpus=0.05, retries=1)
def asked_again(started: str) -> list[Any]:
    """Fail on a request to stop, and return the request that the next attempt sees."""
    trial = wl.current_trial()
    assert trial is not None
    if trial.attempt == 1:
        open(started, "w").close()
        while not wl.should_stop():
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return [trial.attempt, wl.should_stop()]


@wl.run(cpus=0.05)
def who_am_i(lr: float, *, name: str = "x") -> dict[str, Any]:
    """Return the information that a program has about its trial."""
    trial = wl.current_trial()
    assert trial is not None
    return {**vars(trial), "repr": repr(trial)}


@wl.run(cpus=0.05, retries=1)
def report_without_steps(crash: bool) -> None:
    """Report without steps, save a checkpoint, fail once, then go on from the checkpoint."""
    saved = wl.latest_checkpoint()
    for _ in range(2):
        for _ in range(3):
            wl.report({"loss": 1.0, "grad/norm": 2})
        wl.report(accuracy=0.5)
        wl.report({"loss": 0.25}, group="validation")
    if crash and saved is None:
        with open("model", "w") as file:
            file.write("weights")
        wl.save_checkpoint("model", step=1)  # counts epochs, not reports
        wl.report(loss=7)
        sys.exit(3)
    wl.report(100, loss=5)
    wl.report(accuracy=0.25)
    wl.report({"loss": 1}, step=50)
    wl.report(loss=3)


@wl.run(cpus=0.05)
def report_wrongly() -> list[str]:
    """Make reports that are refused, and return the errors."""
    calls: list[Callable[[], None]] = [
        lambda: wl.report({"loss": 0.5}, 3),  # type: ignore[arg-type]
        lambda: wl.report(1, step=2, loss=0.5),
        lambda: wl.report({}),
        lambda: wl.report({"loss": {"train": 0.5}}),  # type: ignore[dict-item]
        lambda: wl.report({1: 0.5}),  # type: ignore[dict-item]
    ]
    errors = []
    for call in calls:
        try:
            call()
        except wl.InvalidArgument as error:
            errors.append(str(error))
    return errors
