"""Another cluster of this machine, beside that of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from on_kubernetes.cluster.locations import CACHE

TESTS = Path(__file__).parent.parent


class OtherCluster:
    """The cluster with a number, which is started and stopped like that of `make kube`."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = CACHE / f"run-{number}"
        self.kubeconfig = self.state / "kubeconfig"

    def command(self, *words: str) -> str:
        """Run its command line and return the output."""
        env = {**os.environ, "WINDLASS_KUBE_NUMBER": str(self.number), "PYTHONPATH": str(TESTS)}
        done = subprocess.run(
            [sys.executable, "-m", "on_kubernetes.cluster", *words],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
