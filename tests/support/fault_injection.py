"""Faults of system calls on files below a folder, in processes that a test starts."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("inject_faults.c")


class Faults:
    """Faults of all files below a folder, which can be turned on and off.

    A process has them if `environment` is in its environment when it starts.
    """

    def __init__(self, root: Path, folder: Path, seed: int) -> None:
        self._switch = folder / "faults-on"
        self._log = folder / "faults.log"
        self.environment = {
            "LD_PRELOAD": str(_compiled(folder)),
            "FAULT_ROOT": str(root),
            "FAULT_SWITCH": str(self._switch),
            "FAULT_LOG": str(self._log),
            "FAULT_ONE_IN": "40",
            "FAULT_SEED": str(seed),
        }

    def begin(self) -> None:
        self._switch.touch()

    def end(self) -> None:
        self._switch.unlink(missing_ok=True)

    def count(self) -> Counter[tuple[str, str]]:
        """Return how often each call failed on each kind of file."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        words = [line.split(" ", 3) for line in lines]
        return Counter((call, Path(path).name) for _, call, _, path in words)


def _compiled(folder: Path) -> Path:
    """Compile the library that injects the faults; skip the test if there is no compiler."""
    target = folder / "inject_faults.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(target), str(SOURCE), "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no C compiler for Linux: {error}")
    return target
