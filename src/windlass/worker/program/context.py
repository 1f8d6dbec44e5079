"""Functions that a program calls inside a trial. They also work outside of trials."""

from __future__ import annotations

import os
from operator import index

from windlass.worker.checkpoints import records as checkpoint_records
from windlass.worker.common.errors import invalid, shown, wrong_type
from windlass.worker.common.file_reads import exists, is_folder
from windlass.worker.common.own_attempt import attempt_dir, replica, trial_dir
from windlass.worker.common.process_tree import MARKER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, SupportsIndex

_MOST_METADATA = 100
_ODD = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
_LARGEST_METADATA = 64 << 10


def rank() -> int:
    """Return this replica's rank, counted from 0. Outside of a trial, return 0.

    Replicas of service roles, such as TensorFlow's `ps`, have the rank -1.

    ```python
    if wl.rank() == 0:
        print("printed once")
    ```
    """
    if "WINDLASS_TRIAL_ID" not in os.environ:
        return 0
    return int(os.environ.get("WINDLASS_RANK", "-1"))


def world_size() -> int:
    """Return the number of replicas with a rank. Outside of a trial, return 1.

    ```python
    mine = range(1000)[wl.rank() :: wl.world_size()]  # this replica's share of the work
    ```
    """
    if "WINDLASS_TRIAL_ID" not in os.environ:
        return 1
    return int(os.environ.get("WINDLASS_WORLD_SIZE", "1"))


def save_checkpoint(
    path: str | os.PathLike[str],
    *,
    step: SupportsIndex | None = None,
    metadata: Mapping[str, Any] | None = None,
    shard: bool | tuple[int, int] = False,
) -> str | None:
    """Save a file or folder as the trial's newest checkpoint and return the checkpoint's uid.

    A checkpoint is stored completely or not at all. It outlives both the attempt and the trial:
    `latest_checkpoint` finds it after a restart, and `wl.get_checkpoint(uid)` finds it on any
    machine. Saving does not change `path`. Files that are unchanged since the previous checkpoint
    are not stored again. If files change during the save, an error is raised and nothing is stored.

    Every replica can call this function, but only rank 0 saves. In all other ranks, outside of a
    trial, and after the trial's end, the function does nothing and returns None.

    ```python
    import json

    with open("model.json", "w") as file:
        json.dump({"weights": [0.1, 0.2]}, file)
    wl.save_checkpoint("model.json", step=100, metadata={"note": "warm"})
    ```

    Args:
        path: the file or folder to save.
        step: the training step. The checkpoint shows the metrics as of this step.
        metadata: a mapping from names to JSON values.
        shard: True if every rank saves its own files. All ranks must then pass the same `step` and
            use different file names. Their files form one checkpoint, which exists once the last
            rank has saved. Alternatively, a pair of a part's number, counted from 0, and the number
            of parts: `shard=(0, 4)`.
    """
    number = None if step is None else _step(step)
    noted = _metadata(metadata)
    part = _part(shard)
    if part is not None and number is None:
        raise invalid(
            "shard: parts are combined by their step, but step is not set.",
            "Pass step=..., the same in every rank.",
        )
    saver = _saver()
    if saver is None or (part is None and not _is_keeper()) or _is_over():
        return None
    source = _path(path)
    try:
        if part is None or number is None:
            uid = checkpoint_records.save(saver, source, number, noted, _reported_step())
        else:
            from windlass.worker.checkpoints import shards

            uid = shards.save(saver, source, number, noted, *part, _reported_step())
    except (OSError, RuntimeError):  # also raised if the store was deleted
        if not _is_over():
            raise
        return None  # the trial is over, and the server has deleted its unfinished files
    _tell(saver)
    return uid


def latest_checkpoint() -> str | None:
    """Return the path of a copy of the trial's newest checkpoint, or None if there is none.

    The copy is a file or folder, as it was saved, and the program can change it. It exists until
    the attempt ends or a later call returns a newer checkpoint. A trial that continues another
    trial starts with that trial's checkpoint. Outside of a trial, this function returns None.

    ```python
    saved = wl.latest_checkpoint()
    if saved is not None:
        print("going on from", saved)
    ```
    """
    saver = _saver()
    if saver is None or not is_folder(saver.folder):
        return None
    from windlass.worker.checkpoints import copies as checkpoint_copies

    restored = os.environ.get("WINDLASS_CHECKPOINT")
    try:
        path = checkpoint_copies.latest(saver, restored=restored)
    except OSError:
        if not _is_over():
            raise
        return None
    checkpoint_copies.forget_others(saver, restored)
    if path is not None:
        _continue_steps(saver, path)
    return path


def _continue_steps(saver: checkpoint_records.Saver, copy: str) -> None:
    """Let reports that state no step continue after the step of a restored checkpoint."""
    number = os.path.basename(os.path.dirname(copy)).partition("-")[0]
    record = checkpoint_records.read_record(saver.folder, int(number)) if number.isdecimal() else {}
    step = (record or {}).get("reported_step", (record or {}).get("step"))
    if isinstance(step, int):
        from windlass.worker.program.report import continue_after

        continue_after(step)


