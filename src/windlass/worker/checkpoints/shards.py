"""Sharded checkpoints, in which each rank saves its own files.

The files of all ranks form one checkpoint. A rank's part is `.shards/<step>-<ranks>/<rank>.json` in
the trial's checkpoint folder, and names blobs. The rank that adds the last part creates the
checkpoint, which is invisible until then. A part is valid as long as the attempt that saved it is
its replica's newest.

If the ranks run on different machines, each rank leaves its part in its own folder. Its agent
uploads the part to the server, which creates the checkpoint. In that case, all ranks compute the
same checkpoint uid from values that they share.
"""

from __future__ import annotations

import json
import os

from windlass.worker.blobs.digest import path_in_store
from windlass.worker.blobs.manifest import decode, encode
from windlass.worker.blobs.restore_tree import read_tree
from windlass.worker.blobs.verified_reads import read_blob
from windlass.worker.checkpoints import records as checkpoint_records
from windlass.worker.common.atomic_files import is_locked, make_folder, write_bytes
from windlass.worker.common.errors import invalid
from windlass.worker.common.file_reads import is_folder, list_folder, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from windlass.worker.blobs.manifest import Entry
    from windlass.worker.blobs.writer import BlobWriter
    from windlass.worker.checkpoints.records import Saver

_SHARDS = ".shards"


def save(
    saver: Saver,
    path: str,
    step: int,
    metadata: Mapping[str, Any],
    rank: int,
    ranks: int,
    reported_step: int | None = None,
) -> str:
    """Save this rank's part of a step's checkpoint and return the checkpoint's uid."""
    from windlass.worker.blobs.writer import BlobWriter, held
    from windlass.worker.blobs.written_files import note_saved

    with held(saver.blobs), BlobWriter(saver.blobs, checkpoint_records.begin(saver)) as keeper:
        entries, statuses = checkpoint_records.keep_all(keeper, saver, path)
        part = {
            **saver.facts(),
            "name": checkpoint_records.name_of(path) if os.path.isdir(path) else f"step-{step}",
            "metadata": dict(metadata),
            "manifest": keeper.put(encode(entries)),
        }
        if reported_step is not None:
            part["reported_step"] = reported_step
        launch = read_json(os.path.join(_attempt(saver.folder, part), "launch.json")) or {}
        if launch.get("away"):
            uid = _leave(saver, launch, part, step, rank, ranks)
        else:
            uid = _add(keeper, saver, part, (step, rank, ranks), "")
    note_saved(saver.attempt_dir, statuses)  # the files now exist twice
    return uid


def add(
    saver: Saver, part: Mapping[str, Any], step: int, rank: int, ranks: int, *, uid: str
) -> None:
    """Add a part of a checkpoint from another machine. Its blobs must already be stored.

    Adding the same part again has no effect.
    """
    from windlass.worker.blobs.writer import BlobWriter, held

    with held(saver.blobs), BlobWriter(saver.blobs, checkpoint_records.begin(saver)) as keeper:
        _add(keeper, saver, part, (step, rank, ranks), uid)


