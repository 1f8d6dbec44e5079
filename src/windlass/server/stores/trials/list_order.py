"""Sort orders for lists of trials: by a column, a hyper-parameter or a metric.

A list that is sorted by id, creation time, a hyper-parameter or a metric consists of spans. A span
is a part of the list that an index contains in the right order (see `ordered_scan.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from windlass.model.errors import InvalidArgument
from windlass.model.text.display import shorten
from windlass.server.db.base import Connection
from windlass.server.db.dialect import by_index
from windlass.server.db.paging import (
    Columns,
    Conditions,
    Key,
    Order,
    direction_hint,
    nulls_last,
    text_key,
)
from windlass.server.db.where_parser import (
    METRIC,
    PARAMETER,
    Comparison,
    Junction,
    Name,
    Tree,
    parse_name,
)
from windlass.server.db.where_sql import duration_at
from windlass.server.stores.trials.ordered_scan import Span
from windlass.server.stores.trials.stored_names import (
    cannot_sort_by,
    check_name,
    is_stored,
    table_of,
)

_COLUMNS: Columns = {
    "id": "trials.id",
    "created": "trials.created",
    "name": text_key("trials.name"),
    "state": text_key("trials.state"),
    "user": text_key('trials."user"'),
    "started": nulls_last("trials.started"),
    "ended": nulls_last("trials.ended"),
}
_INDEXED = ("last", "min", "max")  # the aspects of metrics that have an index
# Numbers come first, then texts, then trials that have no value.
_PARAMETER_KEYS = (
    Key(
        "CASE WHEN sorted.number IS NOT NULL THEN 0 WHEN sorted.text IS NOT NULL THEN 1 ELSE 2 END",
        is_fixed=True,
    ),
    Key("coalesce(sorted.number, 0.0)"),
    Key("CASE WHEN sorted.number IS NULL THEN coalesce(sorted.text, '') ELSE '' END", is_text=True),
)
_ALL_BY_ID = Span(
    source=by_index("trials", "ordered", "trials_listed"), trial_id="ordered.id", keys=()
)


class ListOrder(NamedTuple):
    """A list's sort order and the indexes that contain the list in this order."""

    order: Order
    join: str = ""  # joins the table of the values to sort by, which may lack a row for a trial
    spans: Sequence[Span] = ()  # empty if no index contains the trials in this order
    name: Name | None = None  # the parameter or metric to sort by


def resolve_order(
    connection: Connection, conditions: Conditions, sort: str, now: float, *, is_first: bool
) -> ListOrder:
    """Return the sort order for a sort key such as `-metrics.loss`.

    Raise InvalidArgument if there is no such key.
    """
    wanted = sort.removeprefix("-")
    if wanted == "id":
        return ListOrder(Order(sort, _COLUMNS), spans=(_ALL_BY_ID,))
    if wanted == "created":
        source = by_index("trials", "ordered", "trials_by_created")
        span = Span(source=source, trial_id="ordered.id", keys=("ordered.created",), value_at=0)
        return ListOrder(Order(sort, _COLUMNS), spans=(span,))
    if wanted in _COLUMNS:
        return ListOrder(Order(sort, _COLUMNS))
    if wanted == "duration":
        duration = duration_at(conditions.bind(now))
        return ListOrder(Order(sort, {**_COLUMNS, "duration": nulls_last(duration)}))
    name = _find_name(connection, wanted, is_first=is_first)
    if name is None:
        if hint := direction_hint(sort):
            raise InvalidArgument(f"Cannot sort by {shorten(sort, 60)!r}.", hint=hint)
        raise cannot_sort_by(connection, wanted, sorted({*_COLUMNS, "duration"}))
    if is_first:
        check_name(connection, name, wanted)
    return _by_value(conditions, sort, name)


def narrowed(order: ListOrder, tree: Tree, conditions: Conditions) -> ListOrder:
    """Add limits from `where` to an order, so that the scan skips rows in the index.

    Limits exist if `where` compares the parameter or metric by which the list is sorted.
    """
    limits = [
        f"{order.spans[0].columns[0]} {comparison.operator} {conditions.bind(comparison.values[0])}"
        for comparison in _required(tree)
        if order.spans and comparison.name == order.name and _is_range(comparison)
    ]
    if not limits:
        return order
    numbers = order.spans[0]  # only this span can match, because the other spans contain no numbers
    return order._replace(spans=(numbers._replace(where=" AND ".join((numbers.where, *limits))),))


