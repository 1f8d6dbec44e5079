"""Warm calls and requests while many clients load the server, and without them.

Usage: responsiveness.py FILE; a trial whose log is followed runs as long as the file is there.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import windlass as wl

LINES = 100_000
SECONDS = 10.0
LOAD = {"strangers": 500, "readers": 400, "followers": 50, "submissions": 1}


@wl.run(timeout="10m", cpus=0.1)
def write_lines(count: int, path: str) -> None:
    for step in range(count):
        print(f"step {step} loss=0.12345 accuracy=0.98765 throughput 12345 samples/s")
    print("the last line", flush=True)
    while os.path.exists(path):
        time.sleep(0.05)  # it should use nothing of the machine


@wl.run(cpus=0.1)
def train(lr: float) -> float:
    return 1 - lr


def start(kind: str, number: int, trial: int) -> subprocess.Popen[str]:
    command = [sys.executable, "busy_server.py", kind, str(number), str(trial)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise RuntimeError(f"{kind} did not begin")
    return process


def finish(process: subprocess.Popen[str]) -> object:
    output, _ = process.communicate(timeout=120)
    if process.returncode != 0:
        raise RuntimeError(f"{process.args!r} failed")
    return json.loads(output[1:]) if output else None


def peak_memory(pid: int) -> float:
    """Megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the kernel reports no peak")


def measure(kinds: dict[str, int], trial: int) -> dict[str, object]:
    """Calls and requests for some seconds, beside these clients."""
    load = {kind: start(kind, number, trial) for kind, number in kinds.items()}
    probe = start("probe", 1, trial)
    calls: list[float] = []
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        start_of_call = time.perf_counter()
        train(0.25)
        calls.append(time.perf_counter() - start_of_call)
        time.sleep(0.1)  # the calls are not the load
    answer: dict[str, object] = {"health": finish(probe), "calls": calls}
    return answer | {kind: finish(process) for kind, process in load.items()}


server = wl.Client().server_info().pid
written = write_lines.submit(LINES, sys.argv[1])
for line in written.logs(follow=True):
    if line == "the last line":
        break
train(0.25)
for _ in sys.stdin:
    quiet, busy = measure({}, written.id), measure(LOAD, written.id)
    print(
        "=", json.dumps({"quiet": quiet, "busy": busy, "memory": peak_memory(server)}), flush=True
    )
