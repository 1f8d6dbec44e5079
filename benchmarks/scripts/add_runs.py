"""Packaged functions added to an experiment: how long until each runs, in a process of its own."""

import sys
import time

import windlass as wl


def now(number: int) -> tuple[int, float]:
    return number, time.time()


experiment = wl.create_experiment("add-runs")
[program] = experiment.package([wl.PythonFunction(now)])
job = wl.Job(program)
experiment.add(job, args={"number": 0}).result()
for number, _ in enumerate(sys.stdin):
    start = time.time()
    trial = experiment.add(job, args={"number": number})
    print("=", trial.result()[1] - start, flush=True)
