"""Stores uploads from agents, which run attempts on remote machines and send the attempts' files.

The data is written to the same files that a local attempt writes, so readers of logs, metrics,
checkpoints and exit records see no difference. An agent may repeat any upload. Bytes are identified
by their position in a file, blobs by their digest, and checkpoints by their uid. Only the first
exit record counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from windlass.engine.slots import STOPPED_BY_US
from windlass.model.errors import Conflict, InvalidArgument, NotFound
from windlass.model.job import Digest, Job
from windlass.model.status import ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.local.attempt import REMOTE
from windlass.server.stores.blobs.base import BlobStore
from windlass.worker.blobs.manifest import blobs_of, decode
from windlass.worker.blobs.restore_tree import RestoreError, open_folder, read_tree
from windlass.worker.checkpoints import records as checkpoint_records
from windlass.worker.checkpoints import shards
from windlass.worker.common.atomic_files import write_bytes, write_json_once
from windlass.worker.common.file_reads import exists, read_json
from windlass.worker.common.metrics_file import NAMES
from windlass.worker.common.nudge import CHECKPOINT, LOG, METRICS, STATE, send_once
from windlass.worker.common.own_attempt import OUTPUTS

# The growing files, and the topic of the notification that is sent after new data.
GROWING = {paths.LOG: LOG, paths.METRICS: METRICS, NAMES: ""}
LEFT_BEHIND = frozenset((paths.RESULT, paths.RESULT_TEXT, paths.ERROR, paths.ERROR_PICKLE))
EVICTED = "Evicted"
_LARGEST_STATE = 64 << 10


class LogPiece(NamedTuple):
    """A range of a file: its bytes and their offset."""

    name: str
    start: int
    data: bytes


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Validated data about one rank's part of a checkpoint."""

    uid: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    name: Annotated[str, msgspec.Meta(max_length=4096, pattern=r"^(?!\.{1,2}\Z)[^/\x00]+\Z")]
    manifest: Digest
    step: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    rank: Annotated[int, msgspec.Meta(ge=0, lt=1_000_000)]
    ranks: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    metadata: dict[str, Any] = {}
    reported_step: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None


class RemoteAttemptFiles:
    """The server's copies of a remote attempt's files.

    Every change also wakes the threads that read the files.
    """

    def __init__(self, home: Path, job: Job, replica: ReplicaId, nudge_path: str) -> None:
        self._home = home
        self._job = job
        self._replica = replica
        self._nudge_path = nudge_path
        self.path = paths.attempt_dir(home, job.trial_id, replica)

    @property
    def name(self) -> str:
        return str(self._replica)

    def check(self, *, may_have_ended: bool = False) -> dict[str, Any]:
        """Return the launch file of this attempt.

        Raise an error if the attempt is no longer permitted to write.
        """
        launch = read_json(str(self.path / paths.LAUNCH))
        is_ours = launch is not None and (launch.get("key") or {}).get("uid") == self._job.uid
        if launch is None or not is_ours or not launch.get(REMOTE):
            raise NotFound(
                f"The server did not request {self._replica} of trial {self._job.trial_id}."
            )
        newer = self.path.with_name(str(self._replica.attempt + 1))
        if exists(newer / paths.LAUNCH):
            raise Conflict(f"A newer attempt replaces {self._replica}.")
        if not may_have_ended and exists(self.path / paths.EXIT):
            raise Conflict(f"{self._replica} has ended.")
        return launch

    def note_taken_up(self, facts: dict[str, Any]) -> None:
        """Record that an agent runs this attempt, so that no second agent starts it."""
        write_json_once(str(self.path / paths.TAKEN_UP), facts)

    def take(self, parts: Sequence[LogPiece]) -> dict[str, int]:
        """Write uploaded pieces of the attempt's files.

        Return the new size of each of these files.
        """
        sizes: dict[str, int] = {}
        about = set()
        with _lock_for(self.path):
            for part in parts:
                if part.name in GROWING:
                    sizes[part.name] = _append(self.path / part.name, part.start, part.data)
                    about.add(GROWING[part.name])
                else:
                    self._take_state(part.data)
                    about.add(STATE)
        self._nudge(*about)
        return sizes

    def _take_state(self, data: bytes) -> None:
        if len(data) > _LARGEST_STATE:
            raise InvalidArgument("The state is too long.")
        write_bytes(str(self.path / paths.STATE), data)

    def put_file(self, name: str, incoming: Path) -> None:
        """Move an uploaded file of the attempt to its final name."""
        os.replace(incoming, self.path / name)

    def put_output(self, location: str, incoming: Path) -> None:
        """Move an uploaded file to the output folder without following links there."""
        root = self.path.parent / OUTPUTS
        root.mkdir(mode=0o700, exist_ok=True)
        raw = os.fsencode(location)
        folder, _, name = raw.rpartition(b"/")
        if not raw or b"\0" in raw or not {b"", b".", b".."}.isdisjoint(raw.split(b"/")):
            raise InvalidArgument(f"{location[:200]!r} is not a path below the outputs.")
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            inner = open_folder(top, folder)
            try:
                os.replace(incoming, name, dst_dir_fd=inner)
            except OSError as error:
                raise InvalidArgument(f"{location[:200]!r} cannot be stored: {error}.") from error
            finally:
                os.close(inner)
        finally:
            os.close(top)

    def put_checkpoint(self, record: dict[str, Any], blobs: BlobStore) -> tuple[int, list[str]]:
        """Store a checkpoint and return its number. If blobs are missing, return their digests."""
        with blobs.held():  # no blob may be deleted between the check and writing the record
            if missing := _find_missing(blobs, record["manifest"]):
                return 0, missing
            folder = str(paths.checkpoints_dir(self._home, self._job.trial_id))
            number = checkpoint_records.adopt(folder, record)
        self._nudge(CHECKPOINT)
        return number, []

    def put_part(self, part: Part, blobs: BlobStore) -> list[str]:
        """Store one rank's part of a checkpoint, or return the digests of missing blobs."""
        with blobs.held():
            if missing := _find_missing(blobs, part.manifest):
                return missing
            self._add(part)
        self._nudge(CHECKPOINT)
        return []

    def _add(self, part: Part) -> None:
        role, index, attempt = self._replica.role, self._replica.index, self._replica.attempt
        folder = str(paths.checkpoints_dir(self._home, self._job.trial_id))
        saver = checkpoint_records.Saver(folder, role, index, attempt)
        shard = {
            **saver.facts(),
            "name": part.name,
            "metadata": part.metadata,
            "manifest": part.manifest,
            "reported_step": part.reported_step,
        }
        shards.add(saver, shard, part.step, part.rank, part.ranks, uid=part.uid)

    def end(self, record: dict[str, Any], *, is_taken_away: bool = False) -> None:
        """Write the attempt's exit record, unless there is one already.

        If the runtime stopped the agent, the exit code does not count, because many programs then
        save their state and exit with code 0.
        """
        is_by_us = exists(self.path / paths.STOP)
        if is_taken_away and record.get("reason") == STOPPED_BY_US and not is_by_us:
            outcome = {"exit_code": None, "signal": "", "reason": EVICTED}
            record = {**record, **outcome, "message": "its pod was taken away"}
        write_json_once(str(self.path / paths.EXIT), record)
        self._nudge(STATE)

    def orders(self) -> dict[str, Any]:
        """Return the orders for the attempt's agent, and a digest that identifies these orders."""
        stop = read_json(str(self.path / paths.STOP))
        trial = paths.trial_dir(self._home, self._job.trial_id)
        should_stop = read_json(str(trial / paths.SHOULD_STOP))
        orders = {"stop": stop, "should_stop": should_stop}
        seen = hashlib.sha256(json.dumps(orders, sort_keys=True).encode()).hexdigest()[:16]
        return {**orders, "seen": seen}

    def newest_checkpoint(self) -> dict[str, Any] | None:
        """Return the record and number of the trial's newest checkpoint, or None if none exists."""
        folder = str(paths.checkpoints_dir(self._home, self._job.trial_id))
        for number, record in checkpoint_records.records(folder):
            if number and "manifest" in record:
                return {**record, "number": number}
        return None

    def _nudge(self, *about: str) -> None:
        key = {
            "uid": self._job.uid,
            "trial_id": self._job.trial_id,
            "role": self._replica.role,
            "index": self._replica.index,
            "attempt": self._replica.attempt,
        }
        for topic in sorted(filter(None, about)):
            send_once(json.dumps({**key, "about": topic}).encode(), self._nudge_path)


