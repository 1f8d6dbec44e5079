"""Jobs of submitit's LocalExecutor, one after the other."""

import sys
import time

import submitit


def train(lr: float) -> float:
    return 1 - lr


executor = submitit.LocalExecutor(folder="jobs")
for _ in sys.stdin:
    start = time.perf_counter()
    executor.submit(train, 0.25).result()
    print("=", time.perf_counter() - start, flush=True)
