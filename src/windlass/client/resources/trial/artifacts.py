"""Lists and downloads the files that a trial's program wrote.

Each file gets its final name and its original modification time only once it is complete. An
existing file with the same size and time counts as downloaded, so repeating an interrupted download
continues it. A different file is replaced only on request. Files are written only inside the folder
and never through a link, even if the server is malicious.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import struct
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from windlass.client.connection.pages import Listing, walk
from windlass.client.connection.transport import Transport, request_path
from windlass.client.resources.download import UNFINISHED, named_folder
from windlass.model.errors import (
    Conflict,
    InvalidArgument,
    ServerError,
    ServerUnreachable,
    WindlassError,
    shown,
)
from windlass.model.outputs import MOST_OUTPUTS, FetchOutputs, OutputPage, WantedOutput
from windlass.model.records import OutputFile, TrialRecord
from windlass.model.text.display import clean
from windlass.worker.blobs.restore_tree import open_folder
from windlass.worker.common.atomic_files import write_all
from windlass.worker.program.output_dir import TENSORBOARD

EVENT_FILES = "*tfevents*"  # the pattern of TensorBoard logs, whatever folder they are in
_HEAD = struct.Struct(">QQd")
_LENGTH = struct.Struct(">I")
_SAME = 0.001  # seconds; a smaller difference may be due to rounding
_WORTH_RESUMING = 1 << 20
_MOST_LISTED = 5
_PATIENCE = 60.0  # seconds without a server before a download fails
_PAUSE = 0.2
_TRIES = 3  # attempts to download a file that changes while it is read
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def list_outputs(
    transport: Transport,
    trial_id: int,
    *,
    pattern: str | None = None,
    role: str | None = None,
    index: int | None = None,
) -> Listing[OutputFile]:
    """List the files in a trial's output folders, fetching pages on demand."""
    query = {"pattern": pattern, "role": role, "index": index}
    return walk(transport, request_path("trials", trial_id, "artifacts"), OutputPage, query)


def download_outputs(
    transport: Transport,
    record: TrialRecord,
    folder: object,
    *,
    pattern: str | None = None,
    role: str | None = None,
    index: int | None = None,
    overwrite: bool = False,
) -> Path:
    """Download the files in a trial's output folders and return the target folder's path."""
    root = named_folder(folder, 'trial.download_artifacts("results")')
    chosen = list_outputs(transport, record.id, pattern=pattern, role=role, index=index)
    _download(transport, record, root, b"", chosen, lambda _: overwrite)
    return root


def download_tensorboard(transport: Transport, record: TrialRecord, folder: object) -> Path:
    """Download a trial's TensorBoard files: the folder `tensorboard` and all event files elsewhere.

    TensorBoard logs that have grown since the last download are downloaded again.

    A TensorBoard log's name contains the time and process of its writer. An existing file with the
    same name is therefore an earlier state of the same log, so it may be replaced.
    """
    root = named_folder(folder, 'trial.download_tensorboard("runs")')
    below = f"{TENSORBOARD}/".encode()
    chosen = list(list_outputs(transport, record.id, pattern=f"{TENSORBOARD}/*"))
    events = list_outputs(transport, record.id, pattern=EVENT_FILES)
    chosen += [file for file in events if not file.path.startswith(below)]
    _download(transport, record, root, below, chosen, lambda name: b"tfevents" in name)
    return root


class _File(NamedTuple):
    """A file to download, with its relative path in the target folder."""

    source: OutputFile
    target: bytes

    @property
    def unfinished(self) -> bytes:
        """The file's temporary name until it is complete.

        The name depends on the file's size and time, so that a changed file gets a different name.
        """
        identity = f"{self.source.size} {self.source.modified!r} ".encode() + self.target
        return UNFINISHED + hashlib.sha256(identity).hexdigest()[:24].encode()


