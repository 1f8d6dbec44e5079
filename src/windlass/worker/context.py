"""What a program can ask and do inside a trial. Outside of one it runs just the same."""

from __future__ import annotations

import os
from operator import index

from windlass.worker import checkpoints
from windlass.worker.family import MARKER
from windlass.worker.whereabouts import attempt_dir, trial_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import SupportsIndex


def rank() -> int:
    """Which of the job's replicas this is, from 0; 0 outside of a trial.

    Replicas of roles that only serve the others, as TensorFlow's `ps`, have no rank: -1.

    ```python
    if wl.rank() == 0:
        print("only one of us says so")
    ```
    """
    if "WINDLASS_TRIAL_ID" not in os.environ:
        return 0
    return int(os.environ.get("WINDLASS_RANK", "-1"))


def world_size() -> int:
    """How many replicas of the job have a rank; 1 outside of a trial.

    ```python
    mine = range(1000)[wl.rank() :: wl.world_size()]  # this replica's share of the work
    ```
    """
    if "WINDLASS_TRIAL_ID" not in os.environ:
        return 1
    return int(os.environ.get("WINDLASS_WORLD_SIZE", "1"))


def save_checkpoint(
    path: str | os.PathLike[str], *, step: SupportsIndex | None = None
) -> str | None:
    """Keep a copy of a file or a folder as the trial's newest checkpoint; the path of the copy.

    The copy is there whole or not at all, whatever happens meanwhile. It outlives the attempt and
    the trial, and `latest_checkpoint` finds it after a restart. `path` stays as it is.

    Every replica may call it: rank 0's is kept; in the others, and outside of a trial, nothing
    is done and the answer is None.

    ```python
    import json

    with open("model.json", "w") as file:
        json.dump({"weights": [0.1, 0.2]}, file)
    wl.save_checkpoint("model.json", step=100)
    ```
    """
    number = None if step is None else _whole(step)
    folder = _folder()
    if folder is None or not _is_keeper():
        return None
    of = {
        "step": number,
        "role": os.environ.get("WINDLASS_ROLE", ""),
        "index": int(os.environ.get("WINDLASS_INDEX", "0")),
        "attempt": int(os.environ.get("WINDLASS_ATTEMPT", "1")),
    }
    return checkpoints.save(folder, os.fspath(path), of)


def latest_checkpoint() -> str | None:
    """The path of the trial's newest checkpoint, a file or a folder as it was saved.

    None if none was saved yet, and outside of a trial.

    ```python
    saved = wl.latest_checkpoint()
    if saved is not None:
        print("going on from", saved)
    ```
    """
    folder = _folder()
    return None if folder is None else checkpoints.latest(folder)


def should_stop() -> bool:
    """Whether the program is to end by itself: save what it needs and return. A few microseconds.

    True once the trial was asked to (`trial.ask_to_stop()`, a search that gives up on it), and
    once this attempt is being stopped, for programs that outlive SIGTERM. False outside of a trial.

    ```python
    for step in range(1000):
        if wl.should_stop():
            break
    ```
    """
    marker = os.environ.get(MARKER, "")
    signs = _stop_signs.get(marker)
    if signs is None:
        trial, attempt = trial_dir(), attempt_dir()
        if trial is None or attempt is None:
            return False
        # The second is written before any signal is sent: no handler of ours is needed to tell.
        signs = (os.path.join(trial, "should_stop"), os.path.join(attempt, "stop.json"))
        _stop_signs[marker] = signs
    return os.access(signs[0], os.F_OK) or os.access(signs[1], os.F_OK)


_stop_signs: dict[str, tuple[str, str]] = {}  # what to look for, of the replica that this is


def _whole(step: SupportsIndex) -> int:
    """A whole number of any kind as Python's own: NumPy's and PyTorch's do not go into JSON."""
    try:
        return index(step)
    except TypeError:
        raise TypeError(f"step: {step!r} is no whole number") from None


def _folder() -> str | None:
    if "WINDLASS_TRIAL_ID" not in os.environ:
        return None
    return os.environ.get("WINDLASS_CHECKPOINTS")


def _is_keeper() -> bool:
    """Whether this is rank 0; of several processes that a launcher of its own started, the first.

    `torchrun` gives each of them its number on this machine.
    """
    return rank() == 0 and os.environ.get("LOCAL_RANK", "0") == "0"
