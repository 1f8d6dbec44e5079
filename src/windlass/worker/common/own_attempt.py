"""The attempt to which this process belongs, and the paths of its files."""

from __future__ import annotations

import os

from windlass.worker.common.process_tree import MARKER

OUTPUTS = "outputs"  # the folder for output files, in the directory of a replica


def replica() -> tuple[str, str, str, str] | None:
    """Return uid, role, index and attempt of this process's replica, or None outside of a trial."""
    parts = os.environ.get(MARKER, "").split("/")
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) in (4, 5) else None


def moved_dir(path: str, supervisor: int) -> str:
    """Return the current path of an attempt's directory, whose home may have been moved.

    The supervisor's working directory is this directory, so the kernel knows the current path.

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
    """Return the directory of the trial, or None outside of a trial.

    The directory contains the trial's checkpoints, even if the program changes the variable for the
    home.
    """
    checkpoints = os.environ.get("WINDLASS_CHECKPOINTS")
    return None if checkpoints is None else os.path.dirname(checkpoints)


def attempt_dir() -> str | None:
    """Return the directory of this attempt, or None outside of a trial."""
    trial, own = trial_dir(), replica()
    if trial is None or own is None:
        return None
    _, role, index, attempt = own
    return os.path.join(trial, f"{role}-{index}", attempt)
