"""Requests and responses in the HTTP API. Records such as `TrialRecord` are in `records`.

Requests and responses about a specific noun are in that noun's file: `logs`, `metrics`, `queue`,
`outputs`, `workspaces` and so on.
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
CHALLENGE_HEADER = "Windlass-Challenge"  # a header in requests for /health
PROOF_HEADER = "Windlass-Proof"  # a header in the response, with the result of `prove`

# The maximum size in bytes of a blob (stored content) inside a request. Larger blobs are uploaded
# first.
INLINE_LIMIT = 256 * 1024

# In a pack of blobs, this bit in a length marks a blob that is a snapshot's file list.
MANIFEST_FLAG = 1 << 56

TrialKey = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
# Control characters (including those beyond ASCII), line separators, and characters that change the
# text direction.
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
    """A trial's confidential inputs.

    The server stores them in a file that only its owner can read, and deletes it when the trial
    ends.
    """

    # The author's environment variables, sent only within one machine. The server checks the values
    # for NUL when it accepts the trial, because a pattern here would slow down decoding.
    environ: dict[str, Annotated[str, msgspec.Meta(max_length=1_000_000)]] = {}
    secrets: dict[EnvName, LongText] = {}
    # The umask and open-file limit of the author's process.
    umask: Annotated[int, msgspec.Meta(ge=0, le=0o777)] | None = None
    open_files: Annotated[int, msgspec.Meta(ge=3)] | None = None


# A list of trials contains all their parameters, so these limits bound the size of a page.
LARGEST_PARAM = 64 << 10  # bytes of JSON
LARGEST_PARAMS = 256 << 10  # bytes of JSON in total


class CreateTrial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request a new trial. Repeating the request with the same key creates no second trial.

    `authoring/prepare/draft.py` builds most of these requests.
    """

    key: TrialKey
    # the newest experiment with this name, created if missing; ignored if an id is set
    experiment: Name
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


MOST_TRIALS = 1000  # trials per request


