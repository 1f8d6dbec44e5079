"""Experiments in SQL: made with their first trial, counted when asked for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from windlass.model.errors import NotFound
from windlass.model.records import ExperimentRecord
from windlass.model.wire import ExperimentPage
from windlass.server.database import Database
from windlass.server.paging import Order, cut
from windlass.server.schema import experiments, trials


class ExperimentStore:
    """Every experiment there is."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def record(self, name: str) -> ExperimentRecord:
        """The newest experiment of that name; a number is taken as an id first."""

        def query(connection: sa.Connection) -> ExperimentRecord:
            chosen, order = experiments.c.name == name, [experiments.c.id.desc()]
            if name.isascii() and name.isdigit() and len(name) < 19:
                is_id = experiments.c.id == int(name)
                chosen, order = sa.or_(chosen, is_id), [is_id.desc(), *order]
            row = connection.execute(
                sa.select(experiments).where(chosen).order_by(*order).limit(1)
            ).first()
            if row is None:
                raise _missing_experiment(connection, name)
            return _experiment_records(connection, [row])[0]

        return await self._db.aread(query)

    async def page(
        self, *, project: str | None, name: str | None, sort: str, cursor: str | None, limit: int
    ) -> ExperimentPage:
        """Experiments that match, a page of them."""
        query = sa.select(experiments)
        if project is not None:
            query = query.where(experiments.c.project == project)
        if name is not None:
            query = query.where(experiments.c.name == name)
        query = Order(sort, _EXPERIMENT_SORTS).apply(query, cursor, limit)

        def run(connection: sa.Connection) -> ExperimentPage:
            rows, following = cut(connection.execute(query).all(), limit)
            return ExperimentPage(
                items=tuple(_experiment_records(connection, rows)), next=following
            )

        return await self._db.aread(run)


def find_or_make(connection: sa.Connection, project: str, name: str, now: float) -> int:
    """The id of the newest experiment of that name, which is made if there is none."""
    found = connection.execute(
        sa.select(sa.func.max(experiments.c.id)).where(
            experiments.c.project == project, experiments.c.name == name
        )
    ).scalar()
    if found is not None:
        return int(found)
    made = connection.execute(
        experiments.insert()
        .values(project=project, name=name, created=now)
        .returning(experiments.c.id)
    )
    return int(made.scalar_one())


_EXPERIMENT_SORTS: dict[str, sa.ColumnElement[Any]] = {
    "id": experiments.c.id,
    "name": experiments.c.name,
    "created": experiments.c.created,
}


def _missing_experiment(connection: sa.Connection, name: str) -> NotFound:
    names = connection.execute(sa.select(experiments.c.name).distinct().limit(1000)).scalars().all()
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "See what there is: windlass ls"
    return NotFound(f"There is no experiment {name!r}.", hint=hint)


def _experiment_records(
    connection: sa.Connection, rows: Sequence[sa.Row[Any]]
) -> list[ExperimentRecord]:
    ids = [row.id for row in rows]
    counts: dict[int, dict[str, int]] = {each: {} for each in ids}
    counted = connection.execute(
        sa.select(trials.c.experiment_id, trials.c.state, sa.func.count().label("number"))
        .where(trials.c.experiment_id.in_(ids))
        .group_by(trials.c.experiment_id, trials.c.state)
    )
    for each in counted:
        counts[each.experiment_id][each.state] = each.number
    return [
        ExperimentRecord(
            id=row.id,
            name=row.name,
            project=row.project,
            created=row.created,
            trials=sum(counts[row.id].values()),
            states=counts[row.id],
        )
        for row in rows
    ]
