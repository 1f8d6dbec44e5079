"""The functions that run as trials. Each leaves a mark, so that a second run is detected."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import psutil

import windlass as wl

PATIENCE = 120.0  # limits a test that hangs; no test measures it


def mark(folder: str, name: str) -> None:
    """Write one line for each run with its process id."""
    fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, b"%d\n" % os.getpid())
    os.close(fd)


@wl.run(cpus=0.05)
def deed(name: str, folder: str, pauses: list[float], way: str, what: Any) -> Any:
    """Write lines to both streams with pauses, and end in one of many ways."""
    mark(folder, name)
    for number, pause in enumerate(pauses):
        print(f"{name} says {number}")
        print(f"{name} warns {number}", file=sys.stderr)
        time.sleep(pause)
    if way == "raise":
        raise LookupError(name, what)
    if way == "exit":
        sys.exit(what)
    if way == "signal":
        os.kill(os.getpid(), what)
    return [name, what]


@wl.run(cpus=0.05)
def linger(name: str, folder: str, daemons: int = 0) -> str:
    """Run until a file exists, with daemons that only Windlass ends."""
    for _ in range(daemons):
        _daemonise(folder, f"{name}.daemons")
    mark(folder, name)
    print(f"{name} lingers", flush=True)
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(os.path.join(folder, f"{name}.go")):
        assert time.monotonic() < deadline, "nobody said go"
        time.sleep(0.01)
    return name


@wl.run(cpus=0.05)
def is_forked() -> bool:
    """Return whether this process is a fork of a launcher."""
    return any(word.endswith("launcher.py") for word in psutil.Process().cmdline())


def _daemonise(folder: str, note: str) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            mark(folder, note)
            while True:
                time.sleep(0.05)
        os._exit(0)
    os.wait()
