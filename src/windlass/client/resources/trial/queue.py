"""Entries of the queue, and the tasks of a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from windlass.client.connection.pages import Listing, walk
from windlass.client.connection.transport import request_path

if TYPE_CHECKING:
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.status import Pod


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one replica of a trial: its resources, its machine, its end.

    ```python
    for task in wl.get_trial(1).list_tasks():
        print(task.name, task.attempt, task.state, task.node, task.cpus, task.exit_code)
    ```

    `state` is `Queued` or `Pending` before it runs, `Running`, `Succeeded`, `Failed`, or `Unknown`
    if its machine does not respond. `devices` are the numbers of its accelerators, `memory` is in
    bytes (0: no limit), `pid` is the id of its process while it runs. A task in a cluster has a
    `pod`: its `namespace`, `name`, `image`, `image_id`, and the `python` and `platform` in it.
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
    started: float | None
    ended: float | None
    exit_code: int | None
    signal: str
    reason: str
    message: str

    @property
    def name(self) -> str:
        """The role and index: `worker-1`."""
        return f"{self.role}-{self.index}"

    def __repr__(self) -> str:
        """Return a short text with the name and the state."""
        code = "" if self.exit_code is None else f", exit code {self.exit_code}"
        where = f" on {self.node}" if self.node else ""
        return f"<Task {self.name} attempt {self.attempt}: {self.state}{code}{where}>"


class QueueEntry:
    """A trial that waits for capacity: `trial`, its `position` from 1, and `why` it waits.

    `ahead` is the id of the trial right ahead of it, None for the first.

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
    """List every attempt of every replica of a trial, lazily, a page at a time."""
    from windlass.model.queue import TaskPage

    records = walk(transport, request_path("trials", trial_id, "tasks"), TaskPage, {}, limit)
    return records.map(lambda record: Task(**msgspec.structs.asdict(record)))


def list_queue(transport: Transport, limit: int | None) -> Listing[QueueEntry]:
    """List the queued trials in their order, lazily, a page at a time."""
    from windlass.client.resources.trial.trial import Trial
    from windlass.model.queue import QueuePage

    records = walk(transport, "/queue", QueuePage, {}, limit)
    return records.map(
        lambda entry: QueueEntry(
            Trial(transport, entry.trial), entry.position, entry.why, entry.ahead
        )
    )
