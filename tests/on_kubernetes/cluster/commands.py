"""Run commands, and raise errors with the output of those that fail."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class ClusterError(Exception):
    """The cluster is unavailable, with the reason for the user."""


def run(
    *command: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Run a command and return its output.

    >>> run("echo", "hello")
    'hello\\n'
    """
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise ClusterError(f"`{shlex.join(str(word) for word in command)}` failed:\n{output}")
    return done.stdout


def run_logged(
    command: Sequence[str | Path], log: Path, *, cwd: Path, env: Mapping[str, str]
) -> None:
    """Run a long command and write its output to a file."""
    with log.open("ab") as file:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise ClusterError(f"`{command[0]}` failed. The end of {log}:\n{tail}")
