"""Requests and responses of the HTTP API that are not records themselves.

Requests and responses about a single noun are in its own file: `logs`, `metrics`, `queue`,
`outputs`, `workspaces`, ...
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from windlass.model.hardware.resources import Capacity
from windlass.model.job import BlobDigest, Digest, EnvName, JobSpec, LongText, RoleName
from windlass.model.records import (
    CheckpointRecord,
    ErrorInfo,
    ExperimentRecord,
    Provenance,
    Recipe,
    TrialKind,
    TrialRecord,
)

API = "/api/v1"
VERSION_HEADER = "Windlass-Version"
API_LEVEL_HEADER = "Windlass-Api-Level"
CHALLENGE_HEADER = "Windlass-Challenge"  # on a request for /health
PROOF_HEADER = "Windlass-Proof"  # on the response, from `prove`

# The largest blob that is sent inside a request; larger blobs are uploaded first.
INLINE_LIMIT = 256 * 1024

# In a pack of blobs, added to the length of a blob that is the list of the files of a tree.
MANIFEST_FLAG = 1 << 56

TrialKey = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
# Control characters, also those above ASCII, line separators, and characters that change the
# direction of the text around them.
_CONTROLS = r"\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=rf"^[^{_CONTROLS}]+\Z")]

Priority = Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)]
Labels = Annotated[tuple[Name, ...], msgspec.Meta(max_length=100)]
Text = Annotated[str, msgspec.Meta(max_length=100_000)]

Url = Annotated[str, msgspec.Meta(max_length=2000, pattern=r"^[A-Za-z][A-Za-z0-9+.-]*://\S+\Z")]
FileName = Annotated[
    str, msgspec.Meta(max_length=200, pattern=rf"^(?!\.{{1,2}}\Z)[^/{_CONTROLS}]+\Z")
]


class Private(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Confidential inputs of a trial, in an owner-only file that is deleted when the trial ends."""

    # The author's own environment, only on the same machine. The server checks for NUL in values
    # when it accepts the trial: a pattern on hundreds of values takes longer than all other checks.
    environ: dict[str, Annotated[str, msgspec.Meta(max_length=1_000_000)]] = {}
    secrets: dict[EnvName, LongText] = {}
    # The umask and the limit of open files of the author's process.
    umask: Annotated[int, msgspec.Meta(ge=0, le=0o777)] | None = None
    open_files: Annotated[int, msgspec.Meta(ge=3)] | None = None


# Lists of trials have all parameters, so these bound the size of a page.
LARGEST_PARAM = 64 << 10  # bytes of JSON
LARGEST_PARAMS = 256 << 10  # together


class CreateTrial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request a trial. Repeated requests with the same key create one trial."""

    key: TrialKey
    experiment: Name  # the newest with this name, created if missing; ignored if there is an id
    experiment_id: int | None = None
    spec: JobSpec
    name: Name | None = None
    project: Name = "default"
    params: dict[str, Any] = {}
    provenance: Provenance = Provenance()
    attachments: dict[Digest, bytes] = {}
    private: Private = msgspec.field(default_factory=Private)
    labels: Labels = ()
    auxiliary: bool = False
    parent_id: int | None = None
    recipe: Recipe = Recipe()
    kind: TrialKind = TrialKind.JOB


class CreateExperiment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request an experiment. Repeated requests with the same key create one experiment."""

    key: TrialKey
    name: Name
    project: Name = "default"
    labels: Labels = ()
    description: Text = ""
    config: dict[str, Any] = {}
    exist_ok: bool = False  # return the existing experiment with this name, if any
    priority: Priority = 0


