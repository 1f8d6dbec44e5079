"""The machine and commit of a run, which every figure depends on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import psutil

from benchmarks.model import Machine


def describe(load_before: float) -> Machine:
    """This machine; `load_before` is its load when the run began."""
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        cores=_cores(),
        memory_gb=round(psutil.virtual_memory().total / 1e9, 1),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        git=ask("git", "--version").removeprefix("git version "),
        load_before=load_before,
        load_after=load(),
    )


def load() -> float:
    """Return the load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def commit() -> str:
    """Return the measured commit, with a + if files have changed since."""
    folder = str(Path(__file__).parent)
    head = ask("git", "-C", folder, "rev-parse", "--short", "HEAD")
    changed = ask("git", "-C", folder, "status", "--porcelain", "--untracked-files=no")
    return head + ("+" if changed else "")


def ask(*argv: str) -> str:
    """Return the output of a command, or an empty string."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
