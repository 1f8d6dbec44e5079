"""What agents bring of attempts that run elsewhere: written into the files that a local one has.

So everything that reads logs, metrics, checkpoints and ends knows of no difference. Whatever is
brought again is there already: bytes by their place in a file, blobs by their digest, checkpoints
by their uid, the end by being the first.
"""

from __future__ import annotations

import hashlib
import hmac
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
from windlass.model.wire import API
from windlass.runtimes import layout
from windlass.runtimes.attempts import AWAY
from windlass.server.blobs import BlobStore
from windlass.worker import checkpoints, shards
from windlass.worker.files import read_json, write_bytes, write_json_once
from windlass.worker.keeping import held
from windlass.worker.manifests import blobs_of, decode
from windlass.worker.metricfile import NAMES
from windlass.worker.nudge import CHECKPOINT, LOG, METRICS, STATE, send_once
from windlass.worker.restore import RestoreError, open_folder, read_tree
from windlass.worker.whereabouts import OUTPUTS

AGENTS = f"{API}/agents/"
GROWING = {layout.LOG: LOG, layout.METRICS: METRICS, NAMES: ""}  # and what is nudged about
LEFT_BEHIND = frozenset((layout.RESULT, layout.RESULT_TEXT, layout.ERROR, layout.ERROR_PICKLE))
EVICTED = "Evicted"
_LARGEST_STATE = 64 << 10
_LARGEST_MANIFEST = 64 << 20


def token_of(secret: str, uid: str) -> str:
    """The token of the agents of one trial: it opens what they may do, and nothing else.

    >>> token_of("hush", "c0ffee") == token_of("hush", "decade")
    False
    """
    return hmac.new(secret.encode(), f"agent:{uid}".encode(), hashlib.sha256).hexdigest()


class Piece(NamedTuple):
    """Bytes of one file, and where in it they begin."""

    name: str
    start: int
    data: bytes


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's part of a checkpoint, as it must be to be believed."""

    uid: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    name: Annotated[str, msgspec.Meta(max_length=4096, pattern=r"^(?!\.{1,2}\Z)[^/\x00]+\Z")]
    manifest: Digest
    step: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    rank: Annotated[int, msgspec.Meta(ge=0, lt=1_000_000)]
    ranks: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    metadata: dict[str, Any] = {}


