"""The attempt that this process belongs to, and the paths of its files."""

from __future__ import annotations

import os

from windlass.worker.common.process_tree import MARKER

OUTPUTS = "outputs"  # the folder for output files in a replica's directory


def replica() -> tuple[str, str, str, str] | None:
    """Return this replica's uid, role, index and attempt, or None outside of a trial."""
    parts = os.environ.get(MARKER, "").split("/")
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) in (4, 5) else None


def moved_dir(path: str, supervisor: int) -> str:
    """Return the current path of an attempt's directory, in case its home was moved.

    The directory is the supervisor's working directory, so the kernel knows its current path.

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
    """Return the trial's directory, or None outside of a trial.

    The directory contains the trial's checkpoints. It is found even if the program has changed
    `WINDLASS_HOME`.
    """
    checkpoints = os.environ.get("WINDLASS_CHECKPOINTS")
    return None if checkpoints is None else os.path.dirname(checkpoints)


def attempt_dir() -> str | None:
    """Return this attempt's directory, or None outside of a trial."""
    trial, own = trial_dir(), replica()
    if trial is None or own is None:
        return None
    _, role, index, attempt = own
    return os.path.join(trial, f"{role}-{index}", attempt)
