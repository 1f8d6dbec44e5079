"""A job's specification: the code to run, the roles, and the restart and cleanup policies."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import msgspec

from windlass.model.backends import LOCAL, Capabilities, capabilities_of
from windlass.model.exhaustive import assert_never
from windlass.model.hardware.resources import Resources
from windlass.model.kubernetes.job_options import KubernetesOptions

# The patterns end in \Z, because $ would accept a trailing line break.
Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
# The digest of any blob. Checkpoint files may use a different hash (worker/blobs/digest.py).
BlobDigest = Annotated[str, msgspec.Meta(pattern=r"^(b3-)?[0-9a-f]{64}\Z")]
RoleName = Annotated[str, msgspec.Meta(pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?\Z")]
EnvName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}\Z")]
ShortText = Annotated[str, msgspec.Meta(max_length=1024)]
LongText = Annotated[str, msgspec.Meta(max_length=1_000_000, pattern=r"^[^\x00]*\Z")]
PathText = Annotated[str, msgspec.Meta(max_length=4096, pattern=r"^[^\x00]*\Z")]


class RestartPolicy(str, Enum):
    """When to restart a replica that has ended."""

    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    EXIT_CODE = "ExitCode"


class RestartScope(str, Enum):
    """What to restart when a replica restarts: only this replica, or all replicas."""

    REPLICA = "replica"
    JOB = "job"


class CleanPolicy(str, Enum):
    """Which replicas to delete when the job ends."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class SuccessPolicy(str, Enum):
    """Which replicas must succeed for the job to succeed.

    By default, the job's framework decides.
    """

    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"
    LEADER = "Leader"  # the chief or master, for any framework


class MainModule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `__main__` of the process that pickled a call. The replica creates the same module."""

    path: PathText = ""  # the script, relative to the snapshot's root; "" if there is none
    module: ShortText = ""  # the module's name, if it was started with `python -m`
    argv: Annotated[tuple[LongText, ...], msgspec.Meta(max_length=10_000)] = ()
    is_run: bool = False  # whether the replica runs the script, without its guarded part


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True, tag="function"):
    """A pickled function with its arguments.

    Only the replica unpickles the call, never the server.
    """

    payload: Digest
    qualname: ShortText = ""
    changes: Digest | None = None  # pickled arguments, by name, that replace the original ones
    main: MainModule | None = None  # None if the call refers to nothing in `__main__`


class ProcessCall(msgspec.Struct, frozen=True, kw_only=True, tag="process"):
    """A command line. If its first word is `python`, the job's interpreter runs it."""

    argv: Annotated[tuple[LongText, ...], msgspec.Meta(min_length=1, max_length=10_000)]


class ShellCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="shell"):
    """An interactive program, which has a terminal or reads piped input."""

    argv: Annotated[tuple[LongText, ...], msgspec.Meta(max_length=10_000)] = ()  # if empty, $SHELL
    has_terminal: bool = True
    rows: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 24
    columns: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 80


class GeneratorCall(msgspec.Struct, frozen=True, kw_only=True, tag="generator"):
    """A generator: a function that adds jobs to an experiment.

    It runs in the user's own process, which reports when it is done. Windlass starts no process for
    it.
    """

    qualname: ShortText = ""
    holder: ShortText = ""  # the client that keeps the experiment open while the function runs


class ExternalCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="external"):
    """A process that Windlass did not start. The process itself reports its end."""

    argv: Annotated[tuple[LongText, ...], msgspec.Meta(max_length=10_000)] = ()


Executable = FunctionCall | ProcessCall | ShellCall | GeneratorCall | ExternalCall


