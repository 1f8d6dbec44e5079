"""Uploads checkpoints to the server.

A checkpoint exists on the server as soon as its record does. The agent therefore uploads the
missing files first and the record last. Because a pod's disk is small, the agent deletes what the
server has, except for the newest checkpoint, which the program may still read.
"""

from __future__ import annotations

import os
import sys

from windlass.worker.agent.http_channel import FileBody, Refused
from windlass.worker.blobs.digest import path_in_store
from windlass.worker.blobs.manifest import blobs_of, decode
from windlass.worker.blobs.verified_reads import read_blob
from windlass.worker.checkpoints import records as checkpoint_records
from windlass.worker.checkpoints import shards
from windlass.worker.common.atomic_files import remove_if_there, write_json
from windlass.worker.common.file_reads import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from windlass.worker.agent.http_channel import Channel

_SHIPPED = ".shipped"  # a file next to the checkpoints with the highest uploaded number
_AT_ONCE = 1000  # digests per request


def note_shipped(folder: str, number: int) -> None:
    """Record that the server has all checkpoints up to this number."""
    write_json(os.path.join(folder, _SHIPPED), {"upto": number}, durable=True)


class CheckpointUploads:
    """Uploads an attempt's checkpoints."""

    def __init__(self, channel: Channel, base: str, launch: dict[str, Any]) -> None:
        self._channel = channel
        self._base = base
        self._folder: str = launch["checkpoints"]
        self._blobs: str = launch["blobs"]
        noted = read_json(os.path.join(self._folder, _SHIPPED)) or {}
        self._upto = int(noted.get("upto") or 0)  # the highest number on the server
        self._done_with: set[str] = set()  # uploaded blobs that may be deleted here

    def ship_checkpoints(self, deadline: float | None = None) -> None:
        """Upload the checkpoints that the server lacks, oldest first."""
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
                pass  # the disk is full; the deletion below may free space for the next record
            self.forget_shipped(before=number)

    def ship_parts(self, deadline: float | None = None) -> None:
        """Upload the parts of sharded checkpoints that this machine saved."""
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
        """Upload a blob. The blob is not sent again if only the server's response was lost."""
        body = FileBody(path_in_store(self._blobs, digest))
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
        """Delete uploaded checkpoints with numbers below `before`, and blobs no longer needed."""
        import fcntl

        from windlass.worker.blobs.writer import LOCK

        if not before and not self._done_with:
            return
        fd = os.open(os.path.join(self._blobs, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                # A concurrent save may be reusing existing blobs. In that case, delete them later.
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return
            for number, record in checkpoint_records.records(self._folder):
                if number < before and "manifest" in record:
                    self._done_with.update(self._list_blobs(record))
                    remove_if_there(os.path.join(self._folder, f"{number}.json"))
            self._done_with.difference_update(self._needed())
            for digest in self._done_with:
                remove_if_there(path_in_store(self._blobs, digest))
            self._done_with.clear()
        finally:
            os.close(fd)

    def _needed(self) -> set[str]:
        """Return the digests of blobs that a local checkpoint or a part of a checkpoint needs.

        Parts of sharded checkpoints count only until they are uploaded.
        """
        kept = [record for _, record in checkpoint_records.records(self._folder)]
        kept += [part for _, part in shards.left(self._folder)]
        return {
            digest for record in kept if "manifest" in record for digest in self._list_blobs(record)
        }

    def _list_blobs(self, saved: Mapping[str, Any]) -> list[str]:
        manifest = saved["manifest"]
        return [*_listed(self._blobs, manifest), manifest]


def _refused(what: str, error: Refused) -> None:
    """Log that the server permanently rejects an upload, which `what` describes.

    Other uploads continue. If the server only lacks blobs, raise the error, so that the upload is
    retried.
    """
    if error.code == "missing_blobs":
        raise error
    sys.stderr.write(f"windlass: {what} could not be uploaded: {error}\n")


def _listed(blobs: str, manifest: str) -> list[str]:
    """Return the digests of the blobs that a checkpoint's manifest lists."""
    try:
        return list(blobs_of(decode(read_blob(blobs, manifest))))
    except (FileNotFoundError, ValueError, KeyError):
        return []
