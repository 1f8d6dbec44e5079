"""A thousand trials by one `map` and by one `exp.add_many` while the machine is taken.

Usage: batches.py FILE; what holds the machine does so as long as the file is there. Prints the
seconds until all trials of each are accepted.
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
experiment = wl.create_experiment("batches")
for _ in sys.stdin:
    start = time.perf_counter()
    values = train.map([1 / (number + 1) for number in range(COUNT)])
    mapped = time.perf_counter()
    trials = experiment.add_many(train, [{"lr": 1 / (number + 1)} for number in range(COUNT)])
    added = time.perf_counter()
    print("=", [mapped - start, added - mapped], flush=True)
