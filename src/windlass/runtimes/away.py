"""Attempts that run where this machine's files are not: what is known of them, in files here.

The directory of such an attempt is laid out as that of a local one. Its launch file names paths
of the place where it runs; the rest is written by what its agent ships (`server/agents.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windlass.model.job import Assignment, Job
from windlass.model.status import ReplicaId
from windlass.runtimes import layout
from windlass.runtimes.attempts import AWAY
from windlass.runtimes.launching import launch_of
from windlass.worker.agent.run import HOME as THERE
from windlass.worker.files import write_json

__all__ = ["THERE", "ask_for"]


def ask_for(home: Path, job: Job, replica: ReplicaId, given: Assignment) -> Path:
    """Have the directory of an attempt here, with the launch file that its agent asks for."""
    folder = layout.attempt_dir(home, job.trial_id, replica)
    if not (folder / layout.LAUNCH).exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(str(folder / layout.LAUNCH), launch_away(job, replica, given))
    return folder


def launch_away(job: Job, replica: ReplicaId, given: Assignment) -> dict[str, Any]:
    """The launch file of an attempt that runs elsewhere, in the home that its agent makes."""
    launch = launch_of(Path(THERE), job, replica, given, has_devices=False, is_here=False)
    # What the agent fills in, or does without: the interpreter, what the author's machine has.
    filled_in: dict[str, Any] = {
        "python": "python3",
        "extra_paths": [],
        "volumes": [],
        "hold": None,
    }
    return {**launch, **filled_in, AWAY: True}