def should_stop() -> bool:
    """Return whether the program should save its state and end. This takes a few microseconds.

    The result is True after a call of `trial.ask_to_stop()`, after a search has stopped the trial
    early, and while Windlass is stopping the attempt, which helps programs that ignore SIGTERM.
    Outside of a trial, the result is False.

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
        # The second file is written before any signal is sent, so no signal handler is needed.
        signs = (os.path.join(trial, "should_stop"), os.path.join(attempt, "stop.json"))
        _stop_signs[marker] = signs
    return os.access(signs[0], os.F_OK) or os.access(signs[1], os.F_OK)


_stop_signs: dict[str, tuple[str, str]] = {}  # the files that request a stop, by replica


def _step(step: SupportsIndex) -> int:
    """Convert a checkpoint's step to an int, because JSON cannot encode NumPy integers."""
    try:
        number = index(step)
    except TypeError:
        raise wrong_type(
            f"step: {shown(step)} is not a whole number.", "Count from 0: step=0, step=1."
        ) from None
    if not 0 <= number < 2**63:
        raise invalid(
            f"step: {shown(number)} is not between 0 and 2^63 - 1.", "Count from 0: step=0, step=1."
        )
    return number


def _reported_step() -> int | None:
    from windlass.worker.program.report import reported_step

    return reported_step()


def _path(path: str | os.PathLike[str]) -> str:
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise wrong_type(
            f"path: {shown(path)} is not a path.", 'Write a string or a pathlib.Path: "model.pt".'
        ) from None
    if "\0" in text:
        raise invalid(f"path: {shown(path)} is not a path.", "Remove the NUL character.")
    return text


def _metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return checkpoint metadata as JSON values. Raise an error if this is impossible."""
    try:
        noted: dict[Any, Any] = dict(metadata or {})
    except (TypeError, ValueError):
        raise wrong_type(
            f"metadata: {shown(metadata)} is not a mapping.",
            'Write names with JSON values: metadata={"note": "warm"}.',
        ) from None
    if not noted:
        return noted
    import json

    try:
        # NaN and infinities, which JSON lacks, become strings. NumPy and PyTorch numbers become
        # plain numbers.
        plain = json.dumps(noted, default=_item, ensure_ascii=False)
        kept: dict[str, Any] = json.loads(plain, parse_constant=_ODD.get)
        text = json.dumps(kept, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong_type(
            f"metadata: it cannot be converted to JSON: {str(error)[:200]}.",
            "Use strings, numbers, lists and mappings with string keys. Save other values "
            "as a file.",
        ) from None
    wrong = [name for name in noted if not isinstance(name, str) or not 0 < len(name) <= 200]
    if wrong or len(noted) > _MOST_METADATA or len(text) > _LARGEST_METADATA:
        odd = (
            f"{shown(wrong[0])} is not a valid name"
            if wrong
            else f"{len(noted)} names, {len(text)} bytes"
        )
        raise invalid(
            f"metadata: {odd}; at most {_MOST_METADATA} names of 1 to 200 characters are allowed, "
            f"and {_LARGEST_METADATA} bytes in all.",
            "Save larger values as a file.",
        )
    return kept


def _item(value: Any) -> Any:
    if not hasattr(value, "item"):
        raise TypeError(shown(value))
    return value.item()


def _part(shard: bool | tuple[int, int]) -> tuple[int, int] | None:
    """Return the number of this process's checkpoint part, and the number of parts.

    Return None if one replica saves the whole checkpoint. A launcher such as `torchrun` can set
    both numbers.
    """
    if shard is False:
        return None
    if shard is True:
        named = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        if all(os.environ.get(name, "").isdecimal() for name in named):
            return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        part = (rank(), world_size())
        if part[0] < 0:
            raise invalid(
                "shard: a replica of a service role has no rank, so it cannot save a part.",
                "Save only if wl.rank() >= 0.",
            )
        return part
    try:
        number, of = map(index, shard)
    except (TypeError, ValueError):
        raise wrong_type(
            f"shard: {shown(shard)} is neither True nor a pair (part, number of parts).",
            "shard=True saves the part of this rank. shard=(0, 4) saves the first of four parts.",
        ) from None
    if not 0 <= number < of:
        raise invalid(f"shard: there is no part {number} of {of}.", "The first is 0: shard=(0, 4).")
    return number, of


def _saver() -> checkpoint_records.Saver | None:
    """Return this attempt as a saver of checkpoints, or None outside of a trial."""
    folder = os.environ.get("WINDLASS_CHECKPOINTS")
    if "WINDLASS_TRIAL_ID" not in os.environ or folder is None:
        return None
    return checkpoint_records.Saver(
        folder,
        os.environ.get("WINDLASS_ROLE", "main"),
        int(os.environ.get("WINDLASS_INDEX", "0")),
        int(os.environ.get("WINDLASS_ATTEMPT", "1")),
    )


def _is_over() -> bool:
    """Return whether this attempt has ended although this process is still running.

    A process that Windlass did not start keeps running when its trial is stopped or deleted.
    """
    attempt = attempt_dir()
    if attempt is None:
        return False
    return exists(os.path.join(attempt, "exit.json")) or not is_folder(attempt)


def _tell(saver: checkpoint_records.Saver) -> None:
    """Notify the server of a new checkpoint.

    If the notification is lost, the server finds the checkpoint when the attempt ends.
    """
    own, trial = replica(), trial_dir()
    if own is None or trial is None:
        return
    import json

    from windlass.worker.common.nudge import CHECKPOINT, ServerAddress, send_once

    key = {"uid": own[0], "trial_id": int(os.environ["WINDLASS_TRIAL_ID"]), **saver.facts()}
    home = os.path.dirname(os.path.dirname(trial))
    address = ServerAddress(os.path.join(home, "server.json")).find()
    send_once(json.dumps({**key, "about": CHECKPOINT}).encode(), address)


def _is_keeper() -> bool:
    """Return whether this process saves the trial's checkpoints.

    Only rank 0 does. If a launcher such as `torchrun` starts several processes for rank 0, only the
    process with local rank 0 saves.
    """
    return rank() == 0 and os.environ.get("LOCAL_RANK", "0") == "0"
