"""How a job stands: what runtimes report of its replicas, and what is concluded from it."""

from __future__ import annotations

from enum import Enum

import msgspec

GIVEN_UP = "GivenUp"  # the reason of one that was to end, and could not be seen to


class Phase(str, Enum):
    """How one attempt of a replica stands, as a runtime sees it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def is_final(self) -> bool:
        return self is Phase.SUCCEEDED or self is Phase.FAILED


class ReplicaId(msgspec.Struct, frozen=True, order=True):
    """Which attempt of which replica of a job."""

    role: str
    index: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.role}-{self.index}.{self.attempt}"


class Pod(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The pod that an attempt has, or had: where it was, and what there was to run in.

    >>> Pod(namespace="lab", name="wl-7-c0ffee-main-0-1", image="python:3.12-slim", python="3.12.4")
    <lab/wl-7-c0ffee-main-0-1, python:3.12-slim, Python 3.12.4>
    """

    namespace: str
    name: str
    image: str = ""  # as it was asked for
    image_id: str = ""  # as it was found: with its digest
    python: str = ""  # "3.12.4"; empty until its program was about to begin
    platform: str = ""
    packages: str | None = None  # of the blob that lists what its image has installed

    def __repr__(self) -> str:
        python = f"Python {self.python}" if self.python else ""
        parts = (f"{self.namespace}/{self.name}", self.image, python)
        return f"<{', '.join(part for part in parts if part)}>"


class Replica(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of one replica, as a runtime reports it. A death by signal N is 128+N."""

    id: ReplicaId
    phase: Phase
    exit_code: int | None = None
    reason: str = ""  # "" | "Signal" | "Lost" | "StartFailed" | "Stopped" | GIVEN_UP | ...
    message: str = ""  # for Pending and Running: what it is doing; else: why it ended
    started: float | None = None
    ended: float | None = None  # of one that runs: its program has, and how is to be told
    node: str = ""
    address: str = ""
    deleting: bool = False
    pod: Pod | None = None  # of one that runs in a cluster


class ConditionType(str, Enum):
    """What can be said of a job."""

    CREATED = "Created"
    QUEUED = "Queued"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is said of a job, since when and why."""

    type: ConditionType
    status: bool
    reason: str = ""
    message: str = ""
    last_update: float = 0.0
    last_transition: float = 0.0


class ReplicaHistory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must be remembered of a replica, whatever process of ours dies."""

    role: str
    index: int
    attempt: int = 0  # the newest attempt asked for; 0 before the first
    restarts: int = 0  # counted over the job's life
    delays: int = 0  # restarts since it last ran long enough; sets the next delay
    not_before: float | None = None  # when the next attempt may start
    last_exit_code: int | None = None
    phase: Phase | None = None  # how that attempt was last seen; None before it was


class JobStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the engine has concluded so far: its whole memory."""

    conditions: tuple[Condition, ...] = ()
    replicas: tuple[ReplicaHistory, ...] = ()  # in declared order, then by index
    restarts: int = 0
    admitted: bool = False  # gang admission is all or nothing
    stop_requested: bool = False
    stop_reason: str = ""
    stop_grace: float = 10.0  # between asking its processes to end and killing them
    start_time: float | None = None
    active_seconds: float = 0.0  # before the last suspension
    completion_time: float | None = None
    last_reconcile_time: float | None = None
    devices: dict[str, tuple[int, ...]] = {}  # "role-index" -> the accelerators it was given
    addresses: dict[str, str] = {}  # "role-index" -> "host:port" at which the others reach it
    sizes: dict[str, int] = {}  # role -> how many of its replicas have room; kept once admitted
    # Of a job whose replicas restart together: the sizes they were started to meet each other in.
    started_with: dict[str, int] = {}
    # Where it stands in the queue among those of its priority, if it was moved; else by its id.
    place: tuple[float, tuple[tuple[int, int], ...]] | None = None
    generation: int = 0  # one more with each change of the spec, so that none goes unseen
    failing_since: float | None = None  # a failure was seen, and word of others is waited for
    decisive: ReplicaId | None = None  # the attempt whose end was the end of the job
    settled: bool = False  # finished, and nothing of it is left to stop or to clean

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of that type, if anything was ever said of it."""
        for condition in self.conditions:
            if condition.type is kind:
                return condition
        return None

    def holds(self, kind: ConditionType) -> bool:
        """Whether that is said of the job now."""
        condition = self.condition(kind)
        return condition is not None and condition.status

    @property
    def is_finished(self) -> bool:
        return self.holds(ConditionType.SUCCEEDED) or self.holds(ConditionType.FAILED)


class EventKind(str, Enum):
    """Whether an event is in the order of things."""

    NORMAL = "Normal"
    WARNING = "Warning"


# The reason of the event that no checkpoint has a value of the metric of `keep_best`.
NOTHING_TO_JUDGE_BY = "NothingToJudgeBy"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a job, for people to read."""

    time: float
    kind: EventKind = EventKind.NORMAL
    reason: str = ""
    message: str = ""
