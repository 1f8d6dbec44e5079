"""Experiments in SQL: made with their first trial, counted when asked for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from windlass.model.errors import NotFound
from windlass.model.records import ExperimentRecord
from windlass.model.wire import ExperimentPage
from windlass.server.database import Connection, Database, Row
from windlass.server.paging import Conditions, Order, cut


class ExperimentStore:
    """Every experiment there is."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def record(self, name: str) -> ExperimentRecord:
        """The newest experiment of that name; a number is taken as an id first."""
        is_number = name.isascii() and name.isdigit() and len(name) < 19
        asked = {"name": name, "id": int(name) if is_number else -1}

        def query(connection: Connection) -> ExperimentRecord:
            row = connection.row(
                "SELECT * FROM experiments WHERE name = :name OR id = :id"
                " ORDER BY id = :id DESC, id DESC LIMIT 1",
                asked,
            )
            if row is None:
                raise _missing_experiment(connection, name)
            return _experiment_records(connection, [row])[0]

        return await self._db.aread(query)

    async def page(
        self, *, project: str | None, name: str | None, sort: str, cursor: str | None, limit: int
    ) -> ExperimentPage:
        """Experiments that match, a page of them."""
        asked, order = Conditions(), Order(sort, _EXPERIMENT_SORTS)
        asked.equal("project", project)
        asked.equal("name", name)
        order.begin_after(cursor, asked)
        query = f"SELECT *, {order.columns} FROM experiments{asked.text}{order.tail(limit)}"

        def run(connection: Connection) -> ExperimentPage:
            rows, following = cut(connection.rows(query, asked.parameters), limit)
            return ExperimentPage(
                items=tuple(_experiment_records(connection, rows)), next=following
            )

        return await self._db.aread(run)


def find_or_make(connection: Connection, project: str, name: str, now: float) -> int:
    """The id of the newest experiment of that name, which is made if there is none."""
    asked = {"project": project, "name": name, "created": now}
    found = connection.value(
        "SELECT max(id) FROM experiments WHERE project = :project AND name = :name", asked
    )
    if found is None:
        found = connection.value(
            "INSERT INTO experiments (project, name, created)"
            " VALUES (:project, :name, :created) RETURNING id",
            asked,
        )
    return int(found)


_EXPERIMENT_SORTS = {name: name for name in ("id", "name", "created")}


def _missing_experiment(connection: Connection, name: str) -> NotFound:
    names = [
        row["name"] for row in connection.rows("SELECT DISTINCT name FROM experiments LIMIT 1000")
    ]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "See what there is: windlass ls"
    return NotFound(f"There is no experiment {name!r}.", hint=hint)


def _experiment_records(connection: Connection, rows: Sequence[Row]) -> list[ExperimentRecord]:
    counts: dict[int, dict[str, int]] = {row["id"]: {} for row in rows}
    asked = Conditions()
    asked.one_of("experiment_id", list(counts) or [-1])
    for each in connection.rows(
        f"SELECT experiment_id, state, count(*) AS number FROM trials{asked.text}"
        " GROUP BY experiment_id, state",
        asked.parameters,
    ):
        counts[each["experiment_id"]][each["state"]] = each["number"]
    return [
        ExperimentRecord(
            id=row["id"],
            name=row["name"],
            project=row["project"],
            created=row["created"],
            trials=sum(counts[row["id"]].values()),
            states=counts[row["id"]],
        )
        for row in rows
    ]
