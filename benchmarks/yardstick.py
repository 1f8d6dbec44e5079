"""The yardstick: `python -c pass` by the interpreter that runs everything, variables cleaned."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.samples import Samples

BIN = Path(sys.executable).parent
PATIENCE = 180.0  # a limit for failures, not a measurement
DESCRIPTION = "python -c pass (this environment's interpreter; of variables only PATH, HOME, LANG)"


def clean_environment(home: Path) -> dict[str, str]:
    """The environment of a measured program, without the variables of the shell."""
    path = os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}


def time_command(
    argv: Sequence[str | Path], environment: Mapping[str, str], folder: Path | None = None
) -> float:
    """The seconds a command takes from its start to its end. It must succeed."""
    start = time.perf_counter()
    done = subprocess.run(
        [str(part) for part in argv],
        cwd=folder or "/",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=PATIENCE,
        check=False,
    )
    took = time.perf_counter() - start
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise RuntimeError(f"{' '.join(map(str, argv))} failed: {said[-2000:]}")
    return took


class Yardstick:
    """Bare Python, timed whenever something is compared with it."""

    def __init__(self) -> None:
        self.samples = Samples()

    def bare(self, python: Path | None = None) -> float:
        """The seconds one start of an interpreter takes; a peer's has its own environment."""
        took = time_command([python or sys.executable, "-c", "pass"], clean_environment(Path("/")))
        if python is None:
            self.samples.append(took)
        return took
