"""List queries: filters and order of a list of trials as one SQL query.

The columns that a scan of all trials reads have an index of their own (`trials_listed`), and
parameters and summaries are in tables by name. So a scan of 100,000 trials reads a few MB. Only the
trials of the page read their long rows.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Sequence

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.metrics import near_metric
from windlass.model.records import LISTED_KINDS, TrialKind, TrialState, is_own_metric
from windlass.model.text.display import shorten
from windlass.server.db.base import Connection, Row
from windlass.server.db.dialect import TRIALS_BY_LIST_INDEX
from windlass.server.db.paging import Conditions, Key, Order, direction_hint, nulls_last, split_page
from windlass.server.db.project_names import ARCHIVED_EXPERIMENTS
from windlass.server.db.scopes import Scope
from windlass.server.db.where_parser import METRIC, PARAMETER, Name, parse, parse_name
from windlass.server.db.where_sql import WhereCompiler, duration_at
from windlass.server.stores.trials.rows import COLUMNS, FROM

_QUICK = ("id", "created", "state")  # that have indexes of their own

_UNLISTED = ", ".join(f"'{kind.value}'" for kind in TrialKind if kind not in LISTED_KINDS)


Quoted = tuple[Name, str]  # a parameter, and the number in quotes that it is compared with


class TrialQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filters, order and page of a list of trials. A trial must match all filters."""

    uid: str | None = None
    scope: Scope = Scope()
    states: Sequence[TrialState] = ()
    name: str | None = None
    labels: Sequence[str] = ()
    origin_id: int | None = None
    parent_id: int | None = None
    archived: bool | None = None
    kinds: Sequence[TrialKind] = ()  # the kinds that a list has by default
    user: str | None = None
    created_after: float | None = None
    created_before: float | None = None
    where: str | None = None
    sort: str = "id"
    cursor: str | None = None
    limit: int = 100


def find_rows(
    connection: Connection, request: TrialQuery, now: float | None = None
) -> tuple[Sequence[Row], str | None, str]:
    """The rows of a page, the cursor of the next, and, of an empty list, why it may be empty."""
    query = _Query(connection, request, time.time() if now is None else now)
    rows, following = split_page(connection.rows(query.text, query.parameters), request.limit)
    return (
        rows,
        following,
        "" if rows or request.cursor else doubt(connection, query.names, query.quoted),
    )


class _Query:
    def __init__(self, connection: Connection, request: TrialQuery, now: float) -> None:
        self._connection = connection
        self._request = request
        self._conditions = Conditions()
        self.parameters = self._conditions.parameters
        self.names: list[Name] = []  # of parameters and metrics that are asked for
        self.quoted: list[Quoted] = []
        tree = parse(request.where, now) if request.where else None
        order, joined = self._order(now)
        self._require()
        if tree is not None:
            compiling = WhereCompiler(self._conditions, request.where or "", now)
            self._conditions.require(compiling.condition(tree))
            self.names += compiling.names
            self.quoted += compiling.quoted
            mentions_kind = compiling.mentions_kind
        else:
            mentions_kind = False
        self._require_kind(mentions_kind)
        order.start_after(request.cursor, self._conditions)
        source = TRIALS_BY_LIST_INDEX if self._looks_at_all else "trials"
        page = (
            f"SELECT trials.id AS trial_id, {order.columns} FROM {source}{joined}"
            f"{self._conditions.text}{order.tail(request.limit)}"
        )
        self.text = (
            f"SELECT {COLUMNS}, page.* {FROM} JOIN ({page}) AS page ON page.trial_id = trials.id"
            f"{order.order_by('page')}"
        )

    @property
    def _looks_at_all(self) -> bool:
        """Return whether the query may scan all trials, and the index covers it."""
        request = self._request
        if request.uid or request.origin_id is not None or request.parent_id is not None:
            return False
        is_sorted_apart = request.sort.removeprefix("-") not in _QUICK
        others = (
            request.where,
            request.name,
            request.user,
            request.created_after,
            request.created_before,
        )
        return is_sorted_apart or bool(request.kinds) or any(value is not None for value in others)

    def _require(self) -> None:
        request, conditions = self._request, self._conditions
        conditions.equal("trials.uid", request.uid)
        request.scope.limit(self._connection, conditions, is_first=request.cursor is None)
        if request.archived is not None:
            is_in = "IN" if request.archived else "NOT IN"
            conditions.require(f"trials.experiment_id {is_in} ({ARCHIVED_EXPERIMENTS})")
        conditions.one_of("trials.state", [state.value for state in request.states])
        conditions.equal("trials.name", request.name)
        if request.labels:
            labelled = conditions.branch()
            labelled.require("labelled.labels IS NOT NULL")  # so that its index serves
            labelled.all_in("labelled.labels", request.labels)
            labelled_ids = f"SELECT labelled.id FROM trials AS labelled{labelled.text}"
            conditions.require(f"trials.id IN ({labelled_ids})")
        conditions.equal("trials.origin_id", request.origin_id)
        conditions.equal("trials.parent_id", request.parent_id)
        conditions.equal('trials."user"', request.user)
        for sign, bound in ((">=", request.created_after), ("<", request.created_before)):
            if bound is not None:
                conditions.require(f"trials.created {sign} {conditions.bind(bound)}")

    def _require_kind(self, is_mentioned: bool) -> None:
        """A key belongs to one trial, of any kind, and `where` may already select a kind."""
        kinds = self._request.kinds
        if not kinds and (self._request.uid or is_mentioned):
            return
        if kinds:
            self._conditions.one_of("trials.kind", [kind.value for kind in kinds])
        else:  # said so, no index is searched once for each kind that is listed
            self._conditions.require(f"trials.kind NOT IN ({_UNLISTED})")

    def _order(self, now: float) -> tuple[Order, str]:
        """Return the order, and the join that it needs."""
        sort = self._request.sort
        wanted = sort.removeprefix("-")
        keys: dict[str, str | Sequence[Key]] = {
            "id": "trials.id",
            "created": "trials.created",
            "name": "trials.name",
            "state": "trials.state",
            "user": 'trials."user"',
            "started": nulls_last("trials.started"),
            "ended": nulls_last("trials.ended"),
        }
        if wanted == "duration":
            keys["duration"] = nulls_last(duration_at(self._conditions.bind(now)))
        name = None if wanted in keys else self._sorted_by(wanted)
        joined = ""
        if name is not None:
            if self._request.cursor is None:
                _check_name(self._connection, name, wanted)
            self.names.append(name)
            of_it = f"ON sorted.name = {self._conditions.bind(name.name)}"
            joined = f" LEFT JOIN {_table(name)} AS sorted {of_it} AND sorted.trial_id = trials.id"
            value = f"sorted.{name.aspect}"
            keys[wanted] = _PARAMETER_KEYS if name.kind == PARAMETER else nulls_last(value)
        if wanted not in keys:
            if hint := direction_hint(sort):
                raise InvalidArgument(f"Cannot sort by {shorten(sort, 60)!r}.", hint=hint)
            raise _cannot_sort_by(self._connection, wanted, sorted({*keys, "duration"}))
        return Order(sort, keys), joined

    def _sorted_by(self, wanted: str) -> Name | None:
        """The parameter or metric with a name. For a metric, `metrics.` is optional."""
        name = parse_name(wanted) if "." in wanted else None
        if name is None and (short := parse_name(f"{METRIC}.{wanted}")) is not None:
            # Once a page was given out, it is known to have been one.
            name = short if self._request.cursor or _is_stored(self._connection, short) else None
        return name