def _required(tree: Tree) -> Iterator[Comparison]:
    """Yield the comparisons in a `where` condition that every matching trial must fulfil."""
    if isinstance(tree, Comparison):
        yield tree
    elif isinstance(tree, Junction) and tree.operator == "and":
        for part in tree.parts:
            yield from _required(part)


def _is_range(comparison: Comparison) -> bool:
    if len(comparison.values) != 1 or comparison.operator not in ("<", "<=", ">", ">=", "="):
        return False
    value = comparison.values[0]
    return isinstance(value, float) and value == value  # excludes NaN, which is stored as a text


def _find_name(connection: Connection, wanted: str, *, is_first: bool) -> Name | None:
    """Return the parameter or metric that a sort key names.

    The prefix `metrics.` may be omitted.
    """
    name = parse_name(wanted) if "." in wanted else None
    if name is None and (metric := parse_name(f"{METRIC}.{wanted}")) is not None:
        # For a later page, the first page has already shown that the name is a metric.
        name = metric if not is_first or is_stored(connection, metric) else None
    return name


def _by_value(conditions: Conditions, sort: str, name: Name) -> ListOrder:
    """Return the sort order of a list of trials that is sorted by a parameter or a metric."""
    parameter = conditions.bind(name.name)
    join = (
        f" LEFT JOIN {table_of(name)} AS sorted"
        f" ON sorted.name = {parameter} AND sorted.trial_id = trials.id"
    )
    wanted = sort.removeprefix("-")
    # Use a lower bound, because IS NOT NULL does not make SQLite skip nulls in an index.
    least = conditions.bind(-math.inf)
    if name.kind == PARAMETER:
        order = Order(sort, {"id": "trials.id", wanted: _PARAMETER_KEYS})
        return ListOrder(order, join, _parameter_spans(parameter, least), name)
    column = f"sorted.{name.aspect}"
    order = Order(sort, {"id": "trials.id", wanted: nulls_last(column)})
    spans = _metric_spans(parameter, name.aspect, least) if name.aspect in _INDEXED else ()
    return ListOrder(order, join, spans, name)


def _parameter_spans(name: str, least: str) -> tuple[Span, ...]:
    numbers = Span(
        source=by_index("parameters", "sorted", "parameters_by_number"),
        trial_id="sorted.trial_id",
        where=f"sorted.name = {name} AND sorted.number >= {least}",
        keys=("0", "sorted.number", "''"),
        value_at=1,
        rank=0,
    )
    texts = Span(
        source=by_index("parameters", "sorted", "parameters_by_text"),
        trial_id="sorted.trial_id",
        where=f"sorted.name = {name} AND sorted.number IS NULL AND sorted.text IS NOT NULL",
        keys=("1", "0.0", "sorted.text"),
        value_at=2,
        rank=1,
    )
    has_value = (
        f"SELECT 1 FROM parameters WHERE name = {name} AND trial_id = trials.id"
        " AND (number IS NOT NULL OR text IS NOT NULL)"
    )
    missing = _ALL_BY_ID._replace(
        keys=("2", "0.0", "''"), filter=f"NOT EXISTS ({has_value})", rank=2
    )
    return numbers, texts, missing


def _metric_spans(name: str, column: str, least: str) -> tuple[Span, ...]:
    values = Span(
        source=by_index("summaries", "sorted", f"summaries_by_{column}"),
        trial_id="sorted.trial_id",
        where=f"sorted.name = {name} AND sorted.{column} >= {least}",
        keys=("0", f"sorted.{column}"),
        value_at=1,
        rank=0,
    )
    has_value = (
        f"SELECT 1 FROM summaries WHERE name = {name} AND trial_id = trials.id"
        f" AND {column} IS NOT NULL"
    )
    missing = _ALL_BY_ID._replace(keys=("1", "0.0"), filter=f"NOT EXISTS ({has_value})", rank=1)
    return values, missing