class CreateTrials(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request several trials. Either all or none of them are created.

    The private data, the provenance and the attachments apply to every trial in the list, whose
    entries have none of their own.
    """

    trials: Annotated[tuple[CreateTrial, ...], msgspec.Meta(min_length=1, max_length=MOST_TRIALS)]
    provenance: Provenance = Provenance()
    attachments: dict[Digest, bytes] = {}
    private: Private = msgspec.field(default_factory=Private)


class CreateExperiment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request a new experiment. Repeating the request with the same key creates no second one."""

    key: TrialKey
    name: Name
    project: Name = "default"
    labels: Labels = ()
    description: Text = ""
    config: dict[str, Any] = {}
    exist_ok: bool = False  # return the existing experiment with this name, if any
    priority: Priority = 0


class ChangeLabels(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Change labels: first replace all, then add some, then remove some."""

    labels: Labels | msgspec.UnsetType = msgspec.UNSET
    add_labels: Labels = ()
    remove_labels: Labels = ()


class ChangeTrial(ChangeLabels, frozen=True, kw_only=True, omit_defaults=True):
    """Change a trial's labels, name, description or notes. Omitted fields stay unchanged."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    description: Text | msgspec.UnsetType = msgspec.UNSET
    notes: Text | msgspec.UnsetType = msgspec.UNSET


class ChangeExperiment(ChangeTrial, frozen=True, kw_only=True, omit_defaults=True):
    """Change an experiment's metadata. Omitted fields stay unchanged.

    Links and artifacts are added and removed by name, so that concurrent changes to other entries
    are kept.
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
    # An existing search keeps its settings. A request can only add trials to it.
    put_searches: dict[Name, dict[str, Any]] = {}


class AskToStop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask a trial's program to stop, by making `wl.should_stop` return True in the program."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Built(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Report that a trial's generator has finished, with any error that it raised."""

    error: ErrorInfo | None = None


class StopTrial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stop a trial. After a signal, its processes have `grace` seconds before they are killed.

    The signal is SIGTERM. If `interrupt` is true, SIGINT comes first, as after Ctrl-C in a
    terminal, and SIGTERM follows after half of the time.
    """

    grace: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 10.0
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
    interrupt: bool = False
    force: bool = False  # if True, do not wait for processes on unreachable machines


class ScaleTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Change the number of replicas per role."""

    replicas: Annotated[
        dict[RoleName, Annotated[int, msgspec.Meta(ge=0, le=10_000)]], msgspec.Meta(min_length=1)
    ]


class ShellSize(msgspec.Struct, frozen=True, kw_only=True):
    """A shell terminal's number of rows and columns."""

    rows: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    columns: Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class ShellTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The number of typed bytes that a shell has accepted, or 0 while it reads no input."""

    taken: int


class TrialPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of trials, with the cursor for the next page."""

    items: tuple[TrialRecord, ...]
    next: str | None = None
    hint: str = ""  # for an empty list: a name in the query that no trial has


class ExperimentPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of experiments, with the cursor for the next page."""

    items: tuple[ExperimentRecord, ...]
    next: str | None = None


class CheckpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of checkpoints, with the cursor for the next page."""

    items: tuple[CheckpointRecord, ...]
    next: str | None = None


class ChangeCheckpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Change a checkpoint's metadata: first set entries, then remove some.

    All other entries are kept.
    """

    put_metadata: dict[Name, Any] = {}
    remove_metadata: tuple[Name, ...] = ()


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last event in a trial's event stream, which includes a small result or exception."""

    trial: TrialRecord
    result: bytes | None = None
    error: bytes | None = None


class BlobsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The digests of requested blobs that the server lacks."""

    missing: tuple[BlobDigest, ...] = ()


class SnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshot's blobs that the server lacks. If there are none, the snapshot is complete."""

    tree: Digest
    missing: tuple[Digest, ...] = ()


# The maximum number of blobs per request, and of files in a snapshot.
MOST_FETCHED = 20_000


class FetchBlobs(msgspec.Struct, frozen=True, kw_only=True):
    """Request several blobs as one pack. Missing blobs are left out."""

    digests: Annotated[tuple[BlobDigest, ...], msgspec.Meta(min_length=1, max_length=MOST_FETCHED)]


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of the deleted trials."""

    trials: tuple[int, ...]


class CollectGarbage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Delete data that has been unused for `older_than` seconds.

    A dry run only reports that data.
    """

    older_than: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 3600.0
    dry_run: bool = False
    set_aside: bool = False  # move the folders of unknown trials to a separate folder


class UnknownFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A trial's folder without a database record, such as after restoring an older backup."""

    name: str
    bytes: int
    modified: float


class GarbageReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data that garbage collection deleted, or that a dry run would delete.

    ```python
    report = wl.gc(dry_run=True)
    print(f"{report.bytes / 1e6:.1f} MB could be freed")
    ```
    """

    blobs: int = 0  # stored content that nothing refers to
    bytes: int = 0  # the total size of the deleted content and folders
    folders: int = 0  # folders of deleted trials
    kept: int = 0  # content that is kept
    young: int = 0  # kept content that nothing refers to, but that is recent or protected
    unknown: tuple[UnknownFolder, ...] = ()  # at most 1,000 folders, which are never deleted
    unknown_count: int = 0
    set_aside: str = ""  # the folder to which unknown folders were moved


class Adopted(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a request to make a copied home independent of its original."""

    original: str
    unfinished: int  # trials that the next server will either continue or record as lost


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The information that `windlass server status` shows about a server."""

    version: str
    pid: int
    home: str
    started: float
    url: str = ""
    host: str = ""
    copy_of: str = ""  # the original home, if the server's home is a copy
    python: str = ""
    trials_running: int = 0
    trials_queued: int = 0
    capacity: Capacity
    cpus_free: float = 0.0
    memory_free: int = 0
    devices_free: int = 0
    problem: str = ""  # why the server cannot start trials, or only in a limited way
    # How often the controller has reconciled jobs, and how long it took: the median and 99th
    # percentile in seconds.
    reconciles: int = 0
    reconcile_p50: float = 0.0
    reconcile_p99: float = 0.0


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error in an API response."""

    code: str
    message: str
    hint: str | None = None
    missing: tuple[str, ...] = ()  # for the code "missing_blobs": the blobs to upload first
