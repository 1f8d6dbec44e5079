"""Deletes trials and experiments: first their rows, in one transaction, and then their files.

Blobs remain until garbage collection, because other trials may refer to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from windlass.model.errors import Conflict
from windlass.server.db.base import Connection
from windlass.server.db.paging import Conditions
from windlass.server.services import Services
from windlass.server.stores.blobs.garbage import mark_deleted, remove_folder
from windlass.server.stores.checkpoints import rows as checkpoints
from windlass.server.web.notifications import experiment_topic

# The tables whose rows belong to a trial and are deleted together with it. A test compares this
# list to the schema.
OF_A_TRIAL = (
    "attempts", "events", "summaries", "tallies", "readings", "trial_texts", "checkpoints",
    "parameters",
)  # fmt: skip

_AT_ONCE = 500
_NAMED = 5


async def delete_trial(services: Services, trial_id: int) -> list[int]:
    """Delete a finished trial. For a generator trial, also delete all trials that it added.

    Returns the ids of the deleted trials.
    """
    record = await services.trials.record(trial_id)
    deleted = await _delete(services, lambda connection: _family(connection, trial_id))
    services.hub.publish(experiment_topic(record.experiment_id))
    return deleted


async def delete_experiment(services: Services, experiment_id: int) -> list[int]:
    """Delete an experiment and all of its trials, which must have ended.

    Return the ids of the deleted trials.
    """
    await services.experiments.by_id(experiment_id)
    if services.leases.is_held(experiment_id):
        raise Conflict(
            f"Experiment {experiment_id} is open: a program is inside its `with` block.",
            hint="Wait until the block ends.",
        )
    of_it = {"id": experiment_id}

    def members(connection: Connection) -> list[int]:
        rows = connection.rows("SELECT id FROM trials WHERE experiment_id = :id", of_it)
        return [row["id"] for row in rows]

    def forget(connection: Connection) -> None:
        connection.run("DELETE FROM experiments WHERE id = :id", of_it)

    deleted = await _delete(services, members, forget)
    services.hub.publish(experiment_topic(experiment_id))
    return deleted


async def _delete(
    services: Services,
    choose: Callable[[Connection], list[int]],
    besides: Callable[[Connection], None] = lambda _connection: None,
) -> list[int]:
    """Delete either all or none of the trials that `choose` returns, in one write transaction."""

    def change(connection: Connection) -> tuple[list[int], list[str]]:
        chosen = choose(connection)
        uids = []
        for start in range(0, len(chosen), _AT_ONCE):
            some = chosen[start : start + _AT_ONCE]
            _refuse_unsettled(connection, some)
            checkpoints.let_go(connection, some)
        checkpoints.refuse_used(connection, chosen)
        for trial_id in chosen:
            mark_deleted(services.home.trials, trial_id)
        for start in range(0, len(chosen), _AT_ONCE):
            uids += _remove_rows(connection, chosen[start : start + _AT_ONCE])
        besides(connection)
        return chosen, uids

    def then(done: tuple[list[int], list[str]]) -> None:
        for trial_id in done[0]:
            services.trials.drop(trial_id)

    deleted, uids = await services.database.awrite(change, then)
    await asyncio.to_thread(_remove_files, services, deleted, uids)
    return deleted


def _family(connection: Connection, trial_id: int) -> list[int]:
    """Return the ids of a trial and of all trials that generators added below it."""
    family = [trial_id]
    for member in family:
        rows = connection.rows("SELECT id FROM trials WHERE parent_id = :id", {"id": member})
        family += [row["id"] for row in rows]
    return family


def _refuse_unsettled(connection: Connection, trial_ids: Sequence[int]) -> None:
    conditions = Conditions()
    conditions.one_of("id", trial_ids)
    conditions.require("NOT settled")
    rows = connection.rows(
        f"SELECT id, name, state FROM trials{conditions.text} ORDER BY id", conditions.parameters
    )
    if not rows:
        return
    unsettled = [f"{row['id']} ({row['name']}) is {row['state']}" for row in rows[:_NAMED]]
    if len(rows) > _NAMED:
        unsettled.append(f"{len(rows) - _NAMED} more are unfinished")
    which = " ".join(str(row["id"]) for row in rows[:_NAMED])
    raise Conflict(
        f"Unfinished trials cannot be deleted: trial {', '.join(unsettled)}.",
        hint=f"Stop it first: windlass stop {which}",
    )


def _remove_rows(connection: Connection, trial_ids: Sequence[int]) -> list[str]:
    """Delete all rows that belong to these trials, and return the trials' uids."""
    for table in OF_A_TRIAL:
        conditions = Conditions()
        conditions.one_of("trial_id", trial_ids)
        connection.run(f"DELETE FROM {table}{conditions.text}", conditions.parameters)
    conditions = Conditions()
    conditions.one_of("id", trial_ids)
    rows = connection.rows(
        f"DELETE FROM trials{conditions.text} RETURNING uid", conditions.parameters
    )
    return [row["uid"] for row in rows]


def _remove_files(services: Services, trial_ids: Sequence[int], uids: Sequence[str]) -> None:
    for uid in uids:
        services.private.erase(uid)
    for trial_id in trial_ids:
        remove_folder(services.home.path / "trials", trial_id)
