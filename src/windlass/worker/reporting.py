"""What a program reports of itself: a record a call, appended to the attempt's `metrics` file.

    [1763244000.123456,12,"training",{"loss":0.25}]

One line of JSON each: when, which step, in which group, what. NaN and the infinities are the
texts "nan", "inf" and "-inf". A record is one write at the end of the file, so that those of
several threads and processes never mix; one that is torn is no JSON, and nobody reads it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from operator import index

from windlass.worker.family import MARKER
from windlass.worker.nudge import METRICS, ServerAddress, send_once
from windlass.worker.whereabouts import attempt_dir, replica

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsFloat, SupportsIndex

FILE = "metrics"
GROUP = "training"
LONGEST_NAME = 200
MOST_NAMES = 1000
LONGEST_RECORD = 256 * 1024

_NUDGE_EVERY = 0.05  # seconds; the server looks once more that much later, by itself
_MOST_UNWRITTEN = 1 << 20  # bytes that wait for space on the disk
# A pipe that lies in its place would be waited for, for ever.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
_ODD = {"nan": '"nan"', "inf": '"inf"', "-inf": '"-inf"'}


def report(step: SupportsIndex, group: str = GROUP, **metrics: SupportsFloat) -> None:
    """Record values of metrics at a step: live, from any replica. Outside of a trial: nothing.

    A value is any number, also NumPy's or PyTorch's; NaN and infinities are kept. A step is a
    whole number from 0. In another group than "training" a metric is called by both, as
    `validation/loss`.

    ```python
    for step in range(3):
        wl.report(step, loss=1 / (step + 1))
        wl.report(step, group="validation", loss=1.5 / (step + 1))
    ```
    """
    marker = os.environ.get(MARKER)
    if marker is None:
        return
    sink = _sinks.get(marker)
    if sink is None:
        own, folder = replica(), attempt_dir()
        if own is None or folder is None:
            return
        sink = _sinks.setdefault(marker, _Sink(own, folder))
    sink.put(_encode(time.time(), step, group, metrics))


def _encode(now: float, step: SupportsIndex, group: str, metrics: dict[str, Any]) -> bytes:
    """A report as a record; an error says what of it is none.

    >>> _encode(12.5, 3, "training", {"loss": 0.5, "norm": float("inf")})
    b'[12.500000,3,"training",{"loss":0.5,"norm":"inf"}]\\n'
    """
    number = _step(step)
    if not metrics:
        raise TypeError("report: name what is reported: wl.report(step, loss=0.1)")
    known = _names.get(group)
    if known is None:
        known = _new_group(group)
    parts = []
    for name, value in metrics.items():
        text = repr(value if type(value) is float else _number(name, value))
        if text in _ODD:
            text = _ODD[text]
        quoted = known.get(name)
        if quoted is None:
            quoted = _new_name(known, name)
        parts.append(quoted + text)
    line = f"[{now:.6f},{number},{known[None]},{{{','.join(parts)}}}]\n"
    if len(line) > LONGEST_RECORD:
        raise ValueError(
            f"report: {len(metrics)} metrics in one call are {len(line)} bytes; "
            f"{LONGEST_RECORD} are the most. Report fewer at a time."
        )
    return line.encode("ascii")


def _step(step: SupportsIndex) -> int:
    try:
        number = index(step)
    except TypeError:
        raise TypeError(f"step: {_shown(step)} is no whole number") from None
    if not 0 <= number < 2**63:
        raise ValueError(f"step: {_shown(number)} is not between 0 and 2**63 - 1")
    return number


def _number(name: str, value: Any) -> float:
    """A value as Python's own float; a text is none, even one that looks like a number."""
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"{_called(name)}: {_shown(value)} is no number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{_called(name)}: {_shown(value)} is too large for a float") from None
    except (TypeError, ValueError, RuntimeError):  # PyTorch's, of a tensor of many
        raise TypeError(f"{_called(name)}: {_shown(value)} is no number") from None


