"""Defines `wl.QueueEntry` and `wl.Task`, which describe queued trials and replicas' attempts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.client.connection.pages import Listing, walk
from windlass.client.connection.transport import request_path
from windlass.model.text.times import to_datetime

if TYPE_CHECKING:
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.queue import TaskRecord
    from windlass.model.status import Pod


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one replica in a trial, with its resources, machine and outcome.

    ```python
    for task in wl.get_trial(1).list_tasks():
        print(task.name, task.attempt, task.state, task.node, task.cpus, task.exit_code)
    ```

    `state` is `Queued`, `Pending`, `Running`, `Succeeded`, `Failed`, or `Unknown` if the machine
    does not respond. `devices` contains the accelerators' numbers. `memory` is in bytes, and 0
    means no limit. `pid` is the process id while the task is running. A task in a cluster has a
    `pod` with `namespace`, `name`, `image`, `image_id`, `python` and `platform`.
    """

    trial_id: int
    role: str
    index: int
    attempt: int
    state: str
    cpus: float
    memory: int
    devices: tuple[int, ...]
    node: str
    address: str
    pod: Pod | None
    pid: int | None
    started: datetime | None
    ended: datetime | None
    exit_code: int | None
    signal: str
    reason: str
    message: str

    @property
    def name(self) -> str:
        """The replica's role and index, such as `worker-1`."""
        return f"{self.role}-{self.index}"

    def __repr__(self) -> str:
        """Return a short text with the task's name and state."""
        code = "" if self.exit_code is None else f", exit code {self.exit_code}"
        where = f" on {self.node}" if self.node else ""
        return f"<Task {self.name} attempt {self.attempt}: {self.state}{code}{where}>"


class QueueEntry:
    """A trial that is waiting for capacity. `position` counts from 1, and `why` is the reason.

    `ahead` is the id of the trial directly ahead in the queue, or None at the head.

    ```python
    for entry in wl.list_queue():
        print(entry.position, entry.trial.name, entry.why)
    ```
    """

    def __init__(self, trial: Trial[Any], position: int, why: str, ahead: int | None) -> None:
        self.trial = trial
        self.position = position
        self.why = why
        self.ahead = ahead

    def __repr__(self) -> str:
        return (
            f"<QueueEntry {self.position}: trial {self.trial.id} ({self.trial.name}), {self.why}>"
        )


def list_tasks(transport: Transport, trial_id: int, limit: int | None) -> Listing[Task]:
    """List every attempt of a trial's replicas, fetching pages on demand."""
    from windlass.model.queue import TaskPage

    records = walk(transport, request_path("trials", trial_id, "tasks"), TaskPage, {}, limit)
    return records.map(_task)


def _task(record: TaskRecord) -> Task:
    times = {"started": to_datetime(record.started), "ended": to_datetime(record.ended)}
    return Task(**{**msgspec.structs.asdict(record), **times})


def list_queue(transport: Transport, limit: int | None) -> Listing[QueueEntry]:
    """List the queued trials in queue order, fetching pages on demand."""
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.queue import QueuePage

    records = walk(transport, "/queue", QueuePage, {}, limit)
    return records.map(
        lambda entry: QueueEntry(
            Trial(transport, entry.trial), entry.position, entry.why, entry.ahead
        )
    )
