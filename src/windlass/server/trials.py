"""Trials in SQL: written by the API and the controller, read by all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from windlass.model.errors import Conflict, NotFound
from windlass.model.job import Begin, GeneratorCall, Job, JobSpec, Keep
from windlass.model.learning import learned
from windlass.model.names import check, name_flaw
from windlass.model.records import LISTED_KINDS, ErrorInfo, TrialRecord, TrialState
from windlass.model.status import ConditionType, Event, JobStatus, Replica
from windlass.model.wire import ChangeTrial, CreateTrial, TrialPage
from windlass.server.checkpoint_rows import find_by_uid, use
from windlass.server.database import Connection, Database, Row
from windlass.server.listing import Asked, doubt, find_rows
from windlass.server.metadata import changed_labels
from windlass.server.paging import Conditions
from windlass.server.recent import Recent, StoredTrial
from windlass.server.rows import (
    COLUMNS,
    FROM,
    Outcome,
    add_events,
    advanced,
    decode_spec,
    find,
    insert,
    store,
    stored_trials,
)
from windlass.server.where import Name

Place = tuple[float, tuple[tuple[int, int], ...]]  # in the queue, of one that was moved

_SWAP_TRIES = 10
_ASK_TO_STOP = f"""
UPDATE trials SET asked_to_stop = :reason
WHERE id = :id AND asked_to_stop != :reason AND state NOT IN
    ({", ".join(repr(state.value) for state in TrialState if state.is_final)})
