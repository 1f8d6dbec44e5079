"""A program that prints 200,000 lines as fast as it can: in a trial, and into a file."""

import json
import os
import subprocess
import sys
import tempfile
import time

import windlass as wl

LINES = 200_000
PROGRAM = f"""
import sys, time
start = time.perf_counter()
for step in range({LINES}):
    print(f"step {{step}} loss=0.12345 accuracy=0.98765 throughput 12345 samples/s")
sys.stdout.flush()
print(time.perf_counter() - start, file=sys.stderr)
"""


def in_a_trial(**env: str) -> float:
    trial = wl.Job(wl.Command([sys.executable, "-c", PROGRAM]), env=env).submit()
    trial.wait()
    [took] = trial.logs(stream="stderr")
    return float(took)


def into_a_file(**env: str) -> float:
    with tempfile.TemporaryFile() as file:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], stdout=file, stderr=subprocess.PIPE, check=True,
            env={**os.environ, **env},
        )  # fmt: skip
    return float(done.stderr)


def followed() -> float:
    """From the start of a trial to its last line in the hands of who follows."""
    start = time.perf_counter()
    trial = wl.Job(wl.Command([sys.executable, "-c", PROGRAM])).submit()
    lines = sum(1 for _ in trial.logs(follow=True, stream="stdout"))
    if lines != LINES:
        raise RuntimeError(f"{lines} lines of {LINES} were seen")
    return time.perf_counter() - start


for _ in sys.stdin:
    answer = {
        "trial": in_a_trial(),
        "file": into_a_file(PYTHONUNBUFFERED="1"),
        "buffered trial": in_a_trial(PYTHONUNBUFFERED=""),
        "buffered file": into_a_file(),
        "followed": followed(),
        "lines": LINES,
    }
    print("=", json.dumps(answer), flush=True)
