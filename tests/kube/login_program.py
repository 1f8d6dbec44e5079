"""A login program, as `exec` in a kubeconfig file names one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil

from harness import eventually

LONG_AGO = "2020-01-01T00:00:00Z"
VERSION = "client.authentication.k8s.io/v1beta1"
PROGRAM = """#!/bin/sh
cd "$(dirname "$0")"
touch "runs/$$"
if [ -e hangs ]; then
    sleep 1000 &
    touch "runs/$!"
    wait
fi
cat answer
"""


class LoginProgram:
    """Responds with a token, or hangs together with a child process."""

    def __init__(self, folder: Path, token: str = "a-token", **more: str) -> None:
        self._folder = folder
        (folder / "runs").mkdir(parents=True)
        self.path = folder / "log-me-in"
        self.path.write_text(PROGRAM)
        self.path.chmod(0o755)
        self.answer(token, **more)

    @property
    def section(self) -> dict[str, Any]:
        """The `exec` section of a user in a kubeconfig file."""
        return {"apiVersion": VERSION, "command": str(self.path), "interactiveMode": "Never"}

    def answer(self, token: str = "", **more: str) -> None:
        """Log in from now on; with `expirationTimestamp=`, until then."""
        status = {**({"token": token} if token else {}), **more}
        credential = {"apiVersion": VERSION, "kind": "ExecCredential", "status": status}
        (self._folder / "answer").write_text(json.dumps(credential))
        self.recover()

    def expire(self) -> None:
        """Respond as before, with a credential that expires at once."""
        response = json.loads((self._folder / "answer").read_text())
        self.answer(**response["status"], expirationTimestamp=LONG_AGO)

    def hang(self) -> None:
        """Send no response from now on."""
        (self._folder / "hangs").touch()

    def recover(self) -> None:
        """Respond as before."""
        (self._folder / "hangs").unlink(missing_ok=True)

    @property
    def started(self) -> int:
        """The number of processes so far."""
        return len(list((self._folder / "runs").iterdir()))

    def wait_gone(self) -> None:
        """Wait until no process exists. Killed processes may take a moment to disappear."""
        runs = [int(path.name) for path in (self._folder / "runs").iterdir()]
        eventually(lambda: not any(map(_is_alive, runs)), "nothing of it runs", patience=10)


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
