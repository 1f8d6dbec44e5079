"""Requests and answers of the HTTP API that are not records themselves.

Those of one noun alone are in its own file: `logs`, `metrics`, `queue`, `outputs`, `places`, ...
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

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
from windlass.model.resources import Capacity

API = "/api/v1"
VERSION_HEADER = "Windlass-Version"

# The largest blob that travels inside a request; larger ones are uploaded before.
INLINE_LIMIT = 256 * 1024

TrialKey = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+\Z")]

Priority = Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)]
Labels = Annotated[tuple[Name, ...], msgspec.Meta(max_length=100)]
Text = Annotated[str, msgspec.Meta(max_length=100_000)]

Url = Annotated[str, msgspec.Meta(max_length=2000, pattern=r"^[A-Za-z][A-Za-z0-9+.-]*://\S+\Z")]
FileName = Annotated[
    str, msgspec.Meta(max_length=200, pattern=r"^(?!\.{1,2}\Z)[^/\x00-\x1f\x7f]+\Z")
]


class Private(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a trial may know and no record may: kept in an owner-only file, erased at its end."""

    # The author's own environment, on the same machine only. That no value holds a NUL is seen to
    # when a trial is taken in: a pattern takes longer for hundreds of them than all the rest.
    environ: dict[str, Annotated[str, msgspec.Meta(max_length=1_000_000)]] = {}
    secrets: dict[EnvName, LongText] = {}
    # Of the author's process: what its files may be, how many it may have open.
    umask: Annotated[int, msgspec.Meta(ge=0, le=0o777)] | None = None
    open_files: Annotated[int, msgspec.Meta(ge=3)] | None = None


class CreateTrial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for a trial. Sent twice with one key, it makes one trial."""

    key: TrialKey
    experiment: Name  # the newest of that name, made if there is none; unless there is an id
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
    """Ask for an experiment. Sent twice with one key, it makes one."""

    key: TrialKey
    name: Name
    project: Name = "default"
    labels: Labels = ()
    description: Text = ""
    config: dict[str, Any] = {}
    exist_ok: bool = False  # then the one of that name in that project, if there is one
    priority: Priority = 0


class ChangeLabels(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Have other labels: all of them replaced, then some added, then some removed."""

    labels: Labels | msgspec.UnsetType = msgspec.UNSET
    add_labels: Labels = ()
    remove_labels: Labels = ()


class ChangeTrial(ChangeLabels, frozen=True, kw_only=True, omit_defaults=True):
    """Have other labels, another name or other texts; what is not given stays."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    description: Text | msgspec.UnsetType = msgspec.UNSET
    notes: Text | msgspec.UnsetType = msgspec.UNSET


class ChangeExperiment(ChangeTrial, frozen=True, kw_only=True, omit_defaults=True):
    """Have other metadata; what is not given stays.

    What is put or removed by name leaves the others as they are, whoever else changes them.
    """

    project: Name | int | msgspec.UnsetType = msgspec.UNSET  # the one to move to
    priority: Priority | msgspec.UnsetType = msgspec.UNSET
    archived: bool | msgspec.UnsetType = msgspec.UNSET
    config: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    searches: dict[Name, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    put_links: dict[Name, Url] = {}
    remove_links: tuple[Name, ...] = ()
    put_artifacts: dict[FileName, Digest] = {}  # of blobs that are there
    remove_artifacts: tuple[FileName, ...] = ()
    # One that exists keeps the settings it has, and can only be given more trials.
    put_searches: dict[Name, dict[str, Any]] = {}


class AskToStop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Have `should_stop` say yes in a trial: it is to end by itself."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class Built(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Say that the generator of a trial is done: it added all its jobs, or raised."""

    error: ErrorInfo | None = None


class StopTrial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask a trial to stop; `grace` seconds pass between asking its processes and killing them."""

    grace: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 10.0
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
    force: bool = False  # what runs where nobody answers is given up


class ScaleTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Have other numbers of replicas, by role."""

    replicas: Annotated[
        dict[RoleName, Annotated[int, msgspec.Meta(ge=0, le=10_000)]], msgspec.Meta(min_length=1)
    ]


class ShellSize(msgspec.Struct, frozen=True, kw_only=True):
    """How large the terminal of a shell is."""

    rows: Annotated[int, msgspec.Meta(ge=1, le=10_000)]
    columns: Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class ShellTaken(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the bytes that were typed a shell has taken: none, if it reads nothing."""

    taken: int


class TrialPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some trials, and where the next ones begin."""

    items: tuple[TrialRecord, ...]
    next: str | None = None
    hint: str = ""  # of a list that is empty: a name that was asked for and no trial has


class ExperimentPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some experiments, and where the next ones begin."""

    items: tuple[ExperimentRecord, ...]
    next: str | None = None


class CheckpointPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some checkpoints, and where the next ones begin."""

    items: tuple[CheckpointRecord, ...]
    next: str | None = None


class ChangeCheckpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Have other metadata: some entries put, then some removed; the others stay."""

    put_metadata: dict[Name, Any] = {}
    remove_metadata: tuple[Name, ...] = ()


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last event of a trial's stream; a small result or exception comes along."""

    trial: TrialRecord
    result: bytes | None = None
    error: bytes | None = None


class BlobsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Which of some blobs the server lacks."""

    missing: tuple[BlobDigest, ...] = ()


class SnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the server still lacks of a tree; the tree is known once nothing is missing."""

    tree: Digest
    missing: tuple[Digest, ...] = ()


# Blobs that are asked for at once: as many as a tree may have files.
MOST_FETCHED = 20_000


class FetchBlobs(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for blobs, to be answered with one pack; those that are not there are left out."""

    digests: Annotated[tuple[BlobDigest, ...], msgspec.Meta(min_length=1, max_length=MOST_FETCHED)]


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """The trials that are gone."""

    trials: tuple[int, ...]


class CollectGarbage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Have what nothing has needed for so many seconds removed, or only told of."""

    older_than: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 3600.0
    dry_run: bool = False


class GarbageReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was removed, or would be.

    ```python
    report = wl.gc(dry_run=True)
    print(f"{report.bytes / 1e6:.1f} MB could be freed")
    ```
    """

    blobs: int = 0  # contents that nothing points to
    bytes: int = 0  # what those and the folders took
    folders: int = 0  # of trials that are gone
    kept: int = 0  # contents that are kept
    young: int = 0  # of those, how many only because they are young, or held by somebody


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The server, as `windlass server status` shows it."""

    version: str
    pid: int
    home: str
    started: float
    url: str = ""
    host: str = ""
    python: str = ""
    trials_running: int = 0
    trials_queued: int = 0
    capacity: Capacity
    cpus_free: float = 0.0
    memory_free: int = 0
    devices_free: int = 0
    # Looks that the controller has taken at jobs, and the seconds that half of them, and all but
    # one of a hundred, took at most.
    reconciles: int = 0
    reconcile_p50: float = 0.0
    reconcile_p99: float = 0.0


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error as the API tells it."""

    code: str
    message: str
    hint: str | None = None
    missing: tuple[str, ...] = ()  # blobs to upload first, with the code "missing_blobs"