# The names that were reported, by group: checked once, and as they are written; None is the group.
_names: dict[str, dict[str | None, str]] = {}


def _new_group(group: str) -> dict[str | None, str]:
    known: dict[str | None, str] = {None: _quoted("group", group)}
    return _names.setdefault(group, known)


def _new_name(known: dict[str | None, str], name: str) -> str:
    quoted = _quoted("metric", name) + ":"
    if sum(map(len, _names.values())) - len(_names) >= MOST_NAMES:
        raise ValueError(
            f"{_called(name)}: {MOST_NAMES} metrics are the most that a trial has. "
            "What differs from step to step is not part of a metric's name."
        )
    known[name] = quoted
    return quoted


def _quoted(what: str, name: object) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ValueError(f"{_shown(name)} is no name of a {what}: printable text is")
    if len(name) > LONGEST_NAME:
        raise ValueError(
            f"{_shown(name)} is no name of a {what}: it has {len(name)} characters, "
            f"{LONGEST_NAME} are the most"
        )
    return json.dumps(name)


def _called(name: str) -> str:
    return name if name.isprintable() and 0 < len(name) <= 100 else _shown(name)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 -- it is somebody else's, or a number of too many digits
        text = f"this {type(value).__name__}"
    return text if len(text) <= 100 else text[:99] + "…"


class _Sink:
    """The `metrics` file of an attempt: it takes whole records, and no fault of a disk is ours.

    Nothing is held open: a program may close what it did not open, and fork at any time.
    """

    def __init__(self, own: tuple[str, str, str, str], folder: str) -> None:
        uid, role, number, attempt = own
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

    def put(self, record: bytes) -> None:
        """Append a record, and have the server look, if that was not just done."""
        if self._unwritten:
            record = self._take_unwritten() + record
        try:
            written = self._write(record)
        except OSError as error:
            self._keep(record, 0, error)
            return
        if written < len(record):
            self._keep(record, written, None)
        now = time.monotonic()
        if now >= self._next_nudge:
            self._next_nudge = now + _NUDGE_EVERY
            send_once(self._message, self._server.find())

    def _write(self, record: bytes) -> int:
        fd = os.open(self._path, _FLAGS, 0o600)
        try:
            return os.write(fd, record)
        finally:
            try:
                os.close(fd)
            except OSError:
                pass  # it is written: twice would be worse

    def _take_unwritten(self) -> bytes:
        """All that waits for space, each part of it by one thread alone."""
        self._disown()
        taken = []
        while self._unwritten:
            try:
                taken.append(self._unwritten.pop(0))
            except IndexError:  # another thread was faster
                break
        return b"".join(taken)

    def _disown(self) -> None:
        """Forget what a parent will write, in a fork of it."""
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._unwritten = []

    def _keep(self, record: bytes, written: int, error: OSError | None) -> None:
        """Write the rest later. A record that is torn is ended, and written again as a whole."""
        if not self._has_complained:
            self._has_complained = True
            why = os.strerror(error.errno or 0) if error else "no space left"
            self._complain(why)
        whole = record.rfind(b"\n", 0, written) + 1
        rest = (b"\n" if whole < written else b"") + record[whole:]
        self._disown()
        if len(rest) + sum(map(len, self._unwritten)) <= _MOST_UNWRITTEN:
            self._unwritten.append(rest)

    def _complain(self, why: str) -> None:
        """Say it once; at the end there may be space for what was kept."""
        import atexit

        atexit.register(self._flush)
        try:
            sys.stderr.write(f"windlass: metrics cannot be written: {why}; training goes on\n")
        except (OSError, ValueError, AttributeError):
            pass  # there is nobody to tell

    def _flush(self) -> None:
        rest = self._take_unwritten()
        if rest:
            try:
                self._write(rest)
            except OSError:
                pass


_sinks: dict[str, _Sink] = {}
