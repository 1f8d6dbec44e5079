"""What is remembered: trials and experiments as the server tells and the client shows them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Any

import msgspec

from windlass.model.job import Digest, Job, JobSpec
from windlass.model.status import Condition, ConditionType, JobStatus, Pod


class TrialState(str, Enum):
    """How a trial stands, in one word."""

    QUEUED = "QUEUED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"

    @property
    def is_final(self) -> bool:
        return self in (TrialState.SUCCEEDED, TrialState.FAILED, TrialState.STOPPED)


class TrialKind(str, Enum):
    """What a trial is of."""

    JOB = "job"
    COMMAND = "command"  # of `wl.run_command`: no part of what is listed unless it is asked for
    SHELL = "shell"  # of `wl.open_shell`: likewise
    EXTERNAL = "external"  # of `wl.start_trial`: a process that was not started by us

    @property
    def is_listed(self) -> bool:
        """Whether it is a trial to whoever lists trials, and counts in its experiment."""
        return self in (TrialKind.JOB, TrialKind.EXTERNAL)


LISTED_KINDS = tuple(kind for kind in TrialKind if kind.is_listed)

# The experiment of commands and shells that belong to none. Nobody is shown it.
NO_EXPERIMENT = 0


STOPPED_REASON = "Stopped"


def state_of(status: JobStatus) -> TrialState:
    """The one word for a job's conditions.

    >>> state_of(JobStatus())
    <TrialState.QUEUED: 'QUEUED'>
    """
    if status.holds(ConditionType.SUCCEEDED):
        return TrialState.SUCCEEDED
    failed = status.condition(ConditionType.FAILED)
    if failed is not None and failed.status:
        return TrialState.STOPPED if failed.reason == STOPPED_REASON else TrialState.FAILED
    if status.stop_requested:
        return TrialState.STOPPING
    if status.holds(ConditionType.SUSPENDED):
        return TrialState.SUSPENDED
    if status.holds(ConditionType.RESTARTING):
        return TrialState.RESTARTING
    if status.holds(ConditionType.RUNNING):
        return TrialState.RUNNING
    return TrialState.STARTING if status.admitted else TrialState.QUEUED


class Git(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where in a repository's history the code was."""

    commit: str = ""
    branch: str = ""
    dirty: bool = False


class Provenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who made a trial, where, and with what."""

    user: str = ""
    host: str = ""
    platform: str = ""
    python: str = ""  # "3.11.7"
    executable: str = ""
    argv: tuple[str, ...] = ()
    windlass: str = ""
    git: Git | None = None
    packages: Digest | None = None  # of the blob that lists the installed packages
    tree_files: int = 0
    tree_size: int = 0


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of one replica, as it went."""

    role: str
    index: int
    attempt: int
    phase: str
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started: float | None = None
    ended: float | None = None
    node: str = ""
    address: str = ""
    pod: Pod | None = None  # of one that ran in a cluster


class Cause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end that was the failure of a trial: whose, of what, and the last it wrote."""

    role: str
    index: int
    attempt: int
    exit_code: int | None = None
    signal: str = ""
    reason: str = ""
    message: str = ""
    lines: tuple[str, ...] = ()


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, as text; `pickle` is the blob of the exception itself if it had one."""

    type: str = ""
    message: str = ""
    traceback: str = ""
    pickle: str | None = None


class ResultInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the value is kept; `text` is a short look at it."""

    digest: str
    size: int
    text: str = ""


class SearchPlace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which suggestion of which search a trial tries."""

    search: str  # its name
    number: int  # from 0
    params: dict[str, Any] = {}  # what was suggested, exactly


class Recipe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a trial came to be asked for, as far as its job does not say."""

    identity: str = ""  # unique in its experiment, if it has one
    arguments: dict[str, Any] = {}  # by role: the mapping or list that its arguments were given as
    origin_id: int | None = None  # the trial it repeats
    checkpoint: str = ""  # the uid of the one it begins with, if it goes on from another trial's
    is_fork: bool = False  # whether it goes another way from there than the trial it repeats
    search: SearchPlace | None = None
    template: str = ""  # what the template was called whose fields it was given
    code_of: int | None = None  # of a command or shell: the trial whose code it has


class Summary(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True
):
    """What all the values of a metric come to.

    NaN counts, and is neither least nor greatest; the mean is that of what is finite.

    >>> told = msgspec.json.encode(Summary(count=1, last=float("inf")))
    >>> told
    b'{"count":1,"last":null,"odd":{"last":"inf"}}'
    >>> msgspec.json.decode(told, type=Summary).last
    inf
    """

    count: int = 0
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    last: float | None = None
    step: int | None = None  # of the last
    odd: dict[str, str] = {}  # those of the above that JSON has no number for: "nan", "inf", "-inf"

    def __post_init__(self) -> None:
        """Have the odd ones both ways: as numbers here, as texts on the wire."""
        if self.odd:
            for name in _MAYBE_ODD & self.odd.keys():
                msgspec.structs.force_setattr(self, name, float(self.odd[name]))
            return
        values = {name: getattr(self, name) for name in _MAYBE_ODD}
        odd = {name: repr(v) for name, v in values.items() if v is not None and not isfinite(v)}
        if odd:
            msgspec.structs.force_setattr(self, "odd", odd)


_MAYBE_ODD = frozenset({"min", "max", "mean", "last"})


class TrialRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything there is to know about a trial, except its logs and blobs."""

    id: int
    uid: str
    name: str
    experiment: str
    experiment_id: int
    project: str
    state: TrialState
    message: str = ""  # what it waits for, or why it ended
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    params: dict[str, Any] = {}
    spec: JobSpec
    restarts: int = 0
    exit_code: int | None = None
    signal: str = ""
    reason: str = ""
    cause: Cause | None = None
    error: ErrorInfo | None = None
    result: ResultInfo | None = None
    attempts: tuple[Attempt, ...] = ()
    conditions: tuple[Condition, ...] = ()
    provenance: Provenance = Provenance()
    directory: str = ""  # where its files are, on the server's machine
    labels: tuple[str, ...] = ()
    auxiliary: bool = False  # it ends with its experiment, and is no part of its success
    parent_id: int | None = None  # the trial whose generator added it
    recipe: Recipe = Recipe()
    asked_to_stop: str = ""  # why it was asked to stop by itself, if it was
    metrics: dict[str, Summary] = {}
    kind: TrialKind = TrialKind.JOB
    progress: float | None = None  # how much of it is done, from 0 to 1, if it says so
    description: str = ""
    notes: str = ""

    @property
    def job(self) -> Job:
        """The trial as controller and runtimes need it."""
        return Job(
            uid=self.uid,
            trial_id=self.id,
            spec=self.spec,
            name=self.name,
            experiment=self.experiment,
            params=self.params,
        )


class CheckpointRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Files that a trial saved at some step, whole."""

    id: int
    uid: str
    trial_id: int
    number: int  # among those of its trial, from 1: the highest is the newest
    name: str  # of the file or folder that was saved
    is_folder: bool = False
    step: int | None = None
    created: float = 0.0
    role: str = ""  # whose it is; of one in shards, whose was the last
    index: int = 0
    attempt: int = 1
    shards: int = 0  # how many ranks saved a part of it; none if it is of one alone
    manifest: str = ""  # the blob that lists its files
    files: int = 0
    size: int = 0  # of all of them, in bytes
    metadata: dict[str, Any] = {}
    # As reported at its step or last before; "nan" and the like as text.
    metrics: dict[str, float | str] = {}
    models: dict[str, int] = {}  # those of which it is a version, and which
    continued_by: tuple[int, ...] = ()  # the trials that began with it


_OF_THE_SYSTEM = "system/"  # what the machine tells of a trial, not the trial itself


def is_own_metric(name: str) -> bool:
    """Whether a program reported it itself."""
    return not name.startswith(_OF_THE_SYSTEM)


def own_metrics(metrics: Mapping[str, Summary]) -> dict[str, Summary]:
    """What a program reported itself: tables are of that, unless they are asked for the rest.

    >>> list(own_metrics({"loss": Summary(count=1), "system/cpu_percent": Summary(count=9)}))
    ['loss']
    """
    return {name: summary for name, summary in metrics.items() if is_own_metric(name)}


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Something elsewhere that belongs to an experiment."""

    name: str
    url: str


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is kept with an experiment."""

    name: str
    digest: str
    size: int
    created: float = 0.0


class OutputFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    r"""A file that a replica left in its output folder.

    `name` is its path below that folder, with what is no UTF-8 escaped; `path` is exact.

    >>> odd = OutputFile.of(b"caf\xe9.txt")
    >>> odd.name, odd.raw, odd.path
    ('caf\\xe9.txt', '636166e92e747874', b'caf\xe9.txt')
    """

    name: str
    role: str = "main"
    index: int = 0
    size: int = 0
    modified: float = 0.0
    problem: str = ""  # why it cannot be fetched, if that is known
    raw: str = ""  # the bytes of its name in hexadecimal, where they are no text

    @classmethod
    def of(cls, path: bytes, **rest: Any) -> OutputFile:
        """The file of that path."""
        try:
            return cls(name=path.decode(), **rest)
        except UnicodeDecodeError:
            return cls(name=path.decode(errors="backslashreplace"), raw=path.hex(), **rest)

    @property
    def path(self) -> bytes:
        """Its path, as the file system has it."""
        return bytes.fromhex(self.raw) if self.raw else self.name.encode()


class ExperimentState(str, Enum):
    """How an experiment stands, in one word; auxiliary trials do not count."""

    EMPTY = "EMPTY"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


def experiment_state(states: dict[str, int], *, is_held: bool = False) -> ExperimentState:
    """The one word for how many trials are in which state.

    >>> experiment_state({"SUCCEEDED": 3, "FAILED": 1})
    <ExperimentState.FAILED: 'FAILED'>
    >>> experiment_state({"SUCCEEDED": 3, "QUEUED": 1})
    <ExperimentState.RUNNING: 'RUNNING'>
    """
    present = {TrialState(name) for name, number in states.items() if number}
    if is_held or any(not state.is_final for state in present):
        return ExperimentState.RUNNING
    if not present:
        return ExperimentState.EMPTY
    for state in (TrialState.FAILED, TrialState.STOPPED):
        if state in present:
            return ExperimentState(state.value)
    return ExperimentState.SUCCEEDED


class ExperimentRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named set of trials."""

    id: int
    name: str
    project: str
    created: float
    trials: int = 0  # that are not auxiliary
    states: dict[str, int] = {}  # of those
    uid: str = ""
    state: ExperimentState = ExperimentState.EMPTY
    auxiliary: int = 0  # how many trials are
    labels: tuple[str, ...] = ()
    description: str = ""
    notes: str = ""
    config: dict[str, Any] = {}
    links: tuple[Link, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    searches: dict[str, dict[str, Any]] = {}  # the settings of each, by its name
    priority: int = 0  # of what is added to it and says none itself
    archived: bool = False