def left(folder: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the parts of sharded checkpoints that are yet to be uploaded.

    Each part comes with the path of its file.
    """
    parts = []
    for step_folder in sorted(_step_folders(folder)):
        for rank, part in sorted(_read(step_folder).items()):
            if "uid" in part and rank >= 0:
                parts.append((os.path.join(step_folder, f"{rank}.json"), part))
    return parts


def _leave(
    saver: Saver, launch: Mapping[str, Any], part: dict[str, Any], step: int, rank: int, ranks: int
) -> str:
    """Write this rank's part of a checkpoint to a file, which the agent uploads.

    Return the checkpoint's uid, which is the same for all ranks.
    """
    from hashlib import sha256

    step_folder = os.path.join(saver.folder, _SHARDS, f"{step}-{ranks}")
    make_folder(step_folder, 0o700)
    with checkpoint_records.locked(saver.folder):
        counted = os.path.join(step_folder, f"{rank}.count")
        times = int((read_json(counted) or {}).get("times") or 0) + 1
        write_bytes(counted, json.dumps({"times": times}).encode())
        # If all ranks restart together, they save the step again under a new uid. A rank that
        # restarts alone uses the other ranks' uid.
        attempt = saver.attempt if launch.get("together") else 0
        what = f"{launch['key']['uid']}/{step}/{ranks}/{attempt}/{times}"
        uid = sha256(what.encode()).hexdigest()[:32]
        record = {**part, "uid": uid, "step": step, "rank": rank, "ranks": ranks}
        write_bytes(
            os.path.join(step_folder, f"{rank}.json"), json.dumps(record).encode(), durable=True
        )
    return uid


def _add(
    keeper: BlobWriter, saver: Saver, part: Mapping[str, Any], which: tuple[int, int, int], uid: str
) -> str:
    """Store one rank's part. If all other parts are stored, create the checkpoint.

    `which` is the step, the rank and the number of ranks. If `uid` is empty, the checkpoint gets a
    new uid. Return the checkpoint's uid.
    """
    from windlass.worker.blobs.writer import remove_tree

    step, rank, ranks = which
    make_folder(saver.folder, 0o700)
    entries = _entries(saver, part)
    with checkpoint_records.locked(saver.folder):
        step_folder = os.path.join(saver.folder, _SHARDS, f"{step}-{ranks}")
        parts = _parts(saver, step_folder)
        stored_uid = str(parts.pop(-1, {}).get("uid") or "")
        if uid and _is_whole(saver, uid):
            return uid
        if uid and stored_uid != uid:
            parts = {}  # these parts are from an earlier, incomplete save of this step
            remove_tree(step_folder)
        uid = uid or stored_uid
        if not uid or _is_whole(saver, uid):
            uid = os.urandom(16).hex()
        entries_of = {number: _entries(saver, part) for number, part in parts.items()}
        _refuse_clashes(saver.blobs, entries, rank, entries_of)
        make_folder(step_folder, 0o700)
        write_bytes(os.path.join(step_folder, "-1.json"), json.dumps({"uid": uid}).encode())
        text = json.dumps(part).encode()
        write_bytes(os.path.join(step_folder, f"{rank}.json"), text, durable=True)
        parts[rank], entries_of[rank] = dict(part), entries
        if parts.keys() >= set(range(ranks)):
            _make_whole(keeper, saver, uid, step, parts, entries_of)
            remove_tree(step_folder)
            _forget_before(saver.folder, step, ranks)
    return uid


def forget_dead(folder: str, attempt: int) -> None:
    """Remove checkpoint parts of ended attempts before all ranks restart together.

    `attempt` is the number of the attempts that are starting now. A part from an attempt with this
    number stays if that attempt is running or exited with code 0.
    """
    if not is_folder(os.path.join(folder, _SHARDS)):
        return
    with checkpoint_records.locked(folder):
        for step_folder in _step_folders(folder):
            for rank, part in _read(step_folder).items():
                its = _attempt(folder, part) if rank >= 0 else ""
                if not its or is_locked(os.path.join(its, "lock")):
                    continue
                code = (read_json(os.path.join(its, "exit.json")) or {}).get("exit_code")
                if part["attempt"] < attempt or code != 0:
                    os.unlink(os.path.join(step_folder, f"{rank}.json"))


def _is_whole(saver: Saver, uid: str) -> bool:
    """Return whether the checkpoint that has this uid already exists.

    This happens if the process that created it was killed before it could remove the parts.
    """
    return any(record.get("uid") == uid for _, record in checkpoint_records.records(saver.folder))


def _make_whole(
    keeper: BlobWriter,
    saver: Saver,
    uid: str,
    step: int,
    parts: Mapping[int, dict[str, Any]],
    entries_of: Mapping[int, list[Entry]],
) -> None:
    first = parts[0]
    metadata: dict[str, Any] = {}
    # in this order, rank 0's values replace those of other ranks
    for rank in sorted(parts, reverse=True):
        metadata.update(parts[rank]["metadata"])
    merged = {entry[0]: entry for entries in entries_of.values() for entry in entries}
    record = {
        "uid": uid,
        "name": first["name"],
        "is_folder": True,
        "step": step,
        "metadata": metadata,
        "shards": len(parts),
        **saver.facts(),
    }
    if first.get("reported_step") is not None:
        record["reported_step"] = first["reported_step"]
    checkpoint_records.put(keeper, saver.folder, record, [*merged.values()])


def _refuse_clashes(
    blobs: str, entries: list[Entry], rank: int, entries_of: Mapping[int, list[Entry]]
) -> None:
    """Raise an error if another rank has saved a different file under one of this rank's paths."""
    mine = {entry[0]: entry for entry in entries}
    for other, theirs in entries_of.items():
        if other == rank:
            continue
        for entry in theirs:
            path = entry[0]
            if not _is_same(blobs, mine.get(path, entry), entry):
                raise invalid(
                    f"{path!r} of rank {rank} differs from that of rank {other}, so "
                    "nothing of this part was stored.",
                    "Within one checkpoint the files need different names, such as "
                    f"{_example(path, rank)!r}.",
                )


def _is_same(blobs: str, one: Entry, other: Entry) -> bool:
    """Return whether two manifest entries have the same content.

    The entries may have different kinds of digests, and may be in bundles.
    """
    if one == other or one[1] != other[1] or one[3] != other[3]:
        return one == other
    if len(one) == len(other) == 4 and len(one[2]) == len(other[2]):
        return False
    if len(one) == len(other) == 4:
        from filecmp import cmp

        return cmp(path_in_store(blobs, one[2]), path_in_store(blobs, other[2]), shallow=False)
    return _small_content(blobs, one) == _small_content(blobs, other)


def _small_content(blobs: str, entry: Entry) -> bytes:
    with open(path_in_store(blobs, entry[2]), "rb") as file:
        file.seek(entry[4] if len(entry) > 4 else 0)
        return file.read(entry[3])


def _example(path: str, rank: int) -> str:
    stem, extension = os.path.splitext(path)
    return f"{stem}-{rank}{extension}"


def _entries(saver: Saver, part: Mapping[str, Any]) -> list[Entry]:
    manifest = read_blob(saver.blobs, part["manifest"])
    # the manifest may come from another machine, so raise an error if it is invalid
    read_tree(manifest)
    return decode(manifest)


def _parts(saver: Saver, step_folder: str) -> dict[int, dict[str, Any]]:
    """Return the valid parts of a checkpoint by rank.

    The entry with the key -1 contains the checkpoint's uid.
    """
    return {
        rank: part
        for rank, part in _read(step_folder).items()
        if rank < 0 or not is_folder(_attempt(saver.folder, part, later=1))
    }


def _read(step_folder: str) -> dict[int, dict[str, Any]]:
    parts: dict[int, dict[str, Any]] = {}
    for name in list_folder(step_folder):
        text = name[:-5] if name.endswith(".json") else ""
        part = read_json(os.path.join(step_folder, name)) if text.lstrip("-").isdecimal() else None
        if part is not None:
            parts[int(text)] = part
    return parts


def _attempt(folder: str, part: Mapping[str, Any], later: int = 0) -> str:
    replica = f"{part['role']}-{part['index']}"
    return os.path.join(os.path.dirname(folder), replica, str(part["attempt"] + later))


def _forget_before(folder: str, step: int, ranks: int) -> None:
    """Delete the checkpoint parts of earlier steps, because all ranks have saved a later step."""
    from windlass.worker.blobs.writer import remove_tree

    for step_folder in _step_folders(folder):
        earlier, _, of = os.path.basename(step_folder).rpartition("-")
        if of == str(ranks) and earlier.isdecimal() and int(earlier) < step:
            remove_tree(step_folder)


def _step_folders(folder: str) -> list[str]:
    top = os.path.join(folder, _SHARDS)
    return [os.path.join(top, name) for name in list_folder(top)]
