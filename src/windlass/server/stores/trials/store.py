"""The trial store, which keeps trials in the database for the API and the controller."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from windlass.model.errors import Conflict
from windlass.model.job import Job, JobSpec
from windlass.model.records import ErrorInfo, TrialRecord, TrialState
from windlass.model.requests import ChangeTrial, CreateTrial, StopTrial
from windlass.model.status import Event, JobStatus, Replica
from windlass.model.text.names import check, name_flaw
from windlass.server.db.base import Connection, Database
from windlass.server.db.event_rows import add_events
from windlass.server.db.metadata import changed_labels
from windlass.server.db.named_rows import set_fields
from windlass.server.stores.checkpoints.rows import use
from windlass.server.stores.trials.cache import StoredTrial, TrialCache
from windlass.server.stores.trials.origins import check_origin, check_parent, with_checkpoint
from windlass.server.stores.trials.reads import TrialLookup
from windlass.server.stores.trials.rows import Outcome, advanced, find, insert, store

# The position in the queue to which a user moved a trial: its age and its moves.
QueuePosition = tuple[float, tuple[tuple[int, int], ...]]

_SWAP_TRIES = 10
_ASK_TO_STOP = f"""
UPDATE trials SET asked_to_stop = :reason
WHERE id = :id AND asked_to_stop != :reason AND state NOT IN
    ({", ".join(repr(state.value) for state in TrialState if state.is_final)})