def _download(
    transport: Transport,
    record: TrialRecord,
    root: Path,
    below: bytes,
    chosen: Iterable[OutputFile],
    may_replace: Callable[[bytes], bool],
) -> None:
    files = [_File(source, _target(record, source, below)) for source in chosen]
    problems = [f"{shown(file.source.name)}: {file.source.problem}" for file in files
                if file.source.problem]  # fmt: skip
    files = [file for file in files if not file.source.problem]
    try:
        lacking = _lacking(os.fsencode(root), files, may_replace)
        root.mkdir(parents=True, exist_ok=True)
        fd = os.open(os.path.realpath(root), _FOLDER)
        try:
            _sweep(fd, lacking)
            for at in range(0, len(lacking), MOST_OUTPUTS):
                batch = lacking[at : at + MOST_OUTPUTS]
                problems += _Fetch(transport, record.id, fd).run(batch)
        finally:
            os.close(fd)
    except NotADirectoryError:
        raise InvalidArgument(f"{root} is not a folder.", hint="Name another folder.") from None
    except OSError as error:
        raise WindlassError(
            f"The files cannot be written to {root}: {error.strerror or error}.",
            hint="Fix the cause, then try again. Files that are already there are kept.",
        ) from error
    if problems:
        listed = "; ".join(map(clean, problems[:_MOST_LISTED]))
        more = f"; and {len(problems) - _MOST_LISTED} more" if len(problems) > _MOST_LISTED else ""
        raise WindlassError(
            f"{len(problems)} of {len(files) + len(problems)} could not be downloaded: "
            f"{listed}{more}.",
            hint=f"All the others are in {root}.",
        )


def _target(record: TrialRecord, source: OutputFile, below: bytes) -> bytes:
    """Return a file's path in the target folder.

    If the trial has several replicas, each replica gets its own sub-folder.
    """
    path = source.path.removeprefix(below)
    parts = path.split(b"/")
    own = f"{source.role}-{source.index}"
    if any(part in (b"", b".", b"..") for part in parts) or b"\0" in path or "/" in own:
        raise ServerError(f"The server names a file {shown(source.name)}, which is not a path.")
    return path if len(replicas_of(record)) == 1 else own.encode() + b"/" + path


def replicas_of(record: TrialRecord) -> set[tuple[str, int]]:
    """Return the role and index of every replica that a trial has or once had."""
    planned = {(role.name, i) for role in record.spec.roles for i in range(role.replicas)}
    return planned | {(attempt.role, attempt.index) for attempt in record.attempts}


def _lacking(
    root: bytes, files: Sequence[_File], may_replace: Callable[[bytes], bool]
) -> list[_File]:
    """Return the files that are missing in the target folder.

    Raise `Conflict` if a different file has the same path and may not be replaced.
    """
    lacking, taken = [], []
    for file in files:
        try:
            status = os.lstat(os.path.join(root, file.target))
        except FileNotFoundError:
            lacking.append(file)
            continue
        except NotADirectoryError:  # a file exists where the download needs a folder
            if not os.path.isdir(root):
                raise
            taken.append(shown(os.fsdecode(file.target)))
            continue
        is_same = status.st_size == file.source.size
        is_same = is_same and abs(status.st_mtime - file.source.modified) < _SAME
        if stat.S_ISREG(status.st_mode) and is_same:
            continue
        if stat.S_ISDIR(status.st_mode) or not may_replace(file.target):
            taken.append(shown(os.fsdecode(file.target)))
        else:
            lacking.append(file)
    if taken:
        more = f" and {len(taken) - _MOST_LISTED} more" if len(taken) > _MOST_LISTED else ""
        raise Conflict(
            f"{os.fsdecode(root)} already has different files with these names: "
            f"{', '.join(taken[:_MOST_LISTED])}{more}.",
            hint="Nothing was written. Name another folder, or replace them: overwrite=True",
        )
    return lacking


def _sweep(root: int, files: Sequence[_File]) -> None:
    """Remove partial downloads of files that have changed in the meantime.

    These downloads cannot be continued.
    """
    wanted: dict[bytes, set[bytes]] = {}
    for file in files:
        wanted.setdefault(os.path.dirname(file.target), set()).add(file.unfinished)
    for folder, names in wanted.items():
        with contextlib.suppress(OSError):
            fd = _existing(root, folder)
            try:
                for text in os.listdir(fd):
                    name = os.fsencode(text)
                    if name.startswith(UNFINISHED) and name not in names:
                        os.unlink(name, dir_fd=fd)
            finally:
                os.close(fd)


def _existing(root: int, folder: bytes) -> int:
    fd = os.dup(root)
    for name in folder.split(b"/") if folder else ():
        try:
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    return fd


