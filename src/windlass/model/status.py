"""A job's status: what runtimes report about replicas, and what the engine concludes."""

from __future__ import annotations

from enum import Enum

import msgspec

# the reason recorded if a replica was stopped but its end could not be confirmed
GIVEN_UP = "GivenUp"


class Phase(str, Enum):
    """The phase of one of a replica's attempts."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def is_final(self) -> bool:
        return self is Phase.SUCCEEDED or self is Phase.FAILED


class ReplicaId(msgspec.Struct, frozen=True, order=True):
    """Identifies one attempt of a replica by role, index and attempt number."""

    role: str
    index: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.role}-{self.index}.{self.attempt}"


class Pod(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The pod that ran an attempt: its name, image and interpreter.

    >>> Pod(namespace="lab", name="wl-7-c0ffee-main-0-1", image="python:3.12-slim", python="3.12.4")
    <lab/wl-7-c0ffee-main-0-1, python:3.12-slim, Python 3.12.4>
    """

    namespace: str
    name: str
    image: str = ""  # the requested image
    image_id: str = ""  # the image that actually ran, with its digest
    python: str = ""  # "3.12.4"; empty until the program is about to start
    platform: str = ""
    packages: str | None = None  # digest of the list of packages in the image

    def __repr__(self) -> str:
        python = f"Python {self.python}" if self.python else ""
        parts = (f"{self.namespace}/{self.name}", self.image, python)
        return f"<{', '.join(part for part in parts if part)}>"


class Replica(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of one replica, as reported by a runtime. For signal N, `exit_code` is 128+N."""

    id: ReplicaId
    phase: Phase
    exit_code: int | None = None
    reason: str = ""  # "" | "Signal" | "Lost" | "StartFailed" | "Stopped" | GIVEN_UP | ...
    message: str = ""  # while Pending or Running: the current activity; afterwards: why it ended
    exception: str = ""  # the type and line of the Python exception that ended it, if known
    started: float | None = None
    # while alive: when the program ended, before its exit code is reported
    ended: float | None = None
    node: str = ""
    address: str = ""
    deleting: bool = False
    pod: Pod | None = None  # set only in a cluster


class ConditionType(str, Enum):
    """The type of a job's condition."""

    CREATED = "Created"
    QUEUED = "Queued"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A job's condition, such as Running, with its time and reason."""

    type: ConditionType
    status: bool
    reason: str = ""
    message: str = ""
    last_update: float = 0.0
    last_transition: float = 0.0


class ReplicaHistory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A replica's stored history, which survives restarts of the server."""

    role: str
    index: int
    attempt: int = 0  # the newest requested attempt; 0 before the first
    restarts: int = 0  # total since the job was created
    # restarts since the last long run, which determine the delay before the next restart
    delays: int = 0
    not_before: float | None = None  # when the next attempt may start
    last_exit_code: int | None = None
    last_exception: str = ""  # from the attempt that caused the last restart
    phase: Phase | None = None  # the last observed phase of `attempt`; None before that


class JobStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that the engine has concluded about a job. The engine remembers nothing else."""

    conditions: tuple[Condition, ...] = ()
    replicas: tuple[ReplicaHistory, ...] = ()  # in declared order, then by index
    restarts: int = 0
    admitted: bool = False  # with gang scheduling, all replicas are admitted together
    stop_requested: bool = False
    stop_reason: str = ""
    stop_grace: float = 10.0  # seconds between asking the job's processes to stop and killing them
    stop_interrupts: bool = False  # whether SIGINT comes first and SIGTERM after half of the time
    start_time: float | None = None
    active_seconds: float = 0.0  # running time before the last suspension
    completion_time: float | None = None
    last_reconcile_time: float | None = None
    # "role-index" -> indices of the replica's accelerators
    devices: dict[str, tuple[int, ...]] = {}
    addresses: dict[str, str] = {}  # "role-index" -> "host:port" where peers reach the replica
    sizes: dict[str, int] = {}  # role -> replicas with capacity; set when the job is admitted
    # role -> replicas at the last joint start, if the job's replicas restart together
    started_with: dict[str, int] = {}
    # The position among queued jobs of the same priority, if the job was moved. Unmoved jobs are
    # ordered by id.
    queue_position: tuple[float, tuple[tuple[int, int], ...]] | None = None
    generation: int = 0  # increases with every change to the spec, so that none is missed
    # when a failure was observed, while the engine is still waiting for peers to report
    failing_since: float | None = None
    decisive: ReplicaId | None = None  # the attempt whose end decided the job
    settled: bool = False  # finished, with no replicas left to stop or delete

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of type `kind`, or None if it was never set."""
        for condition in self.conditions:
            if condition.type is kind:
                return condition
        return None

    def holds(self, kind: ConditionType) -> bool:
        """Return True if this condition currently holds for the job."""
        condition = self.condition(kind)
        return condition is not None and condition.status

    @property
    def is_finished(self) -> bool:
        return self.holds(ConditionType.SUCCEEDED) or self.holds(ConditionType.FAILED)


class EventKind(str, Enum):
    """The severity of an event."""

    NORMAL = "Normal"
    WARNING = "Warning"


# The reason of the event that no checkpoint has a value for the `keep_best` metric.
NOTHING_TO_JUDGE_BY = "NothingToJudgeBy"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event in a job's life, described for people."""

    time: float
    kind: EventKind = EventKind.NORMAL
    reason: str = ""
    message: str = ""
