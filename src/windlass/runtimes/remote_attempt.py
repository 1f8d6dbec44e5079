"""The server's copies of files that belong to attempts on remote machines.

A remote attempt's directory has the same layout as a local attempt's. The launch file contains
paths on the remote machine. All other files are uploads from the agent
(`server/stores/agent_uploads.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from windlass.model.job import Assignment, Job
from windlass.model.status import ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.launch_file import build_launch
from windlass.runtimes.local.attempt import REMOTE
from windlass.worker.agent.agent import HOME as THERE
from windlass.worker.common.atomic_files import write_json
from windlass.worker.common.file_reads import exists

__all__ = ["THERE", "ask_for"]


def ask_for(home: Path, job: Job, replica: ReplicaId, assignment: Assignment) -> Path:
    """Create the directory and launch file of an attempt.

    The attempt's agent will request the launch file.
    """
    folder = paths.attempt_dir(home, job.trial_id, replica)
    if not exists(folder / paths.LAUNCH):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(str(folder / paths.LAUNCH), remote_launch(job, replica, assignment))
    return folder


def remote_launch(job: Job, replica: ReplicaId, assignment: Assignment) -> dict[str, Any]:
    """Return the contents of a remote attempt's launch file.

    Its paths refer to the home that the agent creates.
    """
    launch = build_launch(Path(THERE), job, replica, assignment, has_devices=False, is_here=False)
    # The agent replaces these fields, because they are paths on the author's machine.
    filled_in: dict[str, Any] = {
        "python": "python3",
        "extra_paths": [],
        "volumes": [],
        "hold": None,
    }
    return {**launch, **filled_in, REMOTE: True}