def newest_listed(connection: Connection) -> int | None:
    """The newest trial that a list has which nothing is asked of."""
    newest: int | None = connection.value(
        f"SELECT id FROM trials WHERE kind NOT IN ({_UNLISTED})"
        f" AND experiment_id NOT IN ({ARCHIVED_EXPERIMENTS}) ORDER BY id DESC LIMIT 1"
    )
    return newest


def doubt(connection: Connection, names: Sequence[Name], quoted: Sequence[Quoted]) -> str:
    """A hint for an empty list: no trial has the name, or the value is a number."""
    for name in names:
        if not _is_stored(connection, name):
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


def _cannot_sort_by(connection: Connection, wanted: str, plain: Sequence[str]) -> InvalidArgument:
    word = shorten(wanted, 60)
    near = difflib.get_close_matches(word.lower(), plain, n=1)
    parameter, metric = Name(PARAMETER, wanted), Name(METRIC, wanted)
    if _is_stored(connection, parameter):
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


# Numbers, then strings, then trials without a value.
_PARAMETER_KEYS = (
    Key(
        "(CASE WHEN sorted.number IS NOT NULL THEN 0 WHEN sorted.text IS NOT NULL THEN 1"
        " ELSE 2 END)",
        is_fixed=True,
    ),
    Key("coalesce(sorted.number, 0.0)"),
    Key("coalesce(sorted.text, '')"),
)


def _check_name(connection: Connection, name: Name, wanted: str) -> None:
    """Refuse to sort by an unknown name, unless no trial has any name."""
    if _is_stored(connection, name):
        return
    stored_names = _stored_names(connection, name)
    if stored_names:
        message, hint = _nobody_has(name, stored_names)
        raise InvalidArgument(f"Cannot sort by {shorten(wanted, 60)}. {message}", hint=hint)


def _nobody_has(name: Name, stored_names: Sequence[str]) -> tuple[str, str]:
    """The message that no trial has such a parameter or metric, and a hint with existing names."""
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


def _table(name: Name) -> str:
    return "parameters" if name.kind == PARAMETER else "summaries"


def _is_stored(connection: Connection, name: Name) -> bool:
    query = f"SELECT 1 FROM {_table(name)} WHERE name = :name LIMIT 1"
    return connection.value(query, {"name": name.name}) is not None


def _stored_names(connection: Connection, name: Name) -> list[str]:
    return [row["name"] for row in connection.rows(_distinct(_table(name)))]


def _distinct(table: str) -> str:
    """The first thousand names, each found by one step in the index: there may be many rows."""
    return f"""
    WITH RECURSIVE known (name, number) AS (
        SELECT min(name), 1 FROM {table}
        UNION ALL
        SELECT (SELECT min(name) FROM {table} WHERE {table}.name > known.name), number + 1
        FROM known WHERE known.name IS NOT NULL AND number < 1000
    )
    SELECT name FROM known WHERE name IS NOT NULL
    """
