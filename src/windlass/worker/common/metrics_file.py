"""The `metrics` file of an attempt: what its program, and its supervisor, report.

Records follow each other, of two kinds. A line of JSON says all of itself:

    [1763244000.123456,12,"training",{"loss":0.25}]

NaN and the infinities are the texts "nan", "inf" and "-inf". `[1763244000.5,"progress",0.5]` says
how far the program is. What a loop reports again and again are words of eight bytes instead, which
are read as fast as memory is: a head (`MAGIC`, how many values, which names), the step, the time,
the values, and `SEAL`. Which names those are stands in `metrics.names`, before the first of them.

A record is one write at the end of the file, so that those of several threads and processes never
mix; one that is torn has no seal, or is no JSON, and nobody reads it.
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
SEAL = b"\xfeWLends\xfe"  # no line break, with which a torn record is ended, makes it whole
MOST_VALUES = 64  # of a record in words
HEAD = struct.Struct("<3sBI")  # magic, values, crc32 of the line with their names

_NUDGE_EVERY = 0.05  # seconds; the server looks once more that much later, by itself
_MOST_UNWRITTEN = 1 << 20  # bytes that wait for space on the disk
# A pipe that lies in its place would be waited for, for ever.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
_ODD = {"nan": '"nan"', "inf": '"inf"', "-inf": '"-inf"'}


def append_metrics(
    folder: str, step: int, group: str, values: Mapping[str, float], now: float | None = None
) -> None:
    """Add a record to the `metrics` file in the directory of an attempt: for supervisors.

    Names are short and plain, and few. Steps go on over attempts (seconds since the epoch do):
    from the first step of a later attempt on, an earlier one no longer counts. The server reads it
    when it is nudged (`nudger.nudge(METRICS)`), and at the attempt's end.
    """
    texts = {json.dumps(name): value for name, value in values.items()}
    line = json_record(time.time() if now is None else now, step, json.dumps(group), texts)
    write_all(os.path.join(folder, FILE), line)


def json_record(now: float, step: int, group: str, values: Mapping[str, float]) -> bytes:
    """A record that says all of itself; names are quoted already.

    >>> json_record(12.5, 3, '"training"', {'"loss"': 0.5, '"norm"': float("inf")})
    b'[12.500000,3,"training",{"loss":0.5,"norm":"inf"}]\\n'
    """
    parts = []
    for name, value in values.items():
        text = repr(value)
        parts.append(f"{name}:{_ODD.get(text, text)}")
    return f"[{now:.6f},{step},{group},{{{','.join(parts)}}}]\n".encode("ascii")


def progress_record(now: float, progress: float) -> bytes:
    """Encode the progress of a program as a record.

    >>> progress_record(12.5, 0.25)
    b'[12.500000,"progress",0.25]\\n'
    """
    return f'[{now:.6f},"{PROGRESS}",{progress!r}]\n'.encode("ascii")


class Form:
    """Records in words with the same names: what is the same in all of them."""

    def __init__(self, group: str, names: Sequence[str]) -> None:
        self.line = json.dumps([group, list(names)]).encode("ascii") + b"\n"
        self._head = HEAD.pack(MAGIC, len(names), crc32(self.line))
        self._pack: Callable[..., bytes] = struct.Struct(f"<8sqd{len(names)}d8s").pack

    def record(self, now: float, step: int, values: Iterable[SupportsFloat]) -> bytes:
        """A record; `struct.error` or what a value raises if one of them is no number.

        >>> record = Form("training", ["loss"]).record(12.5, 3, [0.5])
        >>> record[:4], len(record), record[-8:]
        (b'\\xffWL\\x01', 40, b'\\xfeWLends\\xfe')
        """
        return self._pack(self._head, step, now, *values, SEAL)


def write_all(path: str, data: bytes) -> int:
    """Append to a file, in one write; how many bytes there was space for."""
    fd = os.open(path, _FLAGS, 0o600)
    try:
        return os.write(fd, data)
    finally:
        try:
            os.close(fd)
        except OSError:
            pass  # it is written: twice would be worse


class Sink:
    """The `metrics` file of an attempt: it takes whole records, and no fault of a disk is ours.

    Nothing is held open: a program may close what it did not open, and fork at any time.
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
        self._unwritten: list[bytes] = []  # for want of space; each by one who could not
        self._owner = os.getpid()
        self._has_complained = False

    def know(self, form: Form) -> bool:
        """Have the names of a form at hand for whoever reads its records; whether they are."""
        try:
            written = write_all(os.path.join(self._folder, NAMES), form.line)
        except OSError:
            return False
        return written == len(form.line)

    def put(self, record: bytes) -> None:
        """Append a record, and have the server look, if that was not just done."""
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
        """All that waits for space, each part of it by one thread alone."""
        self._disown()
        taken = []
        while self._unwritten:
            try:
                taken.append(self._unwritten.pop(0))
            except IndexError:  # another thread was faster
                break
        return taken

    def _disown(self) -> None:
        """Forget what a parent will write, in a fork of it."""
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._unwritten = []

    def _keep(self, records: list[bytes], written: int, error: OSError | None) -> None:
        """Write the rest later. A record that is torn is ended, and written again as a whole."""
        if not self._has_complained:
            self._has_complained = True
            self._complain(os.strerror(error.errno or 0) if error else "no space left")
        while records and written >= len(records[0]):
            written -= len(records.pop(0))
        if records and written:
            records[0] = b"\n" + records[0].lstrip(b"\n")
        self._disown()
        room = _MOST_UNWRITTEN - sum(map(len, self._unwritten))
        for record in records:
            room -= len(record)
            if room >= 0:
                self._unwritten.append(record)

    def _complain(self, why: str) -> None:
        """Say it once; at the end there may be space for what was kept."""
        import atexit

        atexit.register(self._flush)
        try:
            sys.stderr.write(f"windlass: metrics cannot be written: {why}; training goes on\n")
        except (OSError, ValueError, AttributeError):
            pass  # there is nobody to tell

    def _flush(self) -> None:
        rest = b"".join(self._take_unwritten())
        if rest:
            try:
                write_all(self._path, rest)
            except OSError:
                pass