class _Fetch:
    """Downloads a trial's files, requesting the remaining files after a broken connection."""

    def __init__(self, transport: Transport, trial_id: int, root: int) -> None:
        self._transport = transport
        self._path = request_path("trials", trial_id, "artifacts", "fetch")
        self._root = root
        self._left: list[_File] = []
        self._tries: dict[bytes, int] = {}
        self._problems: list[str] = []
        self._progress = 0.0

    def run(self, files: Sequence[_File]) -> list[str]:
        """Download all files. Return a message for each file that could not be downloaded."""
        self._left = list(files)
        self._progress = time.monotonic()
        while self._left:
            request = FetchOutputs(files=tuple(map(self._wanted, self._left)))
            taking = self._take(list(self._left))
            next(taking)
            try:
                self._transport.download(self._path, taking.send, body=request)
                if self._left and all(self._tries.get(file.target, 0) == 0 for file in self._left):
                    raise ServerError("The server's answer ends in the middle of a file.")
            except ServerUnreachable:
                if time.monotonic() - self._progress > _PATIENCE:
                    raise
                time.sleep(_PAUSE)  # nothing announces that an unreachable server is back
            finally:
                taking.close()
        return self._problems

    def _wanted(self, file: _File) -> WantedOutput:
        source = file.source
        offset = 0
        if source.size >= _WORTH_RESUMING:
            with contextlib.suppress(OSError):
                parent = _existing(self._root, os.path.dirname(file.target))
                try:
                    status = os.stat(file.unfinished, dir_fd=parent, follow_symlinks=False)
                    offset = min(status.st_size, source.size)
                finally:
                    os.close(parent)
        return WantedOutput(
            name=source.name, raw=source.raw, role=source.role, index=source.index,
            offset=offset, size=source.size, modified=source.modified,
        )  # fmt: skip

    def _take(self, files: Sequence[_File]) -> Generator[None, bytes, None]:
        """Parse the response to a download as it arrives, and write the files.

        `server/api/artifacts.py` describes the response's format.
        """
        stream = _Stream()
        for file in files:
            kind = yield from stream.read(1)
            if kind == b"F":
                yield from self._take_file(file, stream)
                continue
            text = bytearray()
            while piece := (yield from stream.piece()):
                text += piece
            if kind == b"E":
                self._problems.append(f"{shown(file.source.name)}: {text.decode(errors='replace')}")
            self._left.remove(file)  # a file deleted in the meantime is no longer an output
        while True:
            yield

    def _take_file(self, file: _File, stream: _Stream) -> Generator[None, bytes, None]:
        start, size, modified = _HEAD.unpack((yield from stream.read(_HEAD.size)))
        parent = open_folder(self._root, os.path.dirname(file.target), replacing=False)
        try:
            fd = _open_unfinished(parent, file)
            try:
                os.ftruncate(fd, start)
                os.lseek(fd, 0, os.SEEK_END)
                got = start
                while piece := (yield from stream.piece()):
                    got += write_all(fd, piece)
                    self._progress = time.monotonic()
                if got != size:
                    self._try_again(file, fd)
                    return
                os.utime(fd, (time.time(), modified))
                name = os.path.basename(file.target)
                os.replace(file.unfinished, name, src_dir_fd=parent, dst_dir_fd=parent)
            finally:
                os.close(fd)
        finally:
            os.close(parent)
        self._left.remove(file)

    def _try_again(self, file: _File, fd: int) -> None:
        """Discard a partly downloaded file, because its source changed in the meantime.

        After too many tries, give the file up and note the problem.
        """
        os.ftruncate(fd, 0)
        self._tries[file.target] = self._tries.get(file.target, 0) + 1
        if self._tries[file.target] >= _TRIES:
            self._problems.append(f"{shown(file.source.name)}: it changes while it is read")
            self._left.remove(file)


class _Stream:
    """A buffer that lets a parser read bytes that arrive in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def read(self, length: int) -> Generator[None, bytes, bytes]:
        while len(self._buffer) < length:
            self._buffer += yield
        taken = bytes(memoryview(self._buffer)[:length])
        del self._buffer[:length]
        return taken

    def piece(self) -> Generator[None, bytes, bytes]:
        (length,) = _LENGTH.unpack((yield from self.read(_LENGTH.size)))
        return (yield from self.read(length))


def _open_unfinished(parent: int, file: _File) -> int:
    """Open and lock a download's temporary file."""
    fd = os.open(file.unfinished, _WRITE, 0o666, dir_fd=parent)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{shown(os.fsdecode(file.unfinished))} is not a file")
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Conflict(
            "Another download is writing the same files to the same folder.",
            hint="Wait for it, or name another folder.",
        ) from None
    except BaseException:  # close the file, also on Ctrl-C
        os.close(fd)
        raise
    return fd
