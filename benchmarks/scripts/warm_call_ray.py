"""Tasks of a Ray that runs: in its worker processes, not recorded."""

import sys
import time

import ray

ray.init()


@ray.remote
def train(lr: float) -> float:
    return 1 - lr


for _ in sys.stdin:
    start = time.perf_counter()
    ray.get(train.remote(0.25))
    print("=", time.perf_counter() - start, flush=True)
