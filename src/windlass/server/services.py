"""The `Services` object, which holds all parts of the server that the API uses."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from windlass.controller.admission import AdmissionQueue
from windlass.controller.controller import Controller
from windlass.home import Home
from windlass.model.copied_home import describe_copy
from windlass.model.errors import Conflict
from windlass.model.hardware.resources import Capacity
from windlass.runtimes.base import ServerRuntime
from windlass.server.db.base import Database
from windlass.server.operations.experiment_leases import ExperimentLeases
from windlass.server.operations.shared_log_pages import SharedLogPages
from windlass.server.operations.trial_waits import TrialWaits
from windlass.server.space_reserve import SpaceReserve
from windlass.server.stores.artifacts import ArtifactStore
from windlass.server.stores.blobs.base import BlobStore
from windlass.server.stores.blobs.garbage import Garbage
from windlass.server.stores.blobs.unwritten import UnwrittenBlobs
from windlass.server.stores.checkpoints.store import CheckpointReader, CheckpointStore
from windlass.server.stores.experiments import ExperimentStore
from windlass.server.stores.home_identity import HomeIdentity
from windlass.server.stores.logs.base import LogStore
from windlass.server.stores.metrics.base import MetricStore
from windlass.server.stores.metrics.reader import MetricReader
from windlass.server.stores.models import ModelStore
from windlass.server.stores.private_files import PrivateFiles
from windlass.server.stores.templates import TemplateStore
from windlass.server.stores.trials.relations import TrialRelations
from windlass.server.stores.trials.store import TrialStore
from windlass.server.stores.workspaces import WorkspaceStore
from windlass.server.web.notifications import Hub


@dataclass
class Services:
    """The stores, the controller and the other parts of a running server."""

    home: Home
    identity: HomeIdentity
    database: Database
    trials: TrialStore
    relations: TrialRelations
    experiments: ExperimentStore
    workspaces: WorkspaceStore
    models: ModelStore
    templates: TemplateStore
    blobs: BlobStore
    unwritten: UnwrittenBlobs
    garbage: Garbage
    logs: LogStore
    log_pages: SharedLogPages
    outputs: ArtifactStore
    metrics: MetricStore
    metric_reader: MetricReader
    checkpoints: CheckpointStore
    checkpoint_reader: CheckpointReader
    private: PrivateFiles
    reserve: SpaceReserve
    hub: Hub
    leases: ExperimentLeases
    runtime: ServerRuntime
    nudge_path: str  # the path, also in `server.json`, of the socket for notifications from trials
    admission: AdmissionQueue
    waits: TrialWaits
    controller: Controller
    capacity: Capacity
    started: float
    url: str = ""
    # The URLs for other machines. Empty if the server listens on loopback only.
    urls: tuple[str, ...] = ()
    moving: asyncio.Lock = field(default_factory=asyncio.Lock)  # serializes moves in the queue
    # Tasks that continue after their requests.
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    last_activity: float = field(default_factory=time.monotonic)

    def note_activity(self) -> None:
        """Record that a client or trial needed the server just now. Thread-safe."""
        self.last_activity = time.monotonic()

    def has_work(self) -> bool:
        """Return whether any of this home's trials runs, waits for capacity or is being stopped."""
        return self.identity.original is None and self.trials.has_unsettled()

    def refuse_in_copy(self) -> None:
        """Raise Conflict if the home is a copy, because its trials belong to the original home."""
        if self.identity.original is not None:
            message, hint = describe_copy(str(self.home.path), self.identity.original)
            raise Conflict(message, hint=hint)
