"""Reads and writes an attempt's launch file, state file and exit record.

All files are validated when they are read.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from windlass.model.status import Phase, Pod, Replica, ReplicaId
from windlass.model.thread_safe_types import learned
from windlass.runtimes import paths
from windlass.worker.common.file_reads import exists, read_json
from windlass.worker.supervise.attempt import OUT_OF_TIME

_T = TypeVar("_T")
_Time = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


# The structs below are the schemas of the files. Files are validated because the trial's own
# process can write to them.


class ProcessRecord(msgspec.Struct):
    pid: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    identity: str


class _Key(msgspec.Struct):
    uid: str
    home: str = ""


class _Executable(msgspec.Struct):
    type: str


class _Launch(msgspec.Struct):
    key: _Key
    executable: _Executable
    python: str
    env: dict[str, str]
    private: str | None
    hold: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None


class StateRecord(msgspec.Struct):
    stage: str = "starting"
    message: str = ""
    supervisor: ProcessRecord | None = None
    process: ProcessRecord | None = None
    started: _Time | None = None


class ExitRecord(msgspec.Struct):
    exit_code: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    reason: str = ""
    message: str = ""
    exception: str = ""
    started: _Time | None = None
    ended: _Time | None = None


_LARGEST_RECORD = 1 << 20  # the most bytes in a state or exit record
_LONGEST_TEXT = 1000  # the most characters in an attempt's message
_UNREADABLE = ExitRecord(reason="Lost", message="its exit record is damaged")


class AttemptFiles:
    """Reads and writes the files in one attempt's directory.

    A subclass for each runtime also knows the machine or the pod on which the attempt runs.
    """

    def __init__(self, uid: str, replica: ReplicaId, path: Path) -> None:
        self.uid = uid
        self.replica = replica
        self.path = path
        self._launch: dict[str, Any] | None = None
        self._final: Replica | None = None

    @property
    def name(self) -> str:
        """The replica's key in the job's addresses, such as "worker-0"."""
        return f"{self.replica.role}-{self.replica.index}"

    @property
    def node(self) -> str:
        """The name of the machine on which the attempt runs, or "" if it is not known."""
        return ""

    @property
    def address(self) -> str:
        """The address at which the job's other replicas reach this replica."""
        return ""

    @property
    def pod(self) -> Pod | None:
        """The pod of the attempt, or None if the attempt does not run in a pod."""
        return None

    @property
    def has_ended(self) -> bool:
        return exists(self.path / paths.EXIT)

    @property
    def was_requested(self) -> bool:
        """Whether the attempt was requested.

        Every requested attempt has a launch file or an exit record.
        """
        return exists(self.path / paths.LAUNCH) or self.has_ended

    @property
    def was_begun(self) -> bool:
        """Whether the attempt ever had a supervisor. Without one, an attempt has no process."""
        return exists(self.path / paths.STATE)

    def launch(self) -> dict[str, Any] | None:
        """Return the contents of the attempt's launch file, or None if it is missing or damaged."""
        if self._launch is None:  # cached, because the file is written only once
            launch = read_json(self._file(paths.LAUNCH))
            self._launch = None if _as(launch, _Launch) is None else launch
        return self._launch

    def is_of(self, uid: str) -> bool:
        """Return whether the attempt belongs to the job with this uid.

        If the database was deleted, the directory may hold an attempt of an older job whose trial
        had the same number.
        """
        launch = self.launch()
        return launch is None or launch["key"]["uid"] == uid

    def _living(self) -> Replica:
        state = self._state()
        is_running = state.stage in ("running", "stopping")
        return self._replica(
            phase=Phase.RUNNING if is_running else Phase.PENDING,
            message=storable(state.message or ("" if is_running else state.stage)),
            started=state.started,
            deleting=exists(self.path / paths.STOP),
        )

    def _ended(self) -> Replica | None:
        if self._final is not None or not self.has_ended:
            return self._final
        # Records are written atomically, so an invalid record never becomes valid later.
        record = self._read(paths.EXIT, ExitRecord) or _UNREADABLE
        # A program that exceeded its time limit has failed, even if it exits with code 0.
        is_success = record.exit_code == 0 and record.reason != OUT_OF_TIME
        self._final = self._replica(
            phase=Phase.SUCCEEDED if is_success else Phase.FAILED,
            exit_code=record.exit_code,
            reason=storable(record.reason),
            message=storable(record.message),
            exception=storable(record.exception),
            started=record.started,
            ended=record.ended,
        )
        return self._final

    def _state(self) -> StateRecord:
        return self._read(paths.STATE, StateRecord) or StateRecord()

    def _read(self, name: str, kind: type[_T]) -> _T | None:
        """Return the validated contents of a JSON file, or None if it is missing or damaged."""
        return _as(read_json(self._file(name), _LARGEST_RECORD), kind)

    def _replica(self, **fields: Any) -> Replica:
        return Replica(
            id=self.replica, node=self.node, address=self.address, pod=self.pod, **fields
        )

    def _end(self, reason: str, message: str, ended: float) -> dict[str, Any]:
        """Build the exit record for an attempt that can no longer write its own."""
        started = self._state().started
        return {
            "exit_code": None,
            "signal": "",
            "reason": reason,
            "message": message,
            "started": started,
            # File times are coarser than the clock.
            "ended": max(ended, started or 0.0),
        }

    def _last_beat(self) -> float:
        try:
            return (self.path / paths.STATE).stat().st_mtime
        except FileNotFoundError:
            return time.time()

    def _file(self, name: str) -> str:
        return str(self.path / name)


def _as(value: object, kind: type[_T]) -> _T | None:
    try:
        return msgspec.convert(value, learned(kind))
    except (msgspec.ValidationError, UnicodeError):  # the text contains a lone surrogate
        return None


def storable(text: str) -> str:
    """Shorten a text to 1000 characters and replace lone surrogates, which cannot be stored."""
    whole = text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"
    return whole.encode("utf-8", "backslashreplace").decode()
