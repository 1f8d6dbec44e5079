"""The queue of waiting trials, and running trials' tasks (attempts of replicas)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from windlass.model.records import TrialRecord
from windlass.model.requests import Priority
from windlass.model.status import Pod


class SetPriority(msgspec.Struct, frozen=True, kw_only=True):
    """Set a trial's priority. The queue admits trials with a higher priority first."""

    priority: Priority


class MoveTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Move a waiting trial directly ahead of another waiting trial."""

    ahead_of: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The queue position of a trial that is waiting for capacity."""

    trial: TrialRecord
    position: int  # counts from 1
    why: str  # names the needed and the free resources
    ahead: int | None = None  # the trial directly ahead


class QueuePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the queue, with the cursor for the next page."""

    items: tuple[QueueRecord, ...]
    next: str | None = None


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task: one attempt of one replica, with its resources and outcome."""

    trial_id: int
    role: str
    index: int
    attempt: int = 0  # 0 until the first attempt starts
    state: str = "Queued"  # or Pending, Running, Succeeded, Failed, Unknown
    cpus: float = 0.0
    memory: int = 0  # bytes; 0 means unlimited
    devices: tuple[int, ...] = ()  # indices of the task's accelerators
    node: str = ""
    address: str = ""
    pod: Pod | None = None  # set only in a cluster
    pid: int | None = None  # set only while the process runs
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    signal: str = ""
    reason: str = ""
    message: str = ""


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a trial's tasks, with the cursor for the next page."""

    items: tuple[TaskRecord, ...]
    next: str | None = None
