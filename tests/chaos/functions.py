"""The functions that run as trials. Each leaves a mark, so that a second run is seen."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import psutil

import windlass as wl

PATIENCE = 120.0  # bounds a test that hangs, never measures anything


def mark(folder: str, name: str) -> None:
    """Write down that this ran, and as which process: one line a run."""
    fd = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, b"%d\n" % os.getpid())
    os.close(fd)


@wl.run(cpus=0.05)
def deed(name: str, folder: str, pauses: list[float], way: str, what: Any) -> Any:
    """Write lines to both streams, a pause after each, and end in one of many ways."""
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
    """Run until a file says go, with daemons that nobody but us will ever end."""
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
    """Whether this process is a fork of a launcher."""
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
