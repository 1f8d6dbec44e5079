"""A thousand trials of a packaged tree, added to an experiment; they wait to be resumed."""

import sys
import time

import windlass as wl

COUNT = 1000

experiment = wl.create_experiment("adds")
[program] = experiment.package([wl.PythonScript("first_value.py")])
job = wl.Job(program, suspend=True)
experiment.add(job, args={"lr": 1.0})
for _ in sys.stdin:
    start = time.perf_counter()
    for number in range(COUNT):
        experiment.add(job, args={"lr": 1 / (number + 1)})
    print("=", time.perf_counter() - start, flush=True)
