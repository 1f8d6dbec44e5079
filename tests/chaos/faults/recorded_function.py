"""A function that leaves every kind of record."""

from __future__ import annotations

import os
import sys
import time

import windlass as wl

PATIENCE = 120.0  # bounds a test that hangs, never measures anything


@wl.run(cpus=0.5)
def record(name: str, folder: str, steps: int, way: int) -> str:
    """Print, report and save, and end in one of three ways."""
    with open(os.path.join(folder, f"{name}.begin"), "a") as file:
        file.write("x")
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(os.path.join(folder, "go")):
        assert time.monotonic() < deadline, "the test never gave the sign"
        time.sleep(0.01)
    for step in range(steps):
        print(f"{name} step {step}", flush=True)
        wl.report(step, loss=float(step))
        if step % (steps // 2) == 0:
            path = os.path.join(folder, f"{name}.pt")
            with open(path, "w") as file:
                file.write(f"{name} {step}")
            wl.save_checkpoint(path, step=step)
    open(os.path.join(folder, f"{name}.end"), "w").close()
    if way == 1:
        raise LookupError(name)
    if way == 2:
        sys.exit(7)
    return name


@wl.run(cpus=0.5)
def measure(data: bytes, number: int) -> int:
    """Return the size of a large value plus a number, which must not be negative."""
    wl.report(0, value=float(number))
    if number < 0:
        raise LookupError("negative")
    return len(data) + number
