"""A program's output directory, which is the same in every attempt of a replica.

A file in the output directory becomes an artifact as soon as it is written. No files are copied
when the trial ends, so a program that is killed at that time loses no files.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.worker.common.atomic_files import make_folder
from windlass.worker.common.own_attempt import OUTPUTS, replica, trial_dir

TENSORBOARD = "tensorboard"  # a folder in the output directory
_ON_ITS_OWN = "windlass-outputs"

# The output directory of a process outside of any trial, by process id. It stays the same when the
# process changes its working directory.
_own: dict[int, str] = {}


def output_dir() -> Path:
    """Create and return this replica's output directory, whose files become artifacts.

    Every attempt of the replica has the same directory, so the files survive a restart.
    `trial.list_artifacts()` lists the files and `trial.download_artifacts(folder)` downloads them,
    during the trial or later.

    Outside of a trial, the directory is `windlass-outputs` in the current directory, which Windlass
    does not package and git ignores. If it cannot be created, a temporary directory is used
    instead.

    ```python
    (wl.output_dir() / "report.txt").write_text("accuracy 0.93")
    ```
    """
    trial, own = trial_dir(), replica()
    if trial is None or own is None:
        return Path(_outside_of_a_trial())
    _, role, index, _ = own
    folder = os.path.join(trial, f"{role}-{index}", OUTPUTS)
    make_folder(folder, 0o700)
    return Path(folder)


def tensorboard_dir() -> Path:
    """Create and return the folder for TensorBoard files: `tensorboard` in `wl.output_dir()`.

    `windlass tensorboard 7` shows the files of every replica of trial 7, even while the trial runs.

    ```python
    print("Pass this folder to SummaryWriter:", wl.tensorboard_dir())
    ```
    """
    folder = output_dir() / TENSORBOARD
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _outside_of_a_trial() -> str:
    existing = _own.get(os.getpid())
    if existing is not None and os.path.isdir(existing):
        return existing
    try:
        folder = os.path.join(os.getcwd(), _ON_ITS_OWN)
        make_folder(folder)
        ignored = os.path.join(folder, ".gitignore")
        if not os.path.lexists(ignored):
            with open(ignored, "w") as file:
                file.write("*\n")
    except OSError:
        import tempfile

        folder = tempfile.mkdtemp(prefix=f"{_ON_ITS_OWN}-")
    _own[os.getpid()] = folder
    return folder
