"""The attempt that this process belongs to and the paths of its files, if there is one."""

from __future__ import annotations

import os

from windlass.worker.common.process_tree import MARKER

OUTPUTS = "outputs"  # below the directory of a replica: files that are kept


def replica() -> tuple[str, str, str, str] | None:
    """Uid, role, index and attempt of the replica this process is part of; none outside of one."""
    parts = tuple(os.environ.get(MARKER, "").split("/"))
    return parts if len(parts) == 4 else None


def trial_dir() -> str | None:
    """The directory of the trial; none outside of one.

    Its checkpoints are in it, wherever a home may be that the program itself has set.
    """
    checkpoints = os.environ.get("WINDLASS_CHECKPOINTS")
    return None if checkpoints is None else os.path.dirname(checkpoints)


def attempt_dir() -> str | None:
    """The directory of this very attempt; none outside of a trial."""
    trial, own = trial_dir(), replica()
    if trial is None or own is None:
        return None
    _, role, index, attempt = own
    return os.path.join(trial, f"{role}-{index}", attempt)