def _append(path: Path, start: int, data: bytes) -> int:
    """Write bytes at an offset of a growing file, and return the file's size.

    Existing bytes do not change. If the offset is beyond the end of the file, nothing is written,
    and the returned size tells the agent where to continue.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        if start > size:
            return size
        new = memoryview(data)[size - start :]
        while new:
            written = os.write(fd, new)
            new = new[written:]
            size += written
        return size
    finally:
        os.close(fd)


_locks: dict[Path, threading.Lock] = {}
_locks_lock = threading.Lock()
_MOST_LOCKS = 10_000


def _lock_for(path: Path) -> threading.Lock:
    """Return the lock that a request holds while it writes to a file.

    A repetition of the same request might run at the same time.
    """
    with _locks_lock:
        if len(_locks) > _MOST_LOCKS:
            for idle_path in [idle_path for idle_path, lock in _locks.items() if not lock.locked()]:
                del _locks[idle_path]
        return _locks.setdefault(path, threading.Lock())


def _find_missing(blobs: BlobStore, manifest: str) -> list[str]:
    """Return the digests of the blobs that a manifest lists but the server lacks.

    Raise `InvalidArgument` if the manifest is invalid.
    """
    if blobs.missing([manifest]):
        return [manifest]
    try:
        data = blobs.get(manifest)
        read_tree(data)
    except FileNotFoundError:  # the manifest is damaged
        return [manifest]
    except (RestoreError, ValueError) as error:  # ValueError means that the manifest is too large
        why = f"The list of files {manifest[:12]} is not valid: {error}."
        raise InvalidArgument(why) from None
    entries = decode(data)
    missing = blobs.missing(blobs_of(entries))
    if not missing and not all(_has_stated_size(blobs, entry) for entry in entries):
        raise InvalidArgument(f"The list of files {manifest[:12]} states wrong sizes.")
    return missing


def _has_stated_size(blobs: BlobStore, entry: tuple[Any, ...]) -> bool:
    _, mode, digest, size, *place = entry
    if mode not in ("f", "x"):
        return True
    actual = blobs.size(digest)
    return bool(place[0] + size <= actual if place else size == actual)