class Away:
    """One attempt that runs elsewhere: its directory here, and who is told when it changes."""

    def __init__(self, home: Path, job: Job, replica: ReplicaId, nudge_path: str) -> None:
        self._home = home
        self._job = job
        self._replica = replica
        self._nudge_path = nudge_path
        self.path = layout.attempt_dir(home, job.trial_id, replica)

    @property
    def name(self) -> str:
        return str(self._replica)

    def check(self, *, may_have_ended: bool = False) -> dict[str, Any]:
        """The launch file, if it is still this attempt's turn to write."""
        launch = read_json(str(self.path / layout.LAUNCH))
        is_ours = launch is not None and (launch.get("key") or {}).get("uid") == self._job.uid
        if launch is None or not is_ours or not launch.get(AWAY):
            raise NotFound(f"Nobody asked for {self._replica} of trial {self._job.trial_id}.")
        newer = self.path.with_name(str(self._replica.attempt + 1))
        if (newer / layout.LAUNCH).exists():
            raise Conflict(f"A newer attempt has the place of {self._replica}.")
        if not may_have_ended and (self.path / layout.EXIT).exists():
            raise Conflict(f"{self._replica} has ended.")
        return launch

    def note_taken_up(self, facts: dict[str, Any]) -> None:
        """Write down that an agent has it: one that comes after it would do the same again."""
        write_json_once(str(self.path / layout.TAKEN_UP), facts)

    def take(self, parts: Sequence[Piece]) -> dict[str, int]:
        """Write what is new of some files; how much of each is here then."""
        sizes: dict[str, int] = {}
        about = set()
        with _turn_of(self.path):
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
        write_bytes(str(self.path / layout.STATE), data)

    def put_file(self, name: str, coming: Path) -> None:
        """Give a file that has come its name."""
        os.replace(coming, self.path / name)

    def put_output(self, place: str, coming: Path) -> None:
        """Put a file among those that are kept, through no link."""
        root = self.path.parent / OUTPUTS
        root.mkdir(mode=0o700, exist_ok=True)
        raw = os.fsencode(place)
        folder, _, name = raw.rpartition(b"/")
        if not raw or b"\0" in raw or not {b"", b".", b".."}.isdisjoint(raw.split(b"/")):
            raise InvalidArgument(f"{place[:200]!r} is no path below the outputs.")
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            inner = open_folder(top, folder)
            try:
                os.replace(coming, name, dst_dir_fd=inner)
            except OSError as error:
                raise InvalidArgument(f"{place[:200]!r} cannot be kept: {error}.") from error
            finally:
                os.close(inner)
        finally:
            os.close(top)

    def put_checkpoint(self, record: dict[str, Any], blobs: BlobStore) -> tuple[int, list[str]]:
        """Take in a checkpoint: its number, or what of it is missing."""
        with held(str(blobs.root)):  # nothing goes between the look and the record
            if missing := _missing_of(blobs, record["manifest"]):
                return 0, missing
            folder = str(layout.checkpoints_dir(self._home, self._job.trial_id))
            number = checkpoints.adopt(folder, record)
        self._nudge(CHECKPOINT)
        return number, []

    def put_part(self, part: Part, blobs: BlobStore) -> list[str]:
        """Take in one rank's part of a checkpoint; what of it is missing."""
        with held(str(blobs.root)):
            if missing := _missing_of(blobs, part.manifest):
                return missing
            self._add(part)
        self._nudge(CHECKPOINT)
        return []

    def _add(self, part: Part) -> None:
        role, index, attempt = self._replica.role, self._replica.index, self._replica.attempt
        folder = str(layout.checkpoints_dir(self._home, self._job.trial_id))
        saver = checkpoints.Saver(folder, role, index, attempt)
        told = {
            **saver.facts(),
            "name": part.name,
            "metadata": part.metadata,
            "manifest": part.manifest,
        }
        shards.add(saver, told, part.step, part.rank, part.ranks, uid=part.uid)

    def end(self, record: dict[str, Any], *, is_taken_away: bool = False) -> None:
        """Write how it ended, unless that is known.

        One that was told to end, and not by us, was taken away in the middle: whatever its program
        then left with is not its own end. Many save what they have, and leave with 0.
        """
        is_by_us = (self.path / layout.STOP).exists()
        if is_taken_away and record.get("reason") == STOPPED_BY_US and not is_by_us:
            told = {"exit_code": None, "signal": "", "reason": EVICTED}
            record = {**record, **told, "message": "its pod was taken away"}
        write_json_once(str(self.path / layout.EXIT), record)
        self._nudge(STATE)

    def orders(self) -> dict[str, Any]:
        """What the attempt is told, and a word by which that is known again."""
        stop = read_json(str(self.path / layout.STOP))
        trial = layout.trial_dir(self._home, self._job.trial_id)
        should_stop = read_json(str(trial / layout.SHOULD_STOP))
        told = {"stop": stop, "should_stop": should_stop}
        seen = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
        return {**told, "seen": seen}

    def newest_checkpoint(self) -> dict[str, Any] | None:
        """The record of the newest that the trial saved, with its number."""
        folder = str(layout.checkpoints_dir(self._home, self._job.trial_id))
        for number, record in checkpoints.records(folder):
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
        for each in sorted(filter(None, about)):
            send_once(json.dumps({**key, "about": each}).encode(), self._nudge_path)


def _append(path: Path, start: int, data: bytes) -> int:
    """Have these bytes at that place of a file that only grows; how long it is then.

    What is there already stays. Bytes that would leave a gap are not taken: the answer says where
    to go on.
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


_turns: dict[Path, threading.Lock] = {}
_turns_lock = threading.Lock()
_MOST_TURNS = 10_000


def _turn_of(path: Path) -> threading.Lock:
    """One writes at a time: a request that was repeated may be at work still."""
    with _turns_lock:
        if len(_turns) > _MOST_TURNS:
            for each in [each for each, lock in _turns.items() if not lock.locked()]:
                del _turns[each]
        return _turns.setdefault(path, threading.Lock())


def _missing_of(blobs: BlobStore, manifest: str) -> list[str]:
    """The blobs of a checkpoint's files that are not here; `InvalidArgument` if it is no list."""
    if blobs.missing([manifest]):
        return [manifest]
    if blobs.size(manifest) > _LARGEST_MANIFEST:
        raise InvalidArgument(f"The list of files {manifest[:12]} is too large.")
    data = blobs.get(manifest)
    try:
        read_tree(data)
    except RestoreError as error:
        why = f"The list of files {manifest[:12]} makes no sense: {error}."
        raise InvalidArgument(why) from None
    return blobs.missing(blobs_of(decode(data)))
