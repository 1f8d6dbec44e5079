"""Functions for rows that have an id and a unique name, such as workspaces and models."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.model.errors import Conflict, NotFound
from windlass.server.db.base import Connection, Row
from windlass.server.db.paging import Columns, text_key

NAMED_SORTS: Columns = {"id": "id", "name": text_key("name"), "created": "created"}


def find_row(connection: Connection, noun: str, which: int | str) -> Row:
    """Return the row with this name or id. If there is none, raise NotFound with a suggestion."""
    row = None
    if isinstance(which, str):
        row = connection.row(f"SELECT * FROM {noun}s WHERE name = :name", {"name": which})
    if row is None:
        row = connection.row(f"SELECT * FROM {noun}s WHERE id = :id", {"id": as_id(which)})
    if row is None:
        raise not_found(noun, which, newest_names(connection, noun))
    return row


def newest_names(connection: Connection, noun: str) -> list[str]:
    """Return the names of the newest thousand rows of a table, newest first."""
    rows = connection.rows(f"SELECT name FROM {noun}s ORDER BY id DESC LIMIT 1000")
    return [row["name"] for row in rows]


def as_id(which: int | str) -> int:
    """Convert a number or a text of digits to a row id.

    For any other value, return -1, which is never used as an id.
    """
    if isinstance(which, str):
        which = int(which) if which.isascii() and which.isdigit() and len(which) < 19 else -1
    return which if 0 < which < 2**63 else -1


def not_found(noun: str, name: object, names: list[str]) -> NotFound:
    """Return the error for an unknown name, with a similar name or a list of existing names."""
    by_lower = {candidate.lower(): candidate for candidate in reversed(names)}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    some = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    hint = f"The names are: {some}. See: windlass {noun} ls"
    if not names:
        hint = f"Create one: windlass {noun} create NAME"
    if near:
        hint = f"Did you mean {by_lower[near[0]]!r}?"
    return NotFound(f"There is no {noun} {name!r}.", hint=hint)


def set_fields(request: msgspec.Struct, fields: Sequence[str]) -> dict[str, Any]:
    """Return the names and values of the fields that a request sets."""
    values = {name: getattr(request, name) for name in fields}
    return {k: value for k, value in values.items() if not isinstance(value, msgspec.UnsetType)}


def update_row(connection: Connection, noun: str, row_id: int, columns: Mapping[str, Any]) -> None:
    """Set a row's columns. Do nothing if there are no columns to set."""
    if columns:
        changes = ", ".join(f"{name} = :{name}" for name in columns)
        query = f"UPDATE {noun}s SET {changes} WHERE id = :id"
        connection.run(query, {**columns, "id": row_id})


def name_conflict(noun: str, name: str, *, is_new: bool = False) -> Conflict:
    """Return the error for a name that already exists.

    `is_new` is true if the row is being created, and false if it is being renamed.
    """
    way = "exist_ok=True" if is_new else f"wl.get_{noun}({name!r})"
    return Conflict(
        f"A {noun} {name!r} already exists.",
        hint=f"Use the existing one with {way}, or choose another name.",
    )
