"""Reports of a program that nothing hinders, and of eight that report as fast as they can."""

import json
import sys
import time

import windlass as wl

ALONE, EACH, REPLICAS = 20_000, 25_000, 8


@wl.run
def alone() -> list[float]:
    """The seconds that each of some batches took, a report in each."""
    took = []
    for _ in range(10):
        start = time.perf_counter()
        for step in range(ALONE // 10):
            wl.report(step, loss=0.123 * step)
        took.append((time.perf_counter() - start) / (ALONE // 10))
        time.sleep(0.2)  # the server reads meanwhile
    return took


@wl.run(cpus=0.05, replicas=REPLICAS)
def together() -> None:
    """All of them at once."""
    for step in range(EACH):
        wl.report(step, loss=0.123 * step)


if __name__ == "__main__":
    for _ in sys.stdin:
        calls = alone()
        trial = together.submit().wait()
        known = time.time()
        summary = trial.summary_metrics["loss"]
        if summary.count != EACH * REPLICAS:
            sys.exit(f"{summary.count} points were counted, not {EACH * REPLICAS}")
        began = min(each.started or known for each in trial.attempts)
        answer = {"calls": calls, "points": summary.count, "took": known - began}
        print("= " + json.dumps(answer), flush=True)
