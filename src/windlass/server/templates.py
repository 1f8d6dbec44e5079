"""Templates in SQL. What their fields may be is known to those who write jobs."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from windlass.model import names
from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.names import proper_flaw
from windlass.model.templates import (
    ChangeTemplate,
    CreateTemplate,
    TemplatePage,
    TemplateRecord,
)
from windlass.server.database import Connection, Database, Row
from windlass.server.named import as_id, find_row, given_fields, update_row
from windlass.server.paging import Conditions, Order, cut

_LARGEST = 64 << 10
_SORTS = {name: name for name in ("id", "name", "created")}


class TemplateStore:
    """Every template there is."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def create(self, request: CreateTemplate) -> TemplateRecord:
        """The template that a key made before, or that it makes now."""
        names.check(proper_flaw(request.name, "template"))
        fields = _encoded(request.fields)

        def change(connection: Connection) -> TemplateRecord:
            query = "SELECT * FROM templates WHERE uid = :key"
            found = connection.row(query, {"key": request.key})
            if found is None:
                _check_free(connection, request.name)
                [found] = connection.rows(
                    'INSERT INTO templates (uid, name, created, "user", description, fields)'
                    " VALUES (:uid, :name, :created, :user, :description, :fields) RETURNING *",
                    {
                        "uid": request.key,
                        "name": request.name,
                        "created": time.time(),
                        "user": request.user,
                        "description": request.description,
                        "fields": fields,
                    },
                )
            return _record(found)

        return await self._db.awrite(change)

    async def record(self, which: int | str) -> TemplateRecord:
        """One template, by id or by name."""
        return await self._db.aread(lambda each: _record(find_row(each, "template", which)))

    async def change(self, template_id: int, request: ChangeTemplate) -> TemplateRecord:
        """Give a template another name or other fields."""

        def change(connection: Connection) -> TemplateRecord:
            row = find_row(connection, "template", template_id)
            given = given_fields(request, ("name", "description", "fields"))
            if given.get("name", row["name"]) != row["name"]:
                names.check(proper_flaw(given["name"], "template"))
                _check_free(connection, given["name"])
            if "fields" in given:
                given["fields"] = _encoded(given["fields"])
            update_row(connection, "template", row["id"], given)
            return _record(find_row(connection, "template", row["id"]))

        return await self._db.awrite(change)

    async def delete(self, template_id: int) -> None:
        """Delete a template; one that is gone is gone. Trials that used it stay as they are."""
        asked = {"id": as_id(template_id)}
        await self._db.awrite(lambda each: each.run("DELETE FROM templates WHERE id = :id", asked))

    async def page(
        self, *, name: str | None, sort: str, cursor: str | None, limit: int
    ) -> TemplatePage:
        """Templates, a page of them."""
        asked, order = Conditions(), Order(sort, _SORTS)
        asked.equal("name", name)
        order.begin_after(cursor, asked)
        query = f"SELECT *, {order.columns} FROM templates{asked.text}{order.tail(limit)}"

        def run(connection: Connection) -> TemplatePage:
            rows, following = cut(connection.rows(query, asked.parameters), limit)
            return TemplatePage(items=tuple(map(_record, rows)), next=following)

        return await self._db.aread(run)


def _record(row: Row) -> TemplateRecord:
    return TemplateRecord(
        id=row["id"],
        name=row["name"],
        created=row["created"],
        user=row["user"],
        description=row["description"],
        fields=msgspec.json.decode(row["fields"]),
    )


def _encoded(fields: dict[str, Any]) -> bytes:
    text = msgspec.json.encode(fields)
    if len(text) > _LARGEST:
        raise InvalidArgument(
            f"The fields of a template are at most {_LARGEST} bytes; these are {len(text)}."
        )
    return text


def _check_free(connection: Connection, name: str) -> None:
    query = "SELECT id FROM templates WHERE name = :name"
    if connection.value(query, {"name": name}) is not None:
        raise Conflict(
            f"There is a template {name!r} already.",
            hint=f"Change it, wl.get_template({name!r}).set_fields(...), or choose another name.",
        )
