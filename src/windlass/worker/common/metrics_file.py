"""An attempt's `metrics` file, to which its program and its supervisor append reports.

The file is a sequence of records of two kinds. The first kind, a line of JSON, is self-contained:

    [1763244000.123456,12,"training",{"loss":0.25}]

NaN and the infinities are the texts "nan", "inf" and "-inf". `[1763244000.5,"progress",0.5]` is the
progress of the program. The second kind is for values that a loop reports repeatedly. It consists
of eight-byte words, which can be read at memory speed: a head (`MAGIC`, number of values, checksum
of the names), the step, the time, the values, and `SEAL`. The names are in `metrics.names`, written
before the first record that uses them.

Each record is a single write at the end of the file, so records from several threads and processes
never mix. An incomplete record has no seal or is invalid JSON, so readers skip it.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from binascii import crc32

from windlass.worker.common.nudge import METRICS, ServerAddress, send_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import SupportsFloat

FILE = "metrics"
NAMES = "metrics.names"
PROGRESS = "progress"
MAGIC = b"\xffWL"
# contains a line break, so that the one that ends an incomplete record cannot complete it
SEAL = b"\xfeWLends\xfe"
MOST_VALUES = 64  # per binary record
HEAD = struct.Struct("<3sBI")  # magic, number of values, crc32 of the line with the names

_NUDGE_EVERY = 0.05  # seconds; after a nudge, the server reads again by itself after this interval
_MOST_UNWRITTEN = 1 << 20  # bytes that are waiting for disk space
_LAST_CHANCE = 10.0  # seconds of retries at the end of the program
# Without O_NONBLOCK, opening a pipe in the file's place would block forever.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
_ODD = {"nan": '"nan"', "inf": '"inf"', "-inf": '"-inf"'}


def append_metrics(
    folder: str, step: int, group: str, values: Mapping[str, float], now: float | None = None
) -> None:
    """Append a record to an attempt's `metrics` file. For use by supervisors.

    Use few, short and plain names. Steps must increase across attempts, as seconds since the epoch
    do. From its first step on, a later attempt's values replace those of the earlier attempt. The
    server reads the record after a nudge (`nudger.nudge(METRICS)`) and when the attempt ends.
    """
    texts = {json.dumps(name): value for name, value in values.items()}
    line = json_record(time.time() if now is None else now, step, json.dumps(group), texts)
    write_all(os.path.join(folder, FILE), line)


def json_record(now: float, step: int, group: str, values: Mapping[str, float]) -> bytes:
    """Encode metric values as a record: a line of JSON.

    The group and the names must already be encoded as JSON strings.

    >>> json_record(12.5, 3, '"training"', {'"loss"': 0.5, '"norm"': float("inf")})
    b'[12.500000,3,"training",{"loss":0.5,"norm":"inf"}]\\n'
    """
    parts = []
    for name, value in values.items():
        text = repr(value)
        parts.append(f"{name}:{_ODD.get(text, text)}")
    return f"[{now:.6f},{step},{group},{{{','.join(parts)}}}]\n".encode("ascii")


def progress_record(now: float, progress: float) -> bytes:
    """Encode a program's progress as a record.

    >>> progress_record(12.5, 0.25)
    b'[12.500000,"progress",0.25]\\n'
    """
    return f'[{now:.6f},"{PROGRESS}",{progress!r}]\n'.encode("ascii")


class Form:
    """The constant part of all binary records with the same names."""

    def __init__(self, group: str, names: Sequence[str]) -> None:
        self.line = json.dumps([group, list(names)]).encode("ascii") + b"\n"
        self._head = HEAD.pack(MAGIC, len(names), crc32(self.line))
        self._pack: Callable[..., bytes] = struct.Struct(f"<8sqd{len(names)}d8s").pack

    def record(self, now: float, step: int, values: Iterable[SupportsFloat]) -> bytes:
        """Encode metric values as a binary record. Raise an error if a value is not a number.

        >>> record = Form("training", ["loss"]).record(12.5, 3, [0.5])
        >>> record[:4], len(record), record[-8:]
        (b'\\xffWL\\x01', 40, b'\\xfeWLends\\xfe')
        """
        return self._pack(self._head, step, now, *values, SEAL)


def write_all(path: str, data: bytes) -> int:
    """Append bytes to a file in one system call and return how many were written."""
    fd = os.open(path, _FLAGS, 0o600)
    try:
        return os.write(fd, data)
    finally:
        try:
            os.close(fd)
        except OSError:
            pass  # the bytes are written, so retrying would write them twice


class Sink:
    """Appends records to an attempt's `metrics` file without ever raising disk errors.

    The file is not kept open, because a program may close descriptors and fork at any time.
    """

    def __init__(self, own: tuple[str, str, str, str], folder: str) -> None:
        uid, role, number, attempt = own
        self._folder = folder
        self._path = os.path.join(folder, FILE)
        self._message = json.dumps(
            {
                "trial_id": int(os.environ["WINDLASS_TRIAL_ID"]),
                "uid": uid,
                "role": role,
                "index": int(number),
                "attempt": int(attempt),
                "about": METRICS,
            }
        ).encode()
        home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(folder))))
        self._server = ServerAddress(os.path.join(home, "server.json"))
        self._next_nudge = 0.0
        self._unwritten: list[bytes] = []  # records that are waiting for disk space
        self._owner = os.getpid()
        self._has_complained = False

    def know(self, form: Form) -> bool:
        """Append the group and the metric names of `form` to `metrics.names`.

        Return whether the file now contains them.
        """
        try:
            written = write_all(os.path.join(self._folder, NAMES), form.line)
        except OSError:
            return False
        return written == len(form.line)

    def put(self, record: bytes) -> None:
        """Append a metrics record. Nudge the server, unless this process did so a moment ago."""
        records = [record]
        if self._unwritten:
            records = [*self._take_unwritten(), record]
            record = b"".join(records)
        try:
            written = write_all(self._path, record)
        except OSError as error:
            self._keep(records, 0, error)
            return
        if written < len(record):
            self._keep(records, written, None)
        now = time.monotonic()
        if now >= self._next_nudge:
            self._next_nudge = now + _NUDGE_EVERY
            send_once(self._message, self._server.find())

    def _take_unwritten(self) -> list[bytes]:
        """Remove and return the records that are waiting for disk space.

        If several threads call this, each record goes to only one of them.
        """
        self._disown()
        taken = []
        while self._unwritten:
            try:
                taken.append(self._unwritten.pop(0))
            except IndexError:  # another thread took it
                break
        return taken

    def _disown(self) -> None:
        """In a forked child, drop the records that wait for disk space: the parent writes them."""
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._unwritten = []

    def _keep(self, records: list[bytes], written: int, error: OSError | None) -> None:
        """Keep metrics records that could not be written, so that a later call writes them.

        A partly written record is rewritten as a whole.
        """
        if not self._has_complained:
            self._has_complained = True
            self._complain(os.strerror(error.errno or 0) if error else "no space left")
        while records and written >= len(records[0]):
            written -= len(records.pop(0))
        if records and written:
            records[0] = b"\n" + records[0].lstrip(b"\n")
        self._disown()
        left = _MOST_UNWRITTEN - sum(map(len, self._unwritten))
        for record in records:
            left -= len(record)
            if left >= 0:
                self._unwritten.append(record)

    def _complain(self, why: str) -> None:
        """Print a warning that reports could not be written, but only once.

        The records might still be written later.
        """
        import atexit

        atexit.register(self._flush)
        try:
            sys.stderr.write(f"windlass: metrics cannot be written: {why}; training continues\n")
        except (OSError, ValueError, AttributeError):
            pass  # stderr is closed

    def _flush(self) -> None:
        rest = b"".join(self._take_unwritten())
        if rest:
            from windlass.worker.common.file_reads import retried

            try:
                retried(lambda: write_all(self._path, rest), _LAST_CHANCE)
            except OSError:
                pass
