"""Checks that parameters and metrics in a query exist, and suggests similar names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from windlass.model.errors import InvalidArgument
from windlass.model.metrics import near_metric
from windlass.model.records import is_own_metric
from windlass.model.text.display import shorten
from windlass.server.db.base import Connection
from windlass.server.db.where_parser import METRIC, PARAMETER, Name

Quoted = tuple[Name, str]  # a parameter and the quoted number with which the query compares it


def doubt(connection: Connection, names: Sequence[Name], quoted: Sequence[Quoted]) -> str:
    """Return a hint on why a query found nothing: an unknown name or a quoted number."""
    for name in names:
        if not is_stored(connection, name):
            message, hint = _nobody_has(name, _stored_names(connection, name))
            return f"{message} {hint}".rstrip()
    for name, text in quoted:
        query = "SELECT 1 FROM parameters WHERE name = :name AND number IS NOT NULL LIMIT 1"
        if connection.value(query, {"name": name.name}) is not None:
            return (
                f"The parameter {shorten(name.name, 60)!r} is a number, but {text!r} "
                f"is a string. Remove the quotes: {name} = {text}"
            )
    return ""


def cannot_sort_by(connection: Connection, wanted: str, plain: Sequence[str]) -> InvalidArgument:
    word = shorten(wanted, 60)
    near = difflib.get_close_matches(word.lower(), plain, n=1)
    parameter, metric = Name(PARAMETER, wanted), Name(METRIC, wanted)
    if is_stored(connection, parameter):
        near = [str(parameter)]
    if not near and (likely := near_metric(wanted, _stored_names(connection, metric))):
        near = [repr(likely)]
    meant = f"Write a parameter as hparams.{word}, a metric as metrics.{word}."
    return InvalidArgument(
        f"Cannot sort by {word!r}.",
        hint=(f"Did you mean {near[0]}? " if near else f"{meant}\n")
        + f"Sort by {', '.join(plain)}, hparams.NAME, metrics.NAME, metrics.NAME.min "
        "(max, mean, count), or the name of a metric.",
    )


def check_name(connection: Connection, name: Name, wanted: str) -> None:
    """Raise InvalidArgument if no trial has the parameter or metric by which a list is sorted.

    The check passes if no trial has any parameters or metrics at all.
    """
    if is_stored(connection, name):
        return
    stored_names = _stored_names(connection, name)
    if stored_names:
        message, hint = _nobody_has(name, stored_names)
        raise InvalidArgument(f"Cannot sort by {shorten(wanted, 60)}. {message}", hint=hint)


def _nobody_has(name: Name, stored_names: Sequence[str]) -> tuple[str, str]:
    """Return the message that no trial has a certain parameter or metric, and a hint.

    The hint suggests a similar name or lists some existing names.
    """
    what = "parameter" if name.kind == PARAMETER else "metric"
    message = f"No trial has a {what} {shorten(name.name, 60)!r}."
    near = near_metric(name.name, stored_names)
    if near:
        return message, f"Did you mean {name._replace(name=near, aspect='')}?"
    own = [
        stored_name
        for stored_name in stored_names
        if name.kind == PARAMETER or is_own_metric(stored_name)
    ]
    some = ", ".join(own[:10]) + (", …" if len(own) > 10 else "")
    return message, f"The names are: {some}." if own else ""


def table_of(name: Name) -> str:
    return "parameters" if name.kind == PARAMETER else "summaries"


def is_stored(connection: Connection, name: Name) -> bool:
    query = f"SELECT 1 FROM {table_of(name)} WHERE name = :name LIMIT 1"
    return connection.value(query, {"name": name.name}) is not None


def _stored_names(connection: Connection, name: Name) -> list[str]:
    return [row["name"] for row in connection.rows(_distinct(table_of(name)))]


def _distinct(table: str) -> str:
    """Return SQL for the first thousand names in a table.

    The query searches the index once per name instead of reading all rows, because a name may have
    very many rows.
    """
    return f"""
    WITH RECURSIVE known (name, number) AS (
        SELECT min(name), 1 FROM {table}
        UNION ALL
        SELECT (SELECT min(name) FROM {table} WHERE {table}.name > known.name), number + 1
        FROM known WHERE known.name IS NOT NULL AND number < 1000
    )
    SELECT name FROM known WHERE name IS NOT NULL
    """
