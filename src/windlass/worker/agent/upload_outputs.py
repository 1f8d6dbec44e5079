"""Uploads the files that a program writes: output files, and files in its working folder.

While the program runs, the agent uploads output files and TensorBoard events. It uploads all other
files in the working folder, and the files above the project, when the program has ended. On the
server, all of them are in the output folder.
"""

from __future__ import annotations

import os
import sys
from urllib.parse import quote

from windlass.worker.agent.http_channel import Changed, FileBody, Refused
from windlass.worker.blobs.written_files import (
    PARENT,
    WORK,
    LeftOut,
    entries_above,
    is_data,
    is_ignored,
    walk,
)
from windlass.worker.common.own_attempt import OUTPUTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from windlass.worker.agent.http_channel import Channel

_EVENTS = b"tfevents"
_MOST_WRITTEN = 10_000  # files outside of the output folder; a data set may have any number


class OutputUploads:
    """Uploads a replica's files and tracks what the server has."""

    def __init__(self, channel: Channel, base: str, launch: dict[str, Any]) -> None:
        self._channel = channel
        self._base = base
        self._replica = os.path.dirname(launch["work"])
        self._sent: dict[bytes, tuple[int, int]] = {}  # size and time of each uploaded file

    def ship(self, deadline: float | None = None, *, is_over: bool = False) -> None:
        """Upload new and changed files. `is_over` is true if the program has ended."""
        outputs = os.fsencode(os.path.join(self._replica, OUTPUTS))
        for path, location, seen in _files(outputs):
            self._ship(path, location, seen, deadline)
        count = 0
        for path, location, seen in self._written(is_over):
            if os.path.lexists(os.path.join(outputs, path)):
                continue
            count += 1
            if count > _MOST_WRITTEN:
                sys.stderr.write(
                    f"windlass: the working folder has more than {_MOST_WRITTEN:,} new files; the "
                    "others are not uploaded. Write files to keep to wl.output_dir()\n"
                )
                return
            self._ship(path, location, seen, deadline)

    def _written(self, is_over: bool) -> Iterator[tuple[bytes, bytes, os.stat_result]]:
        work = os.fsencode(os.path.join(self._replica, WORK))
        for path, location, seen in _files(work, LeftOut(self._replica)):
            if is_over or _EVENTS in path:
                yield path, location, seen
        for name in entries_above(self._replica) if is_over else ():
            if not is_data(name):
                yield from _files_above(self._replica, name)

    def _ship(
        self, path: bytes, location: bytes, seen: os.stat_result, deadline: float | None
    ) -> None:
        stamp = (seen.st_size, seen.st_mtime_ns)
        if self._sent.get(path) == stamp:
            return
        try:
            body = FileBody(os.fsdecode(location))
            where = f"outputs?path={quote(path, safe='')}"
            self._channel.send(self._base, where, body, deadline=deadline)
        except (FileNotFoundError, Changed):
            return  # the file was deleted or changed; the next scan uploads it
        except Refused as error:
            if error.code == "missing_blobs":
                raise
            sys.stderr.write(
                f"windlass: the output {os.fsdecode(path)!a} could not be uploaded: {error}\n"
            )
        self._sent[path] = stamp


def _files(root: bytes, *is_left_out: LeftOut) -> Iterator[tuple[bytes, bytes, os.stat_result]]:
    """Yield the path, location and status of each readable file below a folder."""
    for file in walk(root, b"", *is_left_out):
        if file.status is not None:
            yield file.path, os.path.join(root, file.path), file.status


def _files_above(replica: str, name: str) -> Iterator[tuple[bytes, bytes, os.stat_result]]:
    top = os.fsencode(os.path.join(replica, name))
    own = os.path.join(os.fsencode(PARENT), os.fsencode(name))
    if os.path.islink(top):
        return
    if os.path.isfile(top):
        yield own, top, os.lstat(top)
    for path, location, seen in _files(top):
        if not any(map(is_ignored, path.split(b"/"))):
            yield os.path.join(own, path), location, seen
