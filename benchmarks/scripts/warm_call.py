"""Calls while the server runs: each its own recorded trial, in a process of its own."""

import sys
import time

import windlass as wl


@wl.run
def train(lr: float) -> float:
    return 1 - lr


for _ in sys.stdin:
    start = time.perf_counter()
    train(0.25)
    print("=", time.perf_counter() - start, flush=True)
