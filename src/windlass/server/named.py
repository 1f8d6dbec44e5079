"""Rows that have an id and a name of their own: workspaces, projects, models, templates."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.model.errors import Conflict, NotFound
from windlass.server.database import Connection, Row


def find_row(connection: Connection, noun: str, which: int | str) -> Row:
    """The row of that name or id; a missing one is told with what there is near it."""
    row = None
    if isinstance(which, str):
        row = connection.row(f"SELECT * FROM {noun}s WHERE name = :name", {"name": which})
    if row is None:
        row = connection.row(f"SELECT * FROM {noun}s WHERE id = :id", {"id": as_id(which)})
    if row is None:
        raise missing(noun, which, newest_names(connection, noun))
    return row


def newest_names(connection: Connection, noun: str) -> list[str]:
    """What there is of a noun, the newest first."""
    found = connection.rows(f"SELECT name FROM {noun}s ORDER BY id DESC LIMIT 1000")
    return [each["name"] for each in found]


def as_id(which: int | str) -> int:
    """A number as an id, also where it is a text; -1, which nothing has, for all else."""
    if isinstance(which, str):
        which = int(which) if which.isascii() and which.isdigit() and len(which) < 19 else -1
    return which if 0 < which < 2**63 else -1


def missing(noun: str, name: object, there: list[str]) -> NotFound:
    """That there is none of that name, and what was probably meant, or what there is."""
    by_lower = {each.lower(): each for each in reversed(there)}
    near = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    some = ", ".join(there[:5]) + (", …" if len(there) > 5 else "")
    hint = f"There is: {some}. See: windlass {noun} ls" if there else f"There is no {noun} yet."
    if near:
        hint = f"Did you mean {by_lower[near[0]]!r}?"
    return NotFound(f"There is no {noun} {name!r}.", hint=hint)


def given_fields(request: msgspec.Struct, fields: Sequence[str]) -> dict[str, Any]:
    """What of a request was given."""
    told = {name: getattr(request, name) for name in fields}
    return {k: value for k, value in told.items() if not isinstance(value, msgspec.UnsetType)}


def update_row(connection: Connection, noun: str, row_id: int, given: Mapping[str, Any]) -> None:
    """Give columns of a row other values; none are given, none change."""
    if given:
        changes = ", ".join(f"{name} = :{name}" for name in given)
        query = f"UPDATE {noun}s SET {changes} WHERE id = :id"
        connection.run(query, {**given, "id": row_id})


def taken(noun: str, name: str, *, is_new: bool = False) -> Conflict:
    """That a name is another's: for one that is to be made, or is to be called so."""
    way = "take it as it is, exist_ok=True" if is_new else f"ask for it, wl.get_{noun}({name!r})"
    return Conflict(
        f"There is a {noun} {name!r} already.",
        hint=f"{way[0].upper()}{way[1:]}, or choose another name.",
    )
