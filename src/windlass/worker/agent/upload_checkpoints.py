"""Upload checkpoints and kept files to the server: complete, in order, each once.

The server has a checkpoint once it has its record. The agent first uploads the files that the
server lacks. The disk of a pod is small, so the agent keeps only the newest checkpoint, which the
program may read, and no parts that the server has assembled.
"""

from __future__ import annotations

import os
import sys
from urllib.parse import quote

from windlass.worker.agent.http_channel import Changed, FileBody, Refused
from windlass.worker.blobs.digest import place_of
from windlass.worker.blobs.manifest import blobs_of, decode
from windlass.worker.checkpoints import records as checkpoint_records
from windlass.worker.checkpoints import shards
from windlass.worker.common.atomic_files import read_json, remove_if_there, write_json
from windlass.worker.common.own_attempt import OUTPUTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from windlass.worker.agent.http_channel import Channel

_SHIPPED = ".shipped"  # among the checkpoints: up to which number the server has them
_AT_ONCE = 1000  # digests that are asked about in one request


def note_shipped(folder: str, number: int) -> None:
    """Note that the server has the checkpoints up to that number."""
    write_json(os.path.join(folder, _SHIPPED), {"upto": number}, durable=True)


class Saved:
    """The checkpoints and outputs of an attempt, as far as the server has them."""

    def __init__(self, channel: Channel, base: str, launch: dict[str, Any]) -> None:
        self._channel = channel
        self._base = base
        self._folder: str = launch["checkpoints"]
        self._blobs: str = launch["blobs"]
        self._outputs = os.path.join(os.path.dirname(launch["work"]), OUTPUTS)
        noted = read_json(os.path.join(self._folder, _SHIPPED)) or {}
        self._upto = int(noted.get("upto") or 0)  # the number up to which the server has them
        self._sent: dict[str, tuple[int, int]] = {}  # outputs: size and time of what was sent
        self._done_with: set[str] = set()  # blobs that the server has, and that may go here

    def ship_checkpoints(self, deadline: float | None = None) -> None:
        """Have the server take in those it does not have, the oldest first."""
        for number, record in reversed(checkpoint_records.records(self._folder)):
            if number <= self._upto or number == 0 or "manifest" not in record:
                continue
            try:
                self._ship(record, deadline)
            except Refused as error:
                _refused(f"checkpoint {number}", error)
            self._upto = number
            try:
                note_shipped(self._folder, number)
            except OSError:
                pass  # a full disk: what goes now may make room for the next note
            self.forget_shipped(before=number)

    def ship_parts(self, deadline: float | None = None) -> None:
        """Have the server take in the parts of checkpoints that were saved here."""
        for path, part in shards.left(self._folder):
            try:
                self._ship_blobs(part["manifest"], deadline)
                self._channel.ask_json("POST", f"{self._base}/parts", part, deadline=deadline)
            except Refused as error:
                _refused(f"the part of the checkpoint of step {part.get('step')}", error)
            self._done_with.update(self._list_blobs(part))
            with checkpoint_records.locked(self._folder):
                if (read_json(path) or {}).get("uid") == part["uid"]:  # else it was saved again
                    remove_if_there(path)
        self.forget_shipped()

    def _ship(self, record: dict[str, Any], deadline: float | None) -> None:
        self._ship_blobs(record["manifest"], deadline)
        self._channel.ask_json("POST", f"{self._base}/checkpoints", record, deadline=deadline)

    def _ship_blobs(self, manifest: str, deadline: float | None) -> None:
        digests = self._list_blobs({"manifest": manifest})
        for start in range(0, len(digests), _AT_ONCE):
            for digest in self._missing(digests[start : start + _AT_ONCE], deadline):
                self._ship_blob(digest, deadline)

    def _ship_blob(self, digest: str, deadline: float | None) -> None:
        """Send a blob; one that came is not sent again because its answer was lost."""
        body = FileBody(place_of(self._blobs, digest))
        self._channel.send(
            self._base,
            f"blobs/{digest}",
            body,
            deadline=deadline,
            is_done=lambda: not self._missing([digest], deadline),
        )

    def _missing(self, digests: Sequence[str], deadline: float | None) -> list[str]:
        body = {"digests": digests}
        path = f"{self._base}/missing"
        missing = self._channel.ask_json("POST", path, body, deadline=deadline)["missing"]
        return list(missing)

    def forget_shipped(self, before: int = 0) -> None:
        """Keep here what a program may still ask for, or the server lacks: the rest goes.

        Of checkpoints that are those from that number on, and what they are made of.
        """
        import fcntl

        from windlass.worker.blobs.writer import LOCK

        if not before and not self._done_with:
            return
        fd = os.open(os.path.join(self._blobs, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                # One that is just being saved may find what it needs here: then another time.
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return
            for number, record in checkpoint_records.records(self._folder):
                if number < before and "manifest" in record:
                    self._done_with.update(self._list_blobs(record))
                    remove_if_there(os.path.join(self._folder, f"{number}.json"))
            self._done_with.difference_update(self._needed())
            for digest in self._done_with:
                remove_if_there(place_of(self._blobs, digest))
            self._done_with.clear()
        finally:
            os.close(fd)

    def _needed(self) -> set[str]:
        """The blobs of local checkpoints and of parts that are not uploaded yet."""
        kept = [record for _, record in checkpoint_records.records(self._folder)]
        kept += [part for _, part in shards.left(self._folder)]
        return {
            digest for record in kept if "manifest" in record for digest in self._list_blobs(record)
        }

    def _list_blobs(self, saved: Mapping[str, Any]) -> list[str]:
        manifest = saved["manifest"]
        return [*_listed(self._blobs, manifest), manifest]

    def ship_outputs(self, deadline: float | None = None) -> None:
        """Have the server take in the files that are new, or not what they were."""
        for path, seen in _files(self._outputs):
            place = os.path.relpath(path, self._outputs)
            stamp = (seen.st_size, seen.st_mtime_ns)
            if self._sent.get(place) == stamp:
                continue
            try:
                body = FileBody(path)
                where = f"outputs?path={quote(os.fsencode(place), safe='')}"
                self._channel.send(self._base, where, body, deadline=deadline)
            except (FileNotFoundError, Changed):
                continue  # it was removed or written meanwhile: another time, if it is there
            except Refused as error:
                _refused(f"the output {place!a}", error)
            self._sent[place] = stamp


def _refused(what: str, error: Refused) -> None:
    """Say of something that the server will not have it, ever, and let the rest go on.

    Blobs that went missing there are brought another time.
    """
    if error.code == "missing_blobs":
        raise error
    sys.stderr.write(f"windlass: {what} could not be handed over: {error}\n")


def _listed(blobs: str, manifest: str) -> list[str]:
    """The digests that a manifest names."""
    try:
        with open(place_of(blobs, manifest), "rb") as file:
            return list(blobs_of(decode(file.read())))
    except (OSError, ValueError, KeyError):
        return []


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Plain files below a folder, through no link."""
    try:
        entries: Iterable[os.DirEntry[str]] = sorted(os.scandir(folder), key=lambda e: e.name)
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path, entry.stat(follow_symlinks=False)
        except OSError:
            continue  # it went meanwhile
