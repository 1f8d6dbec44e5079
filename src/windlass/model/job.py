"""A job: what to run, in which roles, under which rules."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import msgspec

from windlass.model.backends import LOCAL, Capabilities, capabilities_of
from windlass.model.exhaustive import assert_never
from windlass.model.kubernetes.job_options import KubernetesOptions
from windlass.model.resources import Resources

# They end in \Z: a $ would let a line break pass.
Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
# Of any blob: those of the files of checkpoints may be of another kind (worker/blobs/digest.py).
BlobDigest = Annotated[str, msgspec.Meta(pattern=r"^(b3-)?[0-9a-f]{64}\Z")]
RoleName = Annotated[str, msgspec.Meta(pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?\Z")]
EnvName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}\Z")]
ShortText = Annotated[str, msgspec.Meta(max_length=1024)]
LongText = Annotated[str, msgspec.Meta(max_length=1_000_000, pattern=r"^[^\x00]*\Z")]
PathText = Annotated[str, msgspec.Meta(max_length=4096, pattern=r"^[^\x00]*\Z")]


class RestartPolicy(str, Enum):
    """When a replica that ended is started again."""

    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    EXIT_CODE = "ExitCode"


class RestartScope(str, Enum):
    """Who starts again when one replica does."""

    REPLICA = "replica"
    JOB = "job"


class CleanPolicy(str, Enum):
    """What is done with the replicas when the job ends."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class SuccessPolicy(str, Enum):
    """Whose success is the job's, beyond what the framework says."""

    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"
    LEADER = "Leader"  # of the chief or master, whatever the framework


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True, tag="function"):
    """A pickled function with its arguments; only the replica ever unpickles it."""

    payload: Digest
    qualname: ShortText = ""
    changes: Digest | None = None  # pickled arguments by name, which take the place of its own


class ProcessCall(msgspec.Struct, frozen=True, kw_only=True, tag="process"):
    """A command line. A first word of `python` is the interpreter the job runs with."""

    argv: Annotated[tuple[LongText, ...], msgspec.Meta(min_length=1, max_length=10_000)]


class ShellCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="shell"):
    """A program that people type to: in a terminal of its own, or with its input piped to it."""

    argv: Annotated[tuple[LongText, ...], msgspec.Meta(max_length=10_000)] = ()  # else: $SHELL
    has_terminal: bool = True
    rows: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 24
    columns: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 80


class GeneratorCall(msgspec.Struct, frozen=True, kw_only=True, tag="generator"):
    """A function in the author's own process that adds the jobs of its trial, one by one.

    Nothing is started for it: the author's process says when it is done.
    """

    qualname: ShortText = ""
    holder: ShortText = ""  # who holds the experiment open meanwhile


class ExternalCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="external"):
    """A process that runs already and was not started by us: it says itself when it is done."""

    argv: Annotated[tuple[LongText, ...], msgspec.Meta(max_length=10_000)] = ()


Executable = FunctionCall | ProcessCall | ShellCall | GeneratorCall | ExternalCall


class Code(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The snapshot a job runs in, and where in it."""

    tree: Digest | None = None
    root: PathText = ""  # where the tree was on the author's machine
    workdir: PathText = "."  # relative to the tree's root
    import_paths: tuple[PathText, ...] = ()  # relative to the tree's root, in order


class Python(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The interpreter a job runs with."""

    executable: PathText = ""  # empty: the machine's own
    version: ShortText = ""  # "3.11"
    extra_paths: tuple[PathText, ...] = ()  # absolute, on the author's machine
    packages: tuple[ShortText, ...] = ()  # as the user wrote them
    lock: Digest | None = None  # the blob that pins what `packages` came to


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """Something outside the snapshot that a replica sees under a path."""

    target: PathText
    source: PathText


class Role(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Replicas that do the same thing."""

    executable: Executable
    name: RoleName = "main"
    replicas: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 1
    resources: Resources = Resources()
    env: dict[EnvName, LongText] = {}
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    service: bool = False
    code: Code | None = None  # where it is another than the job's
    kubernetes: KubernetesOptions | None = None  # where the job's backend is a cluster


class Keep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which checkpoints of a trial stay when another comes; the newest always does."""

    last: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    best: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    metric: ShortText = ""
    is_max: bool = False  # whether the greatest values of the metric are the best
    is_last_given: bool = False  # then `last` decides on those without a value of the metric, too


class Begin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The checkpoint of another trial that a job finds until it has saved one of its own."""

    uid: ShortText
    name: PathText
    manifest: Digest
    is_folder: bool = False
    step: int | None = None


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that is decided about a job before it runs."""

    roles: Annotated[tuple[Role, ...], msgspec.Meta(min_length=1, max_length=64)]
    code: Code = Code()
    python: Python = Python()
    backend: ShortText = LOCAL
    volumes: tuple[Volume, ...] = ()
    secret_names: tuple[EnvName, ...] = ()
    framework: ShortText = ""
    restart_scope: RestartScope = RestartScope.REPLICA
    backoff_limit: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 6
    active_deadline: Annotated[float, msgspec.Meta(gt=0)] | None = None
    ttl_after_finished: Annotated[float, msgspec.Meta(ge=0)] | None = None
    clean_policy: CleanPolicy = CleanPolicy.RUNNING
    success_policy: SuccessPolicy = SuccessPolicy.DEFAULT
    suspend: bool = False
    priority: Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)] = 0
    keep: Keep | None = None  # none: all checkpoints stay
    begin: Begin | None = None

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the job's backend."""
        return capabilities_of(self.backend)

    @property
    def restarts_together(self) -> bool:
        """Whether all replicas restart when one of them does."""
        match self.restart_scope:
            case RestartScope.JOB:
                return True
            case RestartScope.REPLICA:
                return False
            case _:
                return assert_never(self.restart_scope)

    def role(self, name: str) -> Role:
        """The role of that name."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What a replica is given when it starts, beyond what its job says."""

    devices: tuple[int, ...] = ()  # its accelerators
    addresses: dict[str, str] = {}  # of all replicas of the job: "role-index" -> "host:port"
    seconds: float | None = None  # that are left of the job's deadline


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as controller and runtimes handle it: its identity and what it is."""

    uid: str
    trial_id: int
    spec: JobSpec
    # What its program is told of it: see `wl.current_trial`.
    name: str = ""
    experiment: str = ""
    params: dict[str, Any] = {}
