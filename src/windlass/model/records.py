"""Records of trials, experiments and their files, as returned by the server."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import isfinite
from typing import Any

import msgspec

from windlass.model.job import Digest, Job, JobSpec
from windlass.model.status import Condition, ConditionType, JobStatus, Pod


class TrialState(str, Enum):
    """The state of a trial."""

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
    """A trial's kind, such as a job, a command or a shell."""

    JOB = "job"
    COMMAND = "command"  # from `wl.run_command`; lists omit it unless requested
    SHELL = "shell"  # from `wl.open_shell`; lists omit it unless requested
    EXTERNAL = "external"  # from `wl.start_trial`: Windlass did not start its process

    @property
    def is_listed(self) -> bool:
        """Return True if trials of this kind appear in lists and count for experiments."""
        return self in (TrialKind.JOB, TrialKind.EXTERNAL)


LISTED_KINDS = tuple(kind for kind in TrialKind if kind.is_listed)

# The experiment id of commands and shells outside of any experiment. Lists never show it.
NO_EXPERIMENT = 0


STOPPED_REASON = "Stopped"


def derive_state(status: JobStatus) -> TrialState:
    """Derive a trial's state from its job's conditions.

    >>> derive_state(JobStatus())
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
    """The commit and branch of the code's git repository, and whether files were modified."""

    commit: str = ""
    branch: str = ""
    dirty: bool = False


class Provenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trial's origin: its user, machine, interpreter, command line and code version."""

    user: str = ""
    host: str = ""
    platform: str = ""
    python: str = ""  # "3.11.7"
    executable: str = ""
    argv: tuple[str, ...] = ()
    windlass: str = ""
    git: Git | None = None
    packages: Digest | None = None  # digest of the list of installed packages
    tree_files: int = 0
    tree_size: int = 0


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of one attempt of a replica. Each restart begins a new attempt."""

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
    pod: Pod | None = None  # set only if the attempt ran in a cluster


class Cause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The attempt that made a trial fail, with its exit code, signal and last output."""

    role: str
    index: int
    attempt: int
    exit_code: int | None = None
    signal: str = ""
    reason: str = ""
    message: str = ""
    lines: tuple[str, ...] = ()


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as text. `pickle` is the digest of the pickled exception, if it exists."""

    type: str = ""
    message: str = ""
    traceback: str = ""
    pickle: str | None = None


class ResultInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The digest of a stored result. `text` is a short preview."""

    digest: str
    size: int
    text: str = ""


class SearchSuggestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values that a search suggested for a trial."""

    search: str  # the name of the search
    number: int  # counts from 0
    params: dict[str, Any] = {}  # the suggested values, unchanged


class Recipe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Details of a trial's submission that are not part of its job, such as the template."""

    identity: str = ""  # if set, unique in the experiment
    arguments: dict[str, Any] = {}  # role -> the mapping or list of arguments from the caller
    origin_id: int | None = None  # the trial that this one repeats
    checkpoint: str = ""  # uid of the checkpoint to start from, if it continues another trial
    is_fork: bool = False  # True if forked from the checkpoint, rather than continued
    search: SearchSuggestion | None = None
    template: str = ""  # the name of the template that filled in some fields
    code_of: int | None = None  # for a command or shell: the trial that supplied the code


class Summary(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True
):
    """A summary of all values of a metric.

    NaN is counted as a value but is never the minimum or maximum. The mean covers only finite
    values.

    >>> encoded = msgspec.json.encode(Summary(count=1, last=float("inf")))
    >>> encoded
    b'{"count":1,"last":null,"odd":{"last":"inf"}}'
    >>> msgspec.json.decode(encoded, type=Summary).last
    inf
    """

    count: int = 0
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    last: float | None = None
    step: int | None = None  # the step at which the last value was reported
    odd: dict[str, str] = {}  # values that JSON numbers cannot express: "nan", "inf", "-inf"

    def __post_init__(self) -> None:
        """Convert values between floats and strings.

        JSON has no infinities or NaN, so the field `odd` contains them as strings.
        """
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
    """A trial's complete record, without its logs, files and result."""

    id: int
    uid: str
    name: str
    experiment: str
    experiment_id: int
    project: str
    state: TrialState
    message: str = ""  # why the trial is waiting, or why it ended
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
    directory: str = ""  # the trial's folder on the server's machine
    labels: tuple[str, ...] = ()
    auxiliary: bool = False  # stops with the experiment and does not affect its success
    parent_id: int | None = None  # the trial whose generator added this trial
    recipe: Recipe = Recipe()
    asked_to_stop: str = ""  # the reason, if `wl.should_stop` returns True in the trial
    metrics: dict[str, Summary] = {}
    kind: TrialKind = TrialKind.JOB
    # Trials that wait for this trial, but occupy the capacity that it needs to start.
    blocked_by: tuple[int, ...] = ()
    progress: float | None = None  # completed fraction, from 0 to 1, if the program reports it
    description: str = ""
    notes: str = ""

    @property
    def was_pruned(self) -> bool:
        """Whether a search stopped the trial early."""
        return self.asked_to_stop.startswith("pruned at step ")

    @property
    def job(self) -> Job:
        """The trial's job, as used by the controller and the runtimes."""
        return Job(
            uid=self.uid,
            trial_id=self.id,
            spec=self.spec,
            name=self.name,
            experiment=self.experiment,
            params=self.params,
        )


class CheckpointRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The files that a trial saved together at one step."""

    id: int
    uid: str
    trial_id: int
    number: int  # counts the trial's checkpoints from 1; the highest number is the newest
    name: str  # the name of the saved file or folder
    is_folder: bool = False
    step: int | None = None
    created: float = 0.0
    role: str = ""  # the role that saved the checkpoint, or the last role to save a shard
    index: int = 0
    attempt: int = 1
    shards: int = 0  # the number of ranks that saved a shard; 0 if not sharded
    manifest: str = ""  # the digest of the list of the checkpoint's files
    files: int = 0
    size: int = 0  # the total size of all files in bytes
    metadata: dict[str, Any] = {}
    # The values as of this step: reported at it, or else the latest earlier values. NaN and
    # infinities are strings.
    metrics: dict[str, float | str] = {}
    models: dict[str, int] = {}  # model name -> version, for models with this checkpoint
    continued_by: tuple[int, ...] = ()  # the trials that started from this checkpoint


_OF_THE_SYSTEM = "system/"  # prefix for metrics that the machine reports, rather than the program


def system_metrics(metrics: Mapping[str, Summary]) -> dict[str, Summary]:
    """Return the metrics that the machine reported."""
    return {name: summary for name, summary in metrics.items() if not is_own_metric(name)}


def is_own_metric(name: str) -> bool:
    """Return True if the program reported the metric, rather than the machine."""
    return not name.startswith(_OF_THE_SYSTEM)


def own_metrics(metrics: Mapping[str, Summary]) -> dict[str, Summary]:
    """Return the metrics that the program reported. By default, tables show only these.

    >>> list(own_metrics({"loss": Summary(count=1), "system/cpu_percent": Summary(count=9)}))
    ['loss']
    """
    return {name: summary for name, summary in metrics.items() if is_own_metric(name)}


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link from an experiment to a URL."""

    name: str
    url: str


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A file stored with an experiment."""

    name: str
    digest: str
    size: int
    created: float = 0.0


class OutputFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    r"""A file that a replica left in its output folder.

    `name` is the path below the output folder, with escapes for bytes that are not UTF-8. `path` is
    the exact path.

    >>> odd = OutputFile.of(b"caf\xe9.txt")
    >>> odd.name, odd.raw, odd.path
    ('caf\\xe9.txt', '636166e92e747874', b'caf\xe9.txt')
    """

    name: str
    role: str = "main"
    index: int = 0
    size: int = 0
    modified: float = 0.0
    problem: str = ""  # why the file cannot be downloaded, if the server knows a reason
    raw: str = ""  # the path as hexadecimal bytes, set only if the path is not UTF-8

    @classmethod
    def of(cls, path: bytes, **rest: Any) -> OutputFile:
        """Create a record for a file's path."""
        try:
            return cls(name=path.decode(), **rest)
        except UnicodeDecodeError:
            return cls(name=path.decode(errors="backslashreplace"), raw=path.hex(), **rest)

    @property
    def path(self) -> bytes:
        """The path in the file system, as bytes."""
        return bytes.fromhex(self.raw) if self.raw else self.name.encode()


class ExperimentState(str, Enum):
    """An experiment's state, which depends on all its trials except auxiliary ones."""

    EMPTY = "EMPTY"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


def experiment_state(states: dict[str, int], *, is_held: bool = False) -> ExperimentState:
    """Return the state of an experiment from its number of trials in each state.

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


def count_states(states: Mapping[str, int]) -> str:
    """Describe the number of trials in each state. States without trials are left out.

    >>> count_states({"SUCCEEDED": 3, "FAILED": 1, "RUNNING": 2})
    '2 running, 3 succeeded, 1 failed'
    """
    order = {state.value: number for number, state in enumerate(TrialState)}
    known = sorted(states, key=lambda name: order.get(name, len(order)))
    return ", ".join(f"{states[name]} {name.lower()}" for name in known if states[name])


class ExperimentRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named set of trials."""

    id: int
    name: str
    project: str
    created: float
    trials: int = 0  # excluding auxiliary trials
    states: dict[str, int] = {}  # state -> number of trials, excluding auxiliary ones
    uid: str = ""
    state: ExperimentState = ExperimentState.EMPTY
    auxiliary: int = 0  # the number of auxiliary trials
    labels: tuple[str, ...] = ()
    description: str = ""
    notes: str = ""
    config: dict[str, Any] = {}
    links: tuple[Link, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    searches: dict[str, dict[str, Any]] = {}  # search name -> the search's settings
    priority: int = 0  # the default priority of new trials
    archived: bool = False
