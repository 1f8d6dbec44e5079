"""Output directory of a program: a folder of its replica, the same in every attempt.

The files are artifacts from the moment they are written. Nothing is copied when the trial ends, so
a kill at that time loses nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.worker.common.atomic_files import make_folder
from windlass.worker.common.own_attempt import OUTPUTS, replica, trial_dir

TENSORBOARD = "tensorboard"  # below the outputs
_ON_ITS_OWN = "windlass-outputs"

# By process: the folder outside of a trial, even if the process changes its directory.
_own: dict[int, str] = {}


def output_dir() -> Path:
    """Return a folder of this replica, whose files become artifacts of the trial.

    The folder exists and is the same in every attempt, so the files survive a restart. List
    and download the files during the trial or later, with `trial.list_artifacts()` and
    `trial.download_artifacts(folder)`.

    Outside of a trial it is `windlass-outputs` in the current directory, which Windlass does not
    package and git ignores, or a temporary folder if that cannot be created.

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

    `windlass tensorboard 7` shows the files of every replica, also while they are written.

    ```python
    print("to be given to SummaryWriter:", wl.tensorboard_dir())
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