"""


class TrialStore(TrialLookup):
    """Creates, reads and changes trials."""

    def __init__(
        self,
        database: Database,
        recent: TrialCache | None = None,
        *,
        on_change: Callable[[TrialRecord], None] = lambda _record: None,
    ) -> None:
        """Create the store. The writer thread calls `on_change` for new and changed trials."""
        super().__init__(database, recent)
        self._on_change = on_change

    # -- for the API ------------------------------------------------------------------

    async def create(
        self,
        requests: Sequence[CreateTrial],
        *,
        before: Callable[[Connection, Sequence[CreateTrial]], None],
        begin: Callable[[Job], tuple[JobStatus, Sequence[Event]]],
        then: Callable[[Sequence[CreateTrial]], None],
    ) -> list[TrialRecord]:
        """Create trials in one transaction, or return the existing trials for known keys.

        The database's writer thread first calls `before` with the requests for new trials. To
        refuse them, `before` raises an error. The thread then calls `begin` for each new trial,
        which returns the trial's first status. After the commit, it calls `then`.
        """

        def change(connection: Connection) -> tuple[dict[str, StoredTrial], list[CreateTrial]]:
            stored: dict[str, StoredTrial] = {}
            new: dict[str, CreateTrial] = {}
            for request in requests:
                if (existing := find(connection, "uid", request.key)) is not None:
                    stored[request.key] = existing
                else:
                    new[request.key] = request
            for request in new.values():
                if request.parent_id is not None:
                    check_parent(connection, request)
                if request.recipe.origin_id is not None:
                    check_origin(connection, request.recipe.origin_id)
            if new:
                before(connection, list(new.values()))
            for key, request in new.items():
                stored[key] = _insert(connection, request, begin)
            return stored, list(new.values())

        def follow(stored: dict[str, StoredTrial], new: Sequence[CreateTrial]) -> None:
            for trial in stored.values():
                self._recent.put_written(trial)
            if new:
                then(new)
            for request in new:
                self._on_change(stored[request.key].record)

        stored, _ = await self._db.awrite(change, lambda made: follow(*made))
        return [stored[request.key].record for request in requests]

    async def unless_stored(self, keys: Sequence[str], act: Callable[[str], None]) -> None:
        """Call `act` for each key under which no trial is stored.

        During these calls, no request can create a trial.
        """

        def change(connection: Connection) -> None:
            for key in keys:
                if find(connection, "uid", key) is None:
                    act(key)

        await self._db.awrite(change)

    async def request_stop(self, trial_id: int, order: StopTrial) -> str | None:
        """Record a stop request. Return the uid of the trial, or None if nothing is running.

        If there are several requests, the shortest grace period applies, and SIGINT comes first
        only if all of them ask for it. A finished trial keeps its state, but any replicas that its
        clean policy left running are stopped.
        """
        for _ in range(_SWAP_TRIES):
            stored = await self._stored(trial_id)
            status = stored.status
            if status.settled:
                return None
            new_status = msgspec.structs.replace(
                status,
                stop_requested=True,
                stop_reason=order.reason,
                stop_grace=order.grace,
                stop_interrupts=order.interrupt,
            )
            if status.stop_requested:
                new_status = msgspec.structs.replace(
                    status,
                    stop_grace=min(order.grace, status.stop_grace),
                    stop_interrupts=order.interrupt and status.stop_interrupts,
                )
            if new_status == status or await self._db.awrite(*self._swap(stored, new_status)):
                return stored.record.uid
        raise Conflict(f"Trial {trial_id} keeps changing.", hint="Try again.")

    async def change_spec(
        self,
        trial_id: int,
        change: Callable[[TrialRecord], tuple[JobSpec, Sequence[Event]]],
        position: QueuePosition | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> str | None:
        """Change the spec of an unfinished trial. Return its uid, or None if nothing changes.

        `change` returns the new spec and events, or raises an error to refuse. The status changes
        together with the spec, so that no decision based on the old spec can be stored. `position`
        sets the position in the queue. If `position` is None, the trial's age determines it.
        """
        for _ in range(_SWAP_TRIES):
            stored = await self._stored(trial_id)
            spec, happened = change(stored.record)
            old = stored.status
            stands = old.queue_position if isinstance(position, msgspec.UnsetType) else position
            if spec == stored.record.spec and stands == old.queue_position:
                return None
            status = msgspec.structs.replace(
                old, generation=old.generation + 1, queue_position=stands
            )
            if await self._db.awrite(*self._swap(stored, status, happened, spec=spec)):
                return stored.record.uid
        raise Conflict(f"Trial {trial_id} keeps changing.", hint="Try again.")

    async def change(self, trial_id: int, change: ChangeTrial) -> None:
        """Change a trial's name, labels or notes, even if the trial has ended."""
        texts = set_fields(change, ("name", "description", "notes"))
        if texts:
            await self._change_texts(trial_id, texts)
        await self._change_labels(trial_id, change)

    async def _change_texts(self, trial_id: int, texts: Mapping[str, str]) -> None:
        if "name" in texts:
            check(name_flaw(texts["name"]), "name: ")
        record = await self.record(trial_id)

        def change(connection: Connection) -> None:
            parameters = {"id": trial_id, **texts}
            if "name" in texts:
                connection.run("UPDATE trials SET name = :name WHERE id = :id", parameters)
            for column in texts.keys() - {"name"}:
                connection.run(
                    f"INSERT INTO trial_texts (trial_id, {column}) VALUES (:id, :{column})"
                    f" ON CONFLICT (trial_id) DO UPDATE SET {column} = excluded.{column}",
                    parameters,
                )

        def follow(_done: None) -> None:
            self.note(trial_id, lambda record: replace(record, **texts))
            self._on_change(replace(record, **texts))

        await self._db.awrite(change, follow)

    async def _change_labels(self, trial_id: int, change: ChangeTrial) -> None:
        """Change a trial's labels together with its status.

        This prevents a decision that is based on an older record from restoring the old labels.
        """
        for _ in range(_SWAP_TRIES):
            stored = await self._stored(trial_id)
            labels = changed_labels(stored.record.labels, change)
            if labels == stored.record.labels:
                return
            old = stored.status
            status = msgspec.structs.replace(old, generation=old.generation + 1)
            if await self._db.awrite(*self._swap(stored, status, labels=labels)):
                return
        raise Conflict(f"Trial {trial_id} keeps changing.", hint="Try again.")

    async def ask_to_stop(self, trial_id: int, reason: str, then: Callable[[], None]) -> bool:
        """Record that a trial is asked to end by itself. Return False if nothing changes.

        `then` is called after the commit. A finished trial does not change.
        """
        event = Event(time=time.time(), reason="AskedToStop", message=f"asked to stop: {reason}")

        def change(connection: Connection) -> bool:
            parameters = {"id": trial_id, "reason": reason}
            if not connection.run(_ASK_TO_STOP, parameters):
                return False
            add_events(connection, trial_id, [event])
            return True

        def follow(is_news: bool) -> None:
            if is_news:
                self.note(trial_id, lambda record: replace(record, asked_to_stop=reason))
                then()
                self._on_change(record)

        record = await self.record(trial_id)
        return await self._db.awrite(change, follow)

    def forget(self) -> None:
        """Clear the cache of trials after the name of a project or experiment has changed."""
        self._recent.clear()

    def note(self, trial_id: int, change: Callable[[TrialRecord], TrialRecord]) -> None:
        """Apply a stored change to a cached trial.

        The writer thread calls this after the commit.
        """
        self._recent.change(trial_id, change)

    def drop(self, trial_id: int) -> None:
        """Remove a deleted trial from the cache. The writer thread calls this."""
        self._recent.drop(trial_id)

    # -- for the controller -----------------------------------------------------------

    def save(
        self,
        uid: str,
        old: JobStatus,
        new: JobStatus,
        happened: Sequence[Event],
        replicas: Sequence[Replica],
        outcome: Outcome | None = None,
    ) -> bool:
        """Store a trial's new status. Return False if the stored status is no longer `old`."""
        stored = self._find(uid)
        if stored is None:
            return False
        if stored.status != old:
            self._recent.drop(stored.record.id)  # the next read then returns the stored status
            return False
        return self._db.write(*self._swap(stored, new, happened, replicas, outcome))

    # -- for generator trials ---------------------------------------------------------

    async def judge(
        self,
        trial_id: int,
        judge: Callable[
            [JobStatus, Mapping[int, TrialState]],
            tuple[JobStatus, Sequence[Event], ErrorInfo | None],
        ],
    ) -> bool:
        """Compute a generator trial's status from its children.

        Return whether the status changed.
        """

        def change(connection: Connection) -> StoredTrial | None:
            stored = find(connection, "id", trial_id)
            if stored is None:
                return None
            rows = connection.rows(
                "SELECT id, state FROM trials WHERE parent_id = :id AND NOT auxiliary ORDER BY id",
                {"id": trial_id},
            )
            children = {row["id"]: TrialState(row["state"]) for row in rows}
            status, happened, error = judge(stored.status, children)
            if status == stored.status and not happened:
                return None
            outcome = Outcome(error=error) if error is not None else None
            new = StoredTrial(record=advanced(stored.record, status, (), outcome), status=status)
            return new if store(connection, stored, new, happened) else None

        def then(new: StoredTrial | None) -> None:
            if new is not None:
                self._recent.put_written(new)
                self._on_change(new.record)

        return await self._db.awrite(change, then) is not None

    # -- helpers ----------------------------------------------------------------------

    def _swap(
        self,
        stored: StoredTrial,
        status: JobStatus,
        happened: Sequence[Event] = (),
        replicas: Sequence[Replica] = (),
        outcome: Outcome | None = None,
        spec: JobSpec | None = None,
        labels: tuple[str, ...] | None = None,
    ) -> tuple[Callable[[Connection], bool], Callable[[bool], None]]:
        """Return two functions: one to replace the stored status, and one to call after the commit.

        The first function does nothing if the stored status has changed since it was read. The
        second function updates the cache and reports the change.
        """
        record = advanced(stored.record, status, replicas, outcome)
        if spec is not None:
            record = msgspec.structs.replace(record, spec=spec)
        if labels is not None:
            record = msgspec.structs.replace(record, labels=labels)
        new = StoredTrial(record=record, status=status)

        def change(connection: Connection) -> bool:
            return store(connection, stored, new, happened)

        def then(is_done: bool) -> None:
            if is_done:
                self._recent.put_changed(new)
                self._on_change(record)
            else:
                self._recent.drop(record.id)

        return change, then


def _insert(
    connection: Connection,
    request: CreateTrial,
    begin: Callable[[Job], tuple[JobStatus, Sequence[Event]]],
) -> StoredTrial:
    made = insert(connection, with_checkpoint(connection, request))
    if request.recipe.checkpoint:
        use(connection, request.recipe.checkpoint, "trial", made.record.id)
    status, happened = begin(made.job)
    new = StoredTrial(record=advanced(made.record, status, (), None), status=status)
    store(connection, made, new, happened)
    return new
