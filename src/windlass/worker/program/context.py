"""Functions that a program calls inside a trial. Outside of a trial they also work."""

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
    path: str | os.PathLike[str],
    *,
    step: SupportsIndex | None = None,
    metadata: Mapping[str, Any] | None = None,
    shard: bool | tuple[int, int] = False,
) -> str | None:
    """Keep a file or a folder, as it is now, as the trial's newest checkpoint; its uid.

    It is there whole or not at all, whatever happens meanwhile. It outlives the attempt and the
    trial, `latest_checkpoint` finds it after a restart, and `wl.get_checkpoint(uid)` from
    anywhere. `path` stays as it is. Files that have not changed since the last one are stored
    once. What changes while it is saved is refused, and nothing is kept.

    Every replica may call it: rank 0's is kept; in the others, outside of a trial, and when the
    trial is over already, nothing is done and the answer is None.

    ```python
    import json

    with open("model.json", "w") as file:
        json.dump({"weights": [0.1, 0.2]}, file)
    wl.save_checkpoint("model.json", step=100, metadata={"note": "warm"})
    ```

    Args:
        path: the file or folder.
        step: how far training is: metrics reported at it, or last before, are the checkpoint's.
        metadata: what to note on it: anything that JSON can say, by name.
        shard: True if every rank saves files of its own (give a `step`, the same in all of them):
            together they are one checkpoint, which is there once the last has saved. Their files
            need different names. A pair says which part this is, of how many: `shard=(0, 4)`.
    """
    number = None if step is None else _step(step)
    noted = _metadata(metadata)
    part = _part(shard)
    if part is not None and number is None:
        raise invalid(
            "shard: parts are put together by their step, and none is given.",
            "Say step=..., the same in every rank.",
        )
    saver = _saver()
    if saver is None or (part is None and not _is_keeper()) or _is_over():
        return None
    source = _path(path)
    try:
        if part is None or number is None:
            uid = checkpoint_records.save(saver, source, number, noted)
        else:
            from windlass.worker.checkpoints import shards

            uid = shards.save(saver, source, number, noted, *part)
    except (OSError, RuntimeError):  # files of the store that vanish look like a changed source
        if not _is_over():
            raise
        return None  # the trial is over, and the server has deleted its unfinished files
    _tell(saver)
    return uid


def latest_checkpoint() -> str | None:
    """The path of the trial's newest checkpoint, a file or a folder as it was saved.

    None if none was saved yet, and outside of a trial. A trial that goes on from another begins
    with the checkpoint of that. What is at the path is a copy, to do with as you like; it stays
    until the attempt ends, or a newer checkpoint is asked for.

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
    return path


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


def _step(step: SupportsIndex) -> int:
    """A whole number of any kind as Python's own: NumPy's and PyTorch's do not go into JSON."""
    try:
        number = index(step)
    except TypeError:
        raise wrong_type(
            f"step: {shown(step)} is no whole number.", "Count from 0: step=0, step=1."
        ) from None
    if not 0 <= number < 2**63:
        raise invalid(
            f"step: {shown(number)} is not from 0 to 2^63 - 1.", "Count from 0: step=0, step=1."
        )
    return number


def _path(path: str | os.PathLike[str]) -> str:
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise wrong_type(
            f"path: {shown(path)} is no path.", 'A text or a pathlib.Path is: "model.pt".'
        ) from None
    if "\0" in text:
        raise invalid(f"path: {shown(path)} is no path.", "No file has a null character in it.")
    return text


def _metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """The metadata of a checkpoint as JSON values; refuse metadata that JSON cannot represent."""
    try:
        noted: dict[Any, Any] = dict(metadata or {})
    except (TypeError, ValueError):
        raise wrong_type(
            f"metadata: {shown(metadata)} is no mapping.",
            'Say what JSON can say, by name: metadata={"note": "warm"}.',
        ) from None
    if not noted:
        return noted
    import json

    try:
        # Values that are not JSON numbers become texts. Numbers of NumPy and PyTorch become their
        # values.
        plain = json.dumps(noted, default=_item, ensure_ascii=False)
        kept: dict[str, Any] = json.loads(plain, parse_constant=_ODD.get)
        text = json.dumps(kept, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong_type(
            f"metadata: JSON cannot say it: {str(error)[:200]}.",
            "Texts, numbers, lists and mappings by text can be noted; save others as a file.",
        ) from None
    wrong = [name for name in noted if not isinstance(name, str) or not 0 < len(name) <= 200]
    if wrong or len(noted) > _MOST_METADATA or len(text) > _LARGEST_METADATA:
        odd = f"{shown(wrong[0])} is no name" if wrong else f"{len(noted)} names, {len(text)} bytes"
        raise invalid(
            f"metadata: {odd}; at most {_MOST_METADATA} names of 1 to 200 characters can be noted, "
            f"and {_LARGEST_METADATA} bytes in all.",
            "Save what is larger as a file.",
        )
    return kept


def _item(value: Any) -> Any:
    if not hasattr(value, "item"):
        raise TypeError(shown(value))
    return value.item()


def _part(shard: bool | tuple[int, int]) -> tuple[int, int] | None:
    """The part and the number of parts; a launcher like `torchrun` may set them."""
    if shard is False:
        return None
    if shard is True:
        named = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        if all(os.environ.get(name, "").isdecimal() for name in named):
            return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        part = (rank(), world_size())
        if part[0] < 0:
            raise invalid(
                "shard: a replica that serves the others has no rank, and no part.",
                "Save from the ranks alone: if wl.rank() >= 0.",
            )
        return part
    try:
        number, of = map(index, shard)
    except (TypeError, ValueError):
        raise wrong_type(
            f"shard: {shown(shard)} is neither True nor (part, of how many).",
            "With shard=True it is this rank's part; shard=(0, 4) is the first of four.",
        ) from None
    if not 0 <= number < of:
        raise invalid(f"shard: there is no part {number} of {of}.", "The first is 0: shard=(0, 4).")
    return number, of


def _saver() -> checkpoint_records.Saver | None:
    """This very attempt, by which what it saves is known; none outside of a trial."""
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
    """Return whether this attempt has ended although this process still runs.

    This happens to a process that Windlass did not start, when its trial is stopped or deleted.
    """
    attempt = attempt_dir()
    if attempt is None:
        return False
    return exists(os.path.join(attempt, "exit.json")) or not is_folder(attempt)


def _tell(saver: checkpoint_records.Saver) -> None:
    """Nudge the server. If the nudge is lost, the server reads the files at the attempt's end."""
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
    """Return whether this is rank 0, and the first of the processes of a launcher like `torchrun`.

    `torchrun` gives each of them its number on this machine.
    """
    return rank() == 0 and os.environ.get("LOCAL_RANK", "0") == "0"
