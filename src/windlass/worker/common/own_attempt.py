"""The attempt that this process belongs to and the paths of its files, if there is one."""

from __future__ import annotations

import os

from windlass.worker.common.process_tree import MARKER

OUTPUTS = "outputs"  # in the directory of a replica: output files


def replica() -> tuple[str, str, str, str] | None:
    """Return uid, role, index and attempt of this process's replica; None outside a trial."""
    parts = os.environ.get(MARKER, "").split("/")
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) in (4, 5) else None


def moved_dir(path: str, supervisor: int) -> str:
    """Return the directory of an attempt, which may have been moved together with its home.

    A supervisor works in this directory, so the kernel knows where it is now.

    >>> moved_dir("/proc", 1)
    '/proc'
    """
    if os.path.isdir(path):
        return path
    try:
        return os.readlink(f"/proc/{supervisor}/cwd")
    except OSError:
        return path


def trial_dir() -> str | None:
    """Return the directory of the trial; None outside a trial.

    Its checkpoints are in this directory, even if the program sets another home.
    """
    checkpoints = os.environ.get("WINDLASS_CHECKPOINTS")
    return None if checkpoints is None else os.path.dirname(checkpoints)


def attempt_dir() -> str | None:
    """Return the directory of this attempt; None outside a trial."""
    trial, own = trial_dir(), replica()
    if trial is None or own is None:
        return None
    _, role, index, attempt = own
    return os.path.join(trial, f"{role}-{index}", attempt)
