"""The output directory of a program. A replica has the same output directory in every attempt.

A file in the output directory is an artifact as soon as it is written. Windlass copies no files
when the trial ends, so a program that is killed at that time loses no files.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.worker.common.atomic_files import make_folder
from windlass.worker.common.own_attempt import OUTPUTS, replica, trial_dir

TENSORBOARD = "tensorboard"  # a folder in the output directory
_ON_ITS_OWN = "windlass-outputs"

# The output directory of a process outside of a trial, by process id. The directory stays the same
# if the process changes its working directory.
_own: dict[int, str] = {}


def output_dir() -> Path:
    """Create and return this replica's output directory. The files in it become artifacts of the
    trial.

    Every attempt of the replica has the same directory, so the files survive a restart.
    `trial.list_artifacts()` lists the files, and `trial.download_artifacts(folder)` downloads them,
    during the trial or later.

    Outside of a trial, the directory is `windlass-outputs` in the current directory. Windlass does
    not package `windlass-outputs`, and git ignores it. If `windlass-outputs` cannot be created, the
    function creates a temporary directory.

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
    """Create and return the folder for TensorBoard's files: `tensorboard` in `wl.output_dir()`.

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
