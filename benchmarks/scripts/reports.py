"""Reports of a program that nothing hinders, of eight that report as fast as they can, curves."""

import json
import sys
import time

import windlass as wl

ALONE, EACH, REPLICAS = 20_000, 125_000, 8
LONG, RAW, SPIKE = 1_000_000, 100_000, 777_777


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


@wl.run
def curves() -> None:
    """A long curve with one spike, and one that is fetched as it is."""
    for step in range(LONG):
        wl.report(step, loss=99.0 if step == SPIKE else 1 / (step + 1))
    for step in range(RAW):
        wl.report(step, raw=0.123 * step)


def time_fetches(trial: wl.Trial[None]) -> dict[str, list[float]]:
    """The seconds that fetching takes: a thousand points of the long curve, and the other."""
    few, raw = [], []
    for _ in range(10):
        start = time.perf_counter()
        points = list(trial.metrics("loss", max_points=1000))
        few.append(time.perf_counter() - start)
        if len(points) > 1000 or max(points, key=lambda each: each.value).step != SPIKE:
            sys.exit("the spike is lost")
        start = time.perf_counter()
        every = list(trial.metrics("raw"))
        raw.append(time.perf_counter() - start)
        if len(every) != RAW:
            sys.exit(f"{len(every)} points came back, not {RAW}")
    return {"few": few, "raw": raw}


if __name__ == "__main__":
    long = None
    for _ in sys.stdin:
        calls = alone()
        trial = together.submit().wait()
        known = time.time()
        summary = trial.summary_metrics["loss"]
        if summary.count != EACH * REPLICAS:
            sys.exit(f"{summary.count} points were counted, not {EACH * REPLICAS}")
        began = min(each.started or known for each in trial.record.attempts)
        long = long or curves.submit().wait()
        answer = {"calls": calls, "points": summary.count, "took": known - began}
        print("= " + json.dumps({**answer, **time_fetches(long)}), flush=True)
