"""Everything the API works with, in one value."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from windlass.controller.admission import AdmissionQueue
from windlass.controller.loop import Controller
from windlass.home import Home
from windlass.model.resources import Capacity
from windlass.runtimes.choosing import Runtimes
from windlass.server.blobs import BlobStore
from windlass.server.checkpoints import CheckpointReader, CheckpointStore
from windlass.server.database import Database
from windlass.server.experiments import ExperimentStore
from windlass.server.garbage import Garbage
from windlass.server.holding import Holds
from windlass.server.hub import Hub
from windlass.server.kinship import Kinship
from windlass.server.logs import LogStore
from windlass.server.metrics import MetricReader
from windlass.server.outputs import OutputStore
from windlass.server.places import PlaceStore
from windlass.server.private import PrivateFiles
from windlass.server.registry import ModelStore
from windlass.server.templates import TemplateStore
from windlass.server.trials import TrialStore


@dataclass
class Services:
    """The parts of a running server."""

    home: Home
    database: Database
    trials: TrialStore
    kinship: Kinship
    experiments: ExperimentStore
    places: PlaceStore
    models: ModelStore
    templates: TemplateStore
    blobs: BlobStore
    garbage: Garbage
    logs: LogStore
    outputs: OutputStore
    metrics: MetricReader
    checkpoints: CheckpointStore
    saved: CheckpointReader
    private: PrivateFiles
    hub: Hub
    holds: Holds
    runtime: Runtimes
    admission: AdmissionQueue
    controller: Controller
    capacity: Capacity
    started: float
    url: str = ""
    urls: tuple[str, ...] = ()  # where others reach it; none if it is for this machine alone
    moving: asyncio.Lock = field(default_factory=asyncio.Lock)  # one move in the queue at a time
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # that outlive their requests
