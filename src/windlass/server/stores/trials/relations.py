"""Queries for trials that depend on other trials: generator trials and auxiliary trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.model.records import LISTED_KINDS, TrialState
from windlass.server.db.base import Database

# Commands and shells have an experiment, but do not affect its state.
_COUNTS = f"kind IN ({', '.join(repr(kind.value) for kind in LISTED_KINDS)})"


class TrialRelations:
    """Queries for trials whose end depends on other trials."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def children_going_on(self, trial_id: int) -> list[int]:
        """Return the ids of a generator trial's children that might have running replicas.

        The newest child comes first.
        """
        query = "SELECT id FROM trials WHERE parent_id = :id AND NOT settled ORDER BY id DESC"
        return await self._ids(query, {"id": trial_id})

    async def unfinished_parents(self, experiment_id: int | None = None) -> list[int]:
        """Return the ids of unfinished generator trials in one experiment or in all experiments."""
        query = "SELECT id FROM trials WHERE NOT settled AND is_generated"
        if experiment_id is None:
            return await self._ids(query, {})
        return await self._ids(f"{query} AND experiment_id = :id", {"id": experiment_id})

    async def unfinished_auxiliary(self) -> list[tuple[int, int]]:
        """Return the ids of unfinished auxiliary trials, each with its experiment's id."""
        query = "SELECT id, experiment_id FROM trials WHERE NOT settled AND auxiliary"
        rows = await self._db.aread(lambda connection: connection.rows(query))
        return [(row["id"], row["experiment_id"]) for row in rows]

    async def auxiliary_to_stop(self, experiment_id: int, *, was_held: bool) -> list[int]:
        """Return the ids of the auxiliary trials that must stop because their experiment is over.

        An experiment is over if it has no unfinished ordinary trial and if one of two further
        conditions holds. Either an ordinary trial has ended since the auxiliary trial was added, or
        the program that built the experiment has just released it (`was_held`).
        """
        final = [state.value for state in TrialState if state.is_final]
        names = {f"final_{index}": state for index, state in enumerate(final)}
        listed = ", ".join(f":{name}" for name in names)
        of_it = f"FROM trials WHERE experiment_id = :id AND {_COUNTS}"
        has_ended = f"EXISTS (SELECT 1 {of_it} AND NOT auxiliary AND ended >= main.created)"
        query = (
            "SELECT id FROM trials AS main WHERE experiment_id = :id AND auxiliary"
            f" AND state NOT IN ({listed})"
            f" AND NOT EXISTS (SELECT 1 {of_it} AND NOT auxiliary AND state NOT IN ({listed}))"
        )
        if not was_held:
            query += f" AND {has_ended}"
        return await self._ids(query, {"id": experiment_id, **names})

    async def going_on(self, experiment_id: int) -> list[int]:
        """Return the ids of an experiment's trials that might have running replicas.

        The newest trial comes first.
        """
        of_it = f"experiment_id = :id AND {_COUNTS}"
        query = f"SELECT id FROM trials WHERE {of_it} AND NOT settled ORDER BY id DESC"
        return await self._ids(query, {"id": experiment_id})

    async def _ids(self, query: str, parameters: Mapping[str, Any]) -> list[int]:
        rows = await self._db.aread(lambda connection: connection.rows(query, parameters))
        return [row["id"] for row in rows]
