"""Waiting for room, and what was given: places in the queue, tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from windlass.client.pages import Listing, walk
from windlass.client.transport import path_of
from windlass.model.errors import InvalidArgument, shown
from windlass.model.records import TrialRecord

if TYPE_CHECKING:
    from windlass.client.transport import Transport
    from windlass.client.trials import Trial
    from windlass.model.queue import TaskRecord
    from windlass.model.status import Pod

_MOST = 1_000_000

T = TypeVar("T", bound="Queueable")


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one replica of a trial: what it was given, where it ran, how it ended.

    ```python
    for task in wl.get_trial(1).list_tasks():
        print(task.name, task.attempt, task.state, task.node, task.cpus, task.exit_code)
    ```

    `state` is `Queued` or `Pending` before it runs, `Running`, `Succeeded`, `Failed`, or `Unknown`
    for one that cannot be asked. `devices` are the numbers of its accelerators, `memory` is in
    bytes (0: no limit), `pid` is that of its process while that runs. One that ran in a cluster has
    a `pod`: its `namespace`, `name`, `image`, `image_id`, and the `python` and `platform` in it.
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
        """Its role and index: `worker-1`."""
        return f"{self.role}-{self.index}"

    def __repr__(self) -> str:
        """Short: which it is, and how it stands."""
        code = "" if self.exit_code is None else f", exit code {self.exit_code}"
        where = f" on {self.node}" if self.node else ""
        return f"<Task {self.name} attempt {self.attempt}: {self.state}{code}{where}>"


class QueueEntry:
    """A trial that waits for room: `trial`, its `position` from 1, and `why` it waits.

    `ahead` is the id of the trial right ahead of it, none for the first.

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


class Queueable:
    """What a trial can be told of its place in the queue, and tells of what it was given."""

    _transport: Transport
    _record: TrialRecord

    def set_priority(self: T, priority: int) -> T:
        """Have another priority: who has the higher is let in first, whoever came first.

        A trial that waits has its new place at once, by its age among those of that priority. Of
        one that runs it matters when it waits again: after `suspend()`, or to grow.

        ```python
        trial.set_priority(10)
        ```
        """
        from windlass.model.queue import SetPriority

        asked: Any = priority
        if isinstance(asked, bool) or not isinstance(asked, int) or abs(asked) > _MOST:
            raise InvalidArgument(
                f"priority: {shown(priority)} is no whole number from -{_MOST} to {_MOST}."
            )
        return self._stand("priority", SetPriority(priority=priority))

    def move_ahead_of(self: T, other: Trial[Any] | int) -> T:
        """Stand right ahead of another trial in the queue, with the priority of that one.

        Both must be waiting. What is moved later is right ahead; everybody else keeps their order.

        ```python
        first = next(wl.list_queue(), None)
        if first is not None and first.trial.id != trial.id:
            trial.move_ahead_of(first.trial)
        ```
        """
        from windlass.model.queue import MoveTrial

        number = other if isinstance(other, int) else getattr(other, "id", None)
        if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**63:
            raise InvalidArgument(
                f"{shown(other)} is no trial to stand ahead of: it is a trial or its id.",
                hint="See who waits: windlass queue",
            )
        return self._stand("move", MoveTrial(ahead_of=number))

    def list_tasks(self, *, limit: int | None = None) -> Listing[Task]:
        """Its replicas, every attempt of each: what it was given, where it ran, how it ended.

        ```python
        for task in trial.list_tasks():
            print(task.name, task.state, task.devices, task.address, task.started, task.exit_code)
        ```
        """
        from windlass.model.queue import TaskPage

        path = path_of("trials", self._record.id, "tasks")
        found = walk(self._transport, path, TaskPage, {}, limit)
        return found.each(_task)

    def _stand(self: T, how: str, body: Any) -> T:
        path = path_of("trials", self._record.id, how)
        self._learn(self._transport.ask("POST", path, TrialRecord, body=body))
        return self

    if TYPE_CHECKING:

        def _learn(self, record: TrialRecord) -> None: ...


def _task(record: TaskRecord) -> Task:
    return Task(**msgspec.structs.asdict(record))
