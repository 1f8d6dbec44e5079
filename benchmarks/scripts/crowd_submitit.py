"""A hundred jobs of submitit's LocalExecutor at once, until all values are there."""

import sys
import time

import submitit

COUNT = 100


def square(number: int) -> int:
    return number**2


executor = submitit.LocalExecutor(folder="jobs")
for _ in sys.stdin:
    start = time.perf_counter()
    jobs = [executor.submit(square, number) for number in range(COUNT)]
    values = [job.result() for job in jobs]
    print("=", time.perf_counter() - start, flush=True)
