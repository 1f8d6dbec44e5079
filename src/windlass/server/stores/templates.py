"""Templates in the database. The package `authoring` defines a template's valid fields."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.templates import (
    ChangeTemplate,
    CreateTemplate,
    TemplatePage,
    TemplateRecord,
)
from windlass.model.text import names
from windlass.model.text.names import proper_flaw
from windlass.server.db.base import Connection, Database, Row
from windlass.server.db.named_rows import NAMED_SORTS, as_id, find_row, set_fields, update_row
from windlass.server.db.paging import Conditions, Order, split_page

_LARGEST = 64 << 10


class TemplateStore:
    """Creates, changes and lists templates."""

    def __init__(self, database: Database) -> None:
        self._db = database

    async def create(self, request: CreateTemplate) -> TemplateRecord:
        """Create a template. If the request's key already exists, return the existing template."""
        names.check(proper_flaw(request.name, "template"))
        fields = _encoded(request.fields)

        def change(connection: Connection) -> TemplateRecord:
            query = "SELECT * FROM templates WHERE uid = :key"
            row = connection.row(query, {"key": request.key})
            if row is None:
                _check_free(connection, request.name)
                [row] = connection.rows(
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
            return _record(row)

        return await self._db.awrite(change)

    async def record(self, which: int | str) -> TemplateRecord:
        """Return one template by id or name."""
        return await self._db.aread(
            lambda connection: _record(find_row(connection, "template", which))
        )

    async def change(self, template_id: int, request: ChangeTemplate) -> TemplateRecord:
        """Change a template's name or fields."""

        def change(connection: Connection) -> TemplateRecord:
            row = find_row(connection, "template", template_id)
            columns = set_fields(request, ("name", "description", "fields"))
            if columns.get("name", row["name"]) != row["name"]:
                names.check(proper_flaw(columns["name"], "template"))
                _check_free(connection, columns["name"])
            if "fields" in columns:
                columns["fields"] = _encoded(columns["fields"])
            update_row(connection, "template", row["id"], columns)
            return _record(find_row(connection, "template", row["id"]))

        return await self._db.awrite(change)

    async def delete(self, template_id: int) -> None:
        """Delete a template if it exists. Trials that used it do not change."""
        parameters = {"id": as_id(template_id)}
        await self._db.awrite(
            lambda connection: connection.run("DELETE FROM templates WHERE id = :id", parameters)
        )

    async def page(
        self, *, name: str | None, sort: str, cursor: str | None, limit: int
    ) -> TemplatePage:
        """Return a page of templates."""
        conditions, order = Conditions(), Order(sort, NAMED_SORTS)
        conditions.equal("name", name)
        order.start_after(cursor, conditions)
        query = f"SELECT *, {order.columns} FROM templates{conditions.text}{order.tail(limit)}"

        def run(connection: Connection) -> TemplatePage:
            rows, following = split_page(connection.rows(query, conditions.parameters), limit)
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
            f"The fields of a template may have at most {_LARGEST} bytes; these have {len(text)}."
        )
    return text


def _check_free(connection: Connection, name: str) -> None:
    query = "SELECT id FROM templates WHERE name = :name"
    if connection.value(query, {"name": name}) is not None:
        raise Conflict(
            f"A template {name!r} already exists.",
            hint=f"Change it with wl.get_template({name!r}).set_fields(...), or choose "
            "another name.",
        )
