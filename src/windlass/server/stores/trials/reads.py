"""Reads trials from the cache or the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from windlass.model.errors import NotFound
from windlass.model.job import Job, Keep
from windlass.model.records import LISTED_KINDS, TrialRecord, TrialState
from windlass.model.requests import TrialPage
from windlass.model.status import Event, JobStatus
from windlass.model.thread_safe_types import learned
from windlass.server.db.base import Connection, Database, Row
from windlass.server.db.paging import Conditions
from windlass.server.db.scopes import Scope
from windlass.server.db.where_parser import Name
from windlass.server.stores.trials.cache import StoredTrial, TrialCache
from windlass.server.stores.trials.list_query import TrialQuery, find_rows, newest_listed
from windlass.server.stores.trials.rows import COLUMNS, FROM, decode_spec, find, stored_trials
from windlass.server.stores.trials.stored_names import Quoted, doubt


class TrialLookup:
    """Queries that read trials and change nothing."""

    def __init__(self, database: Database, recent: TrialCache | None = None) -> None:
        self._db = database
        self._recent = recent or TrialCache()

    # -- for the API ------------------------------------------------------------------

    async def record(self, trial_id: int) -> TrialRecord:
        """Return one trial."""
        return (await self._stored(trial_id)).record

    async def status(self, trial_id: int) -> JobStatus:
        """Return the status of one trial."""
        return (await self._stored(trial_id)).status

    async def page(self, query: TrialQuery) -> TrialPage:
        """Return a page of the trials that match a query."""

        def run(connection: Connection) -> TrialPage:
            rows, following, hint = find_rows(connection, query)
            items = tuple(trial.record for trial in stored_trials(connection, rows))
            return TrialPage(items=items, next=following, hint=hint)

        return await self._db.aread(run)

    async def limit(self, conditions: Conditions, scope: Scope, *, is_first: bool) -> None:
        """Add conditions that limit a query to a scope's experiment and project."""
        await self._db.aread(
            lambda connection: scope.limit(connection, conditions, is_first=is_first)
        )

    async def ids(self, conditions: Conditions, first: int, limit: int) -> list[Row]:
        """Return the ids and names of trials that match `conditions`, from the id `first` on."""
        conditions = conditions.copy()
        conditions.require(f"trials.id >= {conditions.bind(first)}")
        where = f"{FROM}{conditions.text}"
        query = f"SELECT trials.id, trials.name {where} ORDER BY trials.id LIMIT {limit}"
        return list(
            await self._db.aread(lambda connection: connection.rows(query, conditions.parameters))
        )

    async def check_exist(self, trial_ids: Sequence[int]) -> None:
        """Raise `NotFound` for the first id that belongs to no trial."""
        conditions = Conditions()
        conditions.one_of("id", [number for number in trial_ids if 0 < number < 2**63] or [-1])
        statement = f"SELECT id FROM trials{conditions.text}"
        rows = await self._db.aread(
            lambda connection: connection.rows(statement, conditions.parameters)
        )
        existing = {row["id"] for row in rows}
        for trial_id in trial_ids:
            if trial_id not in existing:
                await self.record(trial_id)  # raises NotFound

    async def doubt(self, names: Sequence[Name], quoted: Sequence[Quoted]) -> str:
        """Return a hint on why a query for these parameters and metrics found nothing."""
        return await self._db.aread(lambda connection: doubt(connection, names, quoted))

    async def by_uid(self, uids: Sequence[str]) -> dict[str, TrialRecord]:
        """Return the trials that have these uids, by uid. Unknown uids are left out."""
        at_hand = {uid: stored for uid in uids if (stored := self._recent.find(uid)) is not None}
        conditions = Conditions()
        conditions.one_of("trials.uid", [uid for uid in uids if uid not in at_hand] or [""])
        query = f"SELECT {COLUMNS} {FROM}{conditions.text}"

        def run(connection: Connection) -> list[StoredTrial]:
            return stored_trials(connection, connection.rows(query, conditions.parameters))

        trials = await self._db.aread(run) if len(at_hand) < len(set(uids)) else []
        return {trial.record.uid: trial.record for trial in (*at_hand.values(), *trials)}

    async def events(self, trial_id: int) -> list[Event]:
        """Return the events of a trial, oldest first."""
        query = (
            "SELECT time, kind, reason, message FROM events WHERE trial_id = :trial_id ORDER BY id"
        )
        await self._stored(trial_id)
        rows = await self._db.aread(
            lambda connection: connection.rows(query, {"trial_id": trial_id})
        )
        return [msgspec.convert(dict(row), learned(Event)) for row in rows]

    async def count(self, *states: TrialState) -> int:
        """Count the trials that are in one of these states."""
        conditions = Conditions()
        conditions.one_of("state", [state.value for state in states])
        conditions.one_of("kind", [kind.value for kind in LISTED_KINDS])
        query = f"SELECT count(*) FROM trials{conditions.text}"
        return int(
            await self._db.aread(lambda connection: connection.value(query, conditions.parameters))
        )

    # -- for the controller and the start of the server --------------------------------

    def load(self, uid: str) -> tuple[Job, JobStatus] | None:
        """Return a job and its status for the controller, or None if there is no such trial."""
        stored = self._find(uid)
        return None if stored is None else (stored.job, stored.status)

    def keeping(self, trial_id: int) -> Keep | None:
        """Return the retention rule for a trial's checkpoints.

        None means that all checkpoints are kept.
        """
        query = "SELECT spec FROM trials WHERE id = :id"
        spec = self._db.read(lambda connection: connection.value(query, {"id": trial_id}))
        return None if spec is None else decode_spec(spec).keep

    def unfinished(self) -> Iterable[str]:
        """Return the uids of all jobs that might have running replicas, oldest first."""
        query = "SELECT uid FROM trials WHERE NOT settled AND NOT is_generated ORDER BY id"
        return [row["uid"] for row in self._db.read(lambda connection: connection.rows(query))]

    def has_unsettled(self) -> bool:
        """Return whether any job that is not suspended waits or might have running replicas."""
        query = "SELECT 1 FROM trials WHERE NOT settled AND state != :suspended LIMIT 1"
        parameters = {"suspended": TrialState.SUSPENDED.value}
        return bool(self._db.read(lambda connection: connection.rows(query, parameters)))

    def unfinished_jobs(self) -> list[Job]:
        """Return all jobs that might have running replicas, oldest first."""
        query = (
            "SELECT id, uid, spec FROM trials WHERE NOT settled AND NOT is_generated ORDER BY id"
        )
        rows = self._db.read(lambda connection: connection.rows(query))
        return [Job(uid=r["uid"], trial_id=r["id"], spec=decode_spec(r["spec"])) for r in rows]

    def asked_to_stop(self) -> dict[int, str]:
        """Return the unfinished trials that were asked to end by themselves, and the reasons."""
        query = "SELECT id, asked_to_stop FROM trials WHERE NOT settled AND asked_to_stop != ''"
        rows = self._db.read(lambda connection: connection.rows(query))
        return {row["id"]: row["asked_to_stop"] for row in rows}

    # -- helpers ----------------------------------------------------------------------

    async def _stored(self, trial_id: int) -> StoredTrial:
        stored = self._recent.get(trial_id)
        if stored is None:
            stored = await self._db.aread(lambda connection: self._read(connection, "id", trial_id))
        if stored is None:
            newest = await self._db.aread(newest_listed)
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