class ChangeLabels(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Change labels: replace all, then add some, then remove some."""

    labels: Labels | msgspec.UnsetType = msgspec.UNSET
    add_labels: Labels = ()
    remove_labels: Labels = ()


class ChangeTrial(ChangeLabels, frozen=True, kw_only=True, omit_defaults=True):
    """Change labels, name or texts; omitted fields stay unchanged."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    description: Text | msgspec.UnsetType = msgspec.UNSET
    notes: Text | msgspec.UnsetType = msgspec.UNSET


class ChangeExperiment(ChangeTrial, frozen=True, kw_only=True, omit_defaults=True):
    """Change metadata; omitted fields stay unchanged.

    Entries are put and removed by name, so that concurrent changes to other entries stay.
    """

    project: Name | int | msgspec.UnsetType = msgspec.UNSET  # the target project
    priority: Priority | msgspec.UnsetType = msgspec.UNSET
    archived: bool | msgspec.UnsetType = msgspec.UNSET
    config: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    searches: dict[Name, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    put_links: dict[Name, Url] = {}
    remove_links: tuple[Name, ...] = ()
    put_artifacts: dict[FileName, Digest] = {}  # digests of stored blobs
    remove_artifacts: tuple[FileName, ...] = ()
    # An existing search keeps its settings; a request can only add trials to it.
    put_searches: dict[Name, dict[str, Any]] = {}


class AskToStop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask a trial to stop by itself: its `should_stop` returns True."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Built(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Report that the generator of a trial has finished: it added all its jobs, or raised."""

    error: ErrorInfo | None = None


class StopTrial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stop a trial; `grace` seconds pass between asking its processes to stop and killing them."""

    grace: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 10.0
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
    force: bool = False  # give up processes on unreachable machines


class ScaleTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Change the number of replicas of each role."""

    replicas: Annotated[
        dict[RoleName, Annotated[int, msgspec.Meta(ge=0, le=10_000)]], msgspec.Meta(min_length=1)
    ]


class ShellSize(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a shell's terminal."""

    rows: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    columns: Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class ShellTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The number of typed bytes that a shell has accepted; 0 if it reads no input."""

    taken: int


class TrialPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of trials and the cursor of the next page."""

    items: tuple[TrialRecord, ...]
    next: str | None = None
    hint: str = ""  # for an empty list: a requested name that no trial has


class ExperimentPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of experiments and the cursor of the next page."""

    items: tuple[ExperimentRecord, ...]
    next: str | None = None


class CheckpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of checkpoints and the cursor of the next page."""

    items: tuple[CheckpointRecord, ...]
    next: str | None = None


class ChangeCheckpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Change metadata: put some entries, then remove some; other entries stay unchanged."""

    put_metadata: dict[Name, Any] = {}
    remove_metadata: tuple[Name, ...] = ()


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last event of a trial's stream, with a small result or exception inline."""

    trial: TrialRecord
    result: bytes | None = None
    error: bytes | None = None


class BlobsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The requested blobs that the server lacks."""

    missing: tuple[BlobDigest, ...] = ()


class SnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The blobs of a tree that the server lacks; the tree is complete once none is missing."""

    tree: Digest
    missing: tuple[Digest, ...] = ()


# The limit of blobs in one request: the limit of files in a tree.
MOST_FETCHED = 20_000


class FetchBlobs(msgspec.Struct, frozen=True, kw_only=True):
    """Request blobs in one pack, which omits missing blobs."""

    digests: Annotated[tuple[BlobDigest, ...], msgspec.Meta(min_length=1, max_length=MOST_FETCHED)]


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the deleted trials."""

    trials: tuple[int, ...]


class CollectGarbage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Delete data that has been unused for `older_than` seconds, or only report it."""

    older_than: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 3600.0
    dry_run: bool = False
    set_aside: bool = False  # move folders of unknown trials out of the way


class UnknownFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of a trial that the database does not know, such as a restored older database."""

    name: str
    bytes: int
    modified: float


class GarbageReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data that was deleted, or would be in a dry run.

    ```python
    report = wl.gc(dry_run=True)
    print(f"{report.bytes / 1e6:.1f} MB could be freed")
    ```
    """

    blobs: int = 0  # unreferenced contents
    bytes: int = 0  # total size of these contents and folders
    folders: int = 0  # folders of deleted trials
    kept: int = 0  # contents that stay
    young: int = 0  # kept contents that are unreferenced but recent or held
    unknown: tuple[UnknownFolder, ...] = ()  # at most 1,000; they are never deleted
    unknown_count: int = 0
    set_aside: str = ""  # the folder into which they were moved


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """A copied home that is a home of its own now."""

    original: str
    unfinished: int  # trials that the next server continues or records as lost


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The server, as `windlass server status` shows it."""

    version: str
    pid: int
    home: str
    started: float
    url: str = ""
    host: str = ""
    copy_of: str = ""  # the original home, if this home is a copy of it
    python: str = ""
    trials_running: int = 0
    trials_queued: int = 0
    capacity: Capacity
    cpus_free: float = 0.0
    memory_free: int = 0
    devices_free: int = 0
    # The number of reconciliations by the controller, and the median and 99th percentile of their
    # duration in seconds.
    reconciles: int = 0
    reconcile_p50: float = 0.0
    reconcile_p99: float = 0.0


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error in an API response."""

    code: str
    message: str
    hint: str | None = None
    missing: tuple[str, ...] = ()  # blobs to upload first, with the code "missing_blobs"