"""


class TrialStore:
    """Every trial there is."""

    def __init__(
        self,
        database: Database,
        recent: Recent | None = None,
        *,
        on_change: Callable[[TrialRecord], None] = lambda _record: None,
    ) -> None:
        """`on_change` is told of every trial that was made or changed, in the writer's thread."""
        self._db = database
        self._recent = recent or Recent()
        self._on_change = on_change

    # -- made by the API --------------------------------------------------------------

    async def create(
        self,
        request: CreateTrial,
        *,
        before: Callable[[], None],
        begin: Callable[[Job], tuple[JobStatus, Sequence[Event]]],
        then: Callable[[], None],
    ) -> TrialRecord:
        """The trial that a key made before, or that it makes now.

        Of a new one, in the writer's thread: `before` is called first and may refuse, `begin`
        says what its first status is, and `then` is called when all of it is stored.
        """

        def change(connection: Connection) -> tuple[StoredTrial, bool]:
            existing = find(connection, "uid", request.key)
            if existing is not None:
                return existing, False
            if request.parent_id is not None:
                _check_parent(connection, request)
            if request.recipe.origin_id is not None:
                _check_origin(connection, request.recipe.origin_id)
            before()
            made = insert(connection, _with_checkpoint(connection, request))
            if request.recipe.checkpoint:
                use(connection, request.recipe.checkpoint, "trial", made.record.id)
            status, happened = begin(made.job)
            new = advanced(made.record, status, (), None)
            store(connection, made, StoredTrial(record=new, status=status), happened)
            return StoredTrial(record=new, status=status), True

        def follow(stored: StoredTrial, is_new: bool) -> None:
            self._recent.put_written(stored)
            if is_new:
                then()
                self._on_change(stored.record)

        stored, _ = await self._db.awrite(change, lambda made: follow(*made))
        return stored.record

    async def unless_stored(self, key: str, act: Callable[[], None]) -> None:
        """Do something about a key that made no trial, while nobody else makes one of it."""

        def change(connection: Connection) -> None:
            if find(connection, "uid", key) is None:
                act()

        await self._db.awrite(change)

    async def request_stop(self, trial_id: int, reason: str, grace: float) -> str | None:
        """Note that a trial is to stop; its uid, or none if nothing of it is left.

        Asked again, the shorter grace counts. One that has ended stays as it ended, and what was
        left running by its clean policy goes.
        """
        for _ in range(_SWAP_TRIES):
            stored = await self._stored(trial_id)
            status = stored.status
            if status.settled:
                return None
            asked = msgspec.structs.replace(
                status, stop_requested=True, stop_reason=reason, stop_grace=grace
            )
            if status.stop_requested:
                shorter = min(grace, status.stop_grace)
                asked = msgspec.structs.replace(status, stop_grace=shorter)
            if asked == status or await self._db.awrite(*self._swap(stored, asked)):
                return stored.record.uid
        raise Conflict(f"Trial {trial_id} keeps changing.", hint="Try again.")

    async def change_spec(
        self,
        trial_id: int,
        change: Callable[[TrialRecord], tuple[JobSpec, Sequence[Event]]],
        place: Place | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> str | None:
        """Give a trial that goes on another spec; its uid, or none if it stays as it was.

        `change` says what the spec is to be and what is told of it, and may refuse. The status
        changes with the spec: a look that was taken at the old one cannot be stored. With
        `place`, it stands elsewhere in the queue from now on, or with none where its age says.
        """
        for _ in range(_SWAP_TRIES):
            stored = await self._stored(trial_id)
            spec, happened = change(stored.record)
            old = stored.status
            stands = old.place if isinstance(place, msgspec.UnsetType) else place
            if spec == stored.record.spec and stands == old.place:
                return None
            status = msgspec.structs.replace(old, generation=old.generation + 1, place=stands)
            if await self._db.awrite(*self._swap(stored, status, happened, spec=spec)):
                return stored.record.uid
        raise Conflict(f"Trial {trial_id} keeps changing.", hint="Try again.")

    async def change(self, trial_id: int, change: ChangeTrial) -> None:
        """Give a trial other labels, another name or other texts, whether or not it has ended."""
        names = ("name", "description", "notes")
        told = {name: getattr(change, name) for name in names}
        given = {k: value for k, value in told.items() if not isinstance(value, msgspec.UnsetType)}
        if given:
            await self._change_texts(trial_id, given)
        await self._change_labels(trial_id, change)

    async def _change_texts(self, trial_id: int, given: Mapping[str, str]) -> None:
        if "name" in given:
            check(name_flaw(given["name"]), "name: ")
        record = await self.record(trial_id)

        def change(connection: Connection) -> None:
            asked = {"id": trial_id, **given}
            if "name" in given:
                connection.run("UPDATE trials SET name = :name WHERE id = :id", asked)
            for column in given.keys() - {"name"}:
                connection.run(
                    f"INSERT INTO trial_texts (trial_id, {column}) VALUES (:id, :{column})"
                    f" ON CONFLICT (trial_id) DO UPDATE SET {column} = excluded.{column}",
                    asked,
                )

        def follow(_done: None) -> None:
            self.note(trial_id, lambda record: replace(record, **given))
            self._on_change(replace(record, **given))

        await self._db.awrite(change, follow)

    async def _change_labels(self, trial_id: int, change: ChangeTrial) -> None:
        """The status changes with them, as with a spec.

        What is computed from an older record meanwhile does not bring the old ones back.
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
        """Note that a trial is to end by itself; whether that was news.

        `then` is called when it is stored. One that has ended stays as it ended.
        """
        event = Event(time=time.time(), reason="AskedToStop", message=f"asked to stop: {reason}")

        def change(connection: Connection) -> bool:
            asked = {"id": trial_id, "reason": reason}
            if not connection.run(_ASK_TO_STOP, asked):
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

    def asked_to_stop(self) -> dict[int, str]:
        """The trials that go on and were asked to end by themselves, and why."""
        query = "SELECT id, asked_to_stop FROM trials WHERE NOT settled AND asked_to_stop != ''"
        rows = self._db.read(lambda connection: connection.rows(query))
        return {row["id"]: row["asked_to_stop"] for row in rows}

    def forget(self) -> None:
        """Read all trials again: projects or experiments are called otherwise than they were."""
        self._recent.clear()

    def note(self, trial_id: int, change: Callable[[TrialRecord], TrialRecord]) -> None:
        """Know of what was just stored of a trial; for the writer's thread, after the commit."""
        self._recent.change(trial_id, change)

    def drop(self, trial_id: int) -> None:
        """Know no more of a trial that was just deleted; for the writer's thread."""
        self._recent.drop(trial_id)

    # -- the controller's half --------------------------------------------------------

    def load(self, uid: str) -> tuple[Job, JobStatus] | None:
        """A job as the controller needs it."""
        stored = self._find(uid)
        return None if stored is None else (stored.job, stored.status)

    def save(
        self,
        uid: str,
        old: JobStatus,
        new: JobStatus,
        happened: Sequence[Event],
        replicas: Sequence[Replica],
        outcome: Outcome | None = None,
    ) -> bool:
        """Record what was concluded, unless the status is no longer `old`."""
        stored = self._find(uid)
        if stored is None:
            return False
        if stored.status != old:
            self._recent.drop(stored.record.id)  # the next look reads what there is
            return False
        return self._db.write(*self._swap(stored, new, happened, replicas, outcome))

    def keeping(self, trial_id: int) -> Keep | None:
        """Which checkpoints of a trial are to stay; none for all."""
        query = "SELECT spec FROM trials WHERE id = :id"
        spec = self._db.read(lambda connection: connection.value(query, {"id": trial_id}))
        return None if spec is None else decode_spec(spec).keep

    def unfinished(self) -> Iterable[str]:
        """The uids of all jobs of which something may still run, oldest first."""
        query = "SELECT uid FROM trials WHERE NOT settled AND NOT is_generated ORDER BY id"
        return [row["uid"] for row in self._db.read(lambda connection: connection.rows(query))]

    def unfinished_jobs(self) -> list[Job]:
        """All jobs of which something may still run, oldest first."""
        query = (
            "SELECT id, uid, spec FROM trials WHERE NOT settled AND NOT is_generated ORDER BY id"
        )
        rows = self._db.read(lambda connection: connection.rows(query))
        return [Job(uid=r["uid"], trial_id=r["id"], spec=decode_spec(r["spec"])) for r in rows]

    # -- trials that end with others ---------------------------------------------------

    async def judge(
        self,
        trial_id: int,
        judge: Callable[
            [JobStatus, Mapping[int, TrialState]],
            tuple[JobStatus, Sequence[Event], ErrorInfo | None],
        ],
    ) -> bool:
        """Say of a trial of a generator what follows from its children; whether that is news."""

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

    # -- asked by the API -------------------------------------------------------------

    async def record(self, trial_id: int) -> TrialRecord:
        """One trial."""
        return (await self._stored(trial_id)).record

    async def status(self, trial_id: int) -> JobStatus:
        """What was concluded of one trial."""
        return (await self._stored(trial_id)).status

    async def page(self, asked: Asked) -> TrialPage:
        """Trials that match, a page of them."""

        def run(connection: Connection) -> TrialPage:
            rows, following, hint = find_rows(connection, asked)
            items = tuple(each.record for each in stored_trials(connection, rows))
            return TrialPage(items=items, next=following, hint=hint)

        return await self._db.aread(run)

    async def ids(self, asked: Conditions, first: int, limit: int) -> list[Row]:
        """The ids and names of trials that match, from an id on."""
        asked = asked.copy()
        asked.require(f"trials.id >= {asked.name_for(first)}")
        query = f"SELECT trials.id, trials.name {FROM}{asked.text} ORDER BY trials.id LIMIT {limit}"
        return list(
            await self._db.aread(lambda connection: connection.rows(query, asked.parameters))
        )

    async def doubt(self, names: Sequence[Name]) -> str:
        """Why nothing may have been found by these names of parameters and metrics."""
        return await self._db.aread(lambda connection: doubt(connection, names))

    async def by_uid(self, uids: Sequence[str]) -> dict[str, TrialRecord]:
        """Some trials, by their uids; those that are not there are left out."""
        at_hand = {uid: stored for uid in uids if (stored := self._recent.find(uid)) is not None}
        asked = Conditions()
        asked.one_of("trials.uid", [uid for uid in uids if uid not in at_hand] or [""])
        query = f"SELECT {COLUMNS} {FROM}{asked.text}"

        def run(connection: Connection) -> list[StoredTrial]:
            return stored_trials(connection, connection.rows(query, asked.parameters))

        found = await self._db.aread(run) if len(at_hand) < len(set(uids)) else []
        return {each.record.uid: each.record for each in (*at_hand.values(), *found)}

    async def events(self, trial_id: int) -> list[Event]:
        """What happened to a trial, oldest first."""
        query = (
            "SELECT time, kind, reason, message FROM events WHERE trial_id = :trial_id ORDER BY id"
        )
        await self._stored(trial_id)
        rows = await self._db.aread(
            lambda connection: connection.rows(query, {"trial_id": trial_id})
        )
        return [msgspec.convert(dict(row), learned(Event)) for row in rows]

    async def count(self, *states: TrialState) -> int:
        """How many trials are in one of the states."""
        asked = Conditions()
        asked.one_of("state", [state.value for state in states])
        asked.one_of("kind", [kind.value for kind in LISTED_KINDS])
        query = f"SELECT count(*) FROM trials{asked.text}"
        return int(
            await self._db.aread(lambda connection: connection.value(query, asked.parameters))
        )

    # -- beneath ----------------------------------------------------------------------

    async def _stored(self, trial_id: int) -> StoredTrial:
        stored = self._recent.get(trial_id)
        if stored is None:
            stored = await self._db.aread(lambda connection: self._read(connection, "id", trial_id))
        if stored is None:
            newest = await self._db.aread(
                lambda connection: connection.value("SELECT max(id) FROM trials")
            )
            there = f"The newest trial is {newest}." if newest else "Nothing has run here yet."
            raise NotFound(
                f"There is no trial {trial_id}.", hint=f"{there} See them all: windlass ls"
            )
        return stored

    def _find(self, uid: str) -> StoredTrial | None:
        stored = self._recent.find(uid)
        if stored is None:
            stored = self._db.read(lambda connection: self._read(connection, "uid", uid))
        return stored

    def _read(self, connection: Connection, column: str, value: int | str) -> StoredTrial | None:
        mark = self._recent.mark()
        stored = find(connection, column, value)
        if stored is not None:
            self._recent.put_read(stored, mark)
        return stored

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
        """A change to a new status if the old one still stands, and what follows it."""
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


def _check_parent(connection: Connection, request: CreateTrial) -> None:
    """Refuse a trial whose parent is none, or takes no more."""
    parent_id = request.parent_id or 0
    parent = find(connection, "id", parent_id)
    if parent is None:
        raise NotFound(f"There is no trial {parent_id} to add to.")
    record, status = parent.record, parent.status
    named = f"Trial {record.id} ({record.name})"
    if not isinstance(record.spec.roles[0].executable, GeneratorCall):
        raise Conflict(
            f"{named} has no generator: nothing can be added to it.",
            hint="Add it to the experiment: exp.add(...)",
        )
    if request.experiment_id != record.experiment_id:
        raise Conflict(f"{named} belongs to experiment {record.experiment_id}.")
    if status.is_finished or status.stop_requested:
        raise Conflict(
            f"{named} is {record.state.value.lower()}: nothing can be added to it any more.",
            hint=f"See: windlass show {record.id}",
        )
    if status.holds(ConditionType.CREATED):
        raise Conflict(
            f"The generator of trial {record.id} ({record.name}) has returned: nothing can be "
            "added to it any more.",
            hint="Add it before the generator returns, or to the experiment: exp.add(...)",
        )


def _with_checkpoint(connection: Connection, request: CreateTrial) -> CreateTrial:
    """The request with what its job needs to know of the checkpoint that it begins with."""
    uid = request.recipe.checkpoint
    if not uid:
        return request if request.spec.begin is None else _beginning(request, None)
    found = find_by_uid(connection, uid)
    if found is None:
        raise NotFound(
            f"There is no checkpoint {uid[:80]} to begin with.", hint="See: windlass checkpoint ls"
        )
    begin = Begin(
        uid=uid,
        name=found.name,
        manifest=found.manifest,
        is_folder=found.is_folder,
        step=found.step,
    )
    return _beginning(request, begin)


def _beginning(request: CreateTrial, begin: Begin | None) -> CreateTrial:
    return replace(request, spec=replace(request.spec, begin=begin))


def _check_origin(connection: Connection, origin_id: int) -> None:
    """Refuse to repeat a trial that is none: what follows its origins would come to no end."""
    if find(connection, "id", origin_id) is None:
        raise NotFound(f"There is no trial {origin_id} to repeat.")
