"""Who waits for room, and what those that were let in were given."""

from __future__ import annotations

from typing import Annotated

import msgspec

from windlass.model.records import TrialRecord
from windlass.model.requests import Priority
from windlass.model.status import Pod


class SetPriority(msgspec.Struct, frozen=True, kw_only=True):
    """Have another priority: the higher is let in first."""

    priority: Priority


class MoveTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Have a trial that waits stand right ahead of another that does."""

    ahead_of: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class QueuePlace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A trial that waits for room."""

    trial: TrialRecord
    position: int  # from 1
    why: str  # what it needs and what is free of it
    ahead: int | None = None  # the trial right ahead of it


class QueuePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of those who wait, and where the next ones begin."""

    items: tuple[QueuePlace, ...]
    next: str | None = None


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt of one replica, with what it was given and how it went."""

    trial_id: int
    role: str
    index: int
    attempt: int = 0  # 0 is before the first
    state: str = "Queued"  # or Pending, Running, Succeeded, Failed, Unknown
    cpus: float = 0.0
    memory: int = 0  # bytes; 0 is no limit
    devices: tuple[int, ...] = ()  # the accelerators it was given
    node: str = ""
    address: str = ""
    pod: Pod | None = None  # of one that runs in a cluster
    pid: int | None = None  # of its process, while that runs
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    signal: str = ""
    reason: str = ""
    message: str = ""


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some tasks of a trial, and where the next ones begin."""

    items: tuple[TaskRecord, ...]
    next: str | None = None
