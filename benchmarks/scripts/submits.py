"""A thousand submissions while the machine is taken: they are accepted and wait.

Usage: submits.py FILE HOW. A trial holds the machine while FILE exists. HOW is "map" or
"one by one".
"""

import os
import sys
import time

import windlass as wl

COUNT = 1000


@wl.run(timeout="10m")
def hold(path: str) -> None:
    while os.path.exists(path):
        time.sleep(0.05)  # it only holds the machine, and should use none of it


@wl.run
def train(lr: float) -> float:
    return 1 - lr


# A trial that requests all CPUs leaves no capacity for other trials.
capacity = wl.Client().server_info().capacity.cpus
holder = hold.options(cpus=capacity).submit(sys.argv[1])
while holder.refresh().state != "RUNNING":
    time.sleep(0.01)  # before the measurement
for _ in sys.stdin:
    start = time.perf_counter()
    if sys.argv[2] == "map":
        values = train.map([0.25] * COUNT)
    else:
        trials = [train.submit(0.25) for _ in range(COUNT)]
    print("=", time.perf_counter() - start, flush=True)
