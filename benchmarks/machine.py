"""Where it was measured: what must be told beside every figure."""

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
    """How many processes wanted to run in the last minute, on average."""
    return round(os.getloadavg()[0], 2)


def commit() -> str:
    """The commit that is measured, with a + if anything is changed since."""
    folder = str(Path(__file__).parent)
    head = ask("git", "-C", folder, "rev-parse", "--short", "HEAD")
    changed = ask("git", "-C", folder, "status", "--porcelain", "--untracked-files=no")
    return head + ("+" if changed else "")


def ask(*argv: str) -> str:
    """What a command says, or nothing."""
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