class PackageImport(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of `sys.path` and its copy in the snapshot.

    `entry` is empty if an import hook, rather than `sys.path`, names the folder.
    """

    entry: PathText
    path: PathText  # relative to the snapshot's root


class OutsideLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that leads outside the project. The files behind it are not in the snapshot."""

    path: PathText  # relative to the snapshot's root
    target: PathText


class OutsidePackage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Code outside the project that a job can import, such as an editable install.

    If it was not captured, `folder` is empty, and `reason` says why. `state` is then a digest of
    the names, sizes and times of its files, if they could be listed.
    """

    name: ShortText
    path: PathText  # its folder on the author's machine
    folder: PathText = ""  # its folder in the snapshot
    imports: tuple[PackageImport, ...] = ()
    is_partial: bool = False  # the job may import other modules from there, too
    state: ShortText = ""
    reason: ShortText = ""


class Code(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The snapshot of a job's code, and the working directory inside it."""

    tree: Digest | None = None
    root: PathText = ""  # the path of the project on the author's machine
    workdir: PathText = "."  # relative to the snapshot's root
    import_paths: tuple[PathText, ...] = ()  # relative to the snapshot's root, in order
    functions: tuple[ShortText, ...] = ()  # recorded functions and classes without a project file
    packages: tuple[OutsidePackage, ...] = ()  # code outside the project, such as editable installs
    links: tuple[OutsideLink, ...] = ()  # links that lead outside the project, at most 100


class Python(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job's interpreter."""

    executable: PathText = ""  # if empty, the interpreter on the machine that runs the job
    version: ShortText = ""  # "3.11"
    extra_paths: tuple[PathText, ...] = ()  # absolute paths on the author's machine
    packages: tuple[ShortText, ...] = ()  # as the user wrote them
    lock: Digest | None = None  # the blob with the resolved versions of `packages`


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """A path outside the snapshot that a replica can access."""

    target: PathText
    source: PathText


class Role(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Identical replicas with a common name, such as "worker"."""

    executable: Executable
    name: RoleName = "main"
    replicas: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 1
    resources: Resources = Resources()
    env: dict[EnvName, LongText] = {}
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    service: bool = False
    code: Code | None = None  # set only if it differs from the job's code
    kubernetes: KubernetesOptions | None = None  # set only if the job's backend is a cluster


class Keep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rule that decides which of a trial's checkpoints to keep.

    The newest checkpoint is always kept.
    """

    last: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    best: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    metric: ShortText = ""
    is_max: bool = False  # True if higher values of the metric are better
    has_last: bool = False  # True if `last` also covers checkpoints without the metric


class Begin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another trial's checkpoint, from which the job starts.

    Once the job has saved a checkpoint of its own, restarted replicas load its own checkpoint
    instead.
    """

    uid: ShortText
    name: PathText
    manifest: Digest
    is_folder: bool = False
    step: int | None = None


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job's complete specification, which is fixed before the job runs."""

    roles: Annotated[tuple[Role, ...], msgspec.Meta(min_length=1, max_length=64)]
    code: Code = Code()
    python: Python = Python()
    backend: ShortText = LOCAL
    volumes: tuple[Volume, ...] = ()
    secret_names: tuple[EnvName, ...] = ()
    framework: ShortText = ""
    restart_scope: RestartScope = RestartScope.REPLICA
    backoff_limit: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 6
    stop_on_repeat: bool = False  # fail if two attempts in a row end early with the same exception
    active_deadline: Annotated[float, msgspec.Meta(gt=0)] | None = None
    ttl_after_finished: Annotated[float, msgspec.Meta(ge=0)] | None = None
    clean_policy: CleanPolicy = CleanPolicy.RUNNING
    success_policy: SuccessPolicy = SuccessPolicy.DEFAULT
    suspend: bool = False
    priority: Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)] = 0
    keep: Keep | None = None  # None to keep all checkpoints
    begin: Begin | None = None

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the job's backend."""
        return capabilities_of(self.backend)

    @property
    def restarts_together(self) -> bool:
        """True if all replicas restart whenever one restarts."""
        match self.restart_scope:
            case RestartScope.JOB:
                return True
            case RestartScope.REPLICA:
                return False
            case _:
                return assert_never(self.restart_scope)

    def role(self, name: str) -> Role:
        """Return the role with this name."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """The resources and addresses that a replica receives when it starts."""

    devices: tuple[int, ...] = ()  # indices of the replica's accelerators
    addresses: dict[str, str] = {}  # the job's replicas: "role-index" -> "host:port"
    seconds: float | None = None  # seconds until the job's deadline


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its identity, as used by the controller and the runtimes."""

    uid: str
    trial_id: int
    spec: JobSpec
    # Values that `wl.current_trial` returns to the program.
    name: str = ""
    experiment: str = ""
    params: dict[str, Any] = {}
