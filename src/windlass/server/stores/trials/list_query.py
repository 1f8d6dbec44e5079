"""List queries, which return a sorted page of the trials that match all filters.

One index (`trials_listed`) contains all columns that filters read, and parameters and summaries
have their own tables. Therefore, only the trials on the page itself are read from the large table.

There are two ways to read a page. The first (`ordered_scan.py`) reads trials in order until the
page is full. The second searches for all matches and then sorts them. It is used if the order has
no index or if few trials match.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from windlass.model.records import LISTED_KINDS, TrialKind, TrialState
from windlass.server.db.base import Connection, Row
from windlass.server.db.dialect import TRIALS_BY_LIST_INDEX
from windlass.server.db.paging import Conditions, split_page
from windlass.server.db.project_names import ARCHIVED_EXPERIMENTS
from windlass.server.db.scopes import Scope
from windlass.server.db.where_parser import Name, Tree, parse
from windlass.server.db.where_sql import WhereCompiler
from windlass.server.stores.trials.list_order import narrowed, resolve_order
from windlass.server.stores.trials.ordered_scan import scan
from windlass.server.stores.trials.rows import COLUMNS, FROM
from windlass.server.stores.trials.stored_names import Quoted, doubt

_FEW = 5000  # up to this number, an experiment's trials are sorted instead of scanned
_UNLISTED = ", ".join(f"'{kind.value}'" for kind in TrialKind if kind not in LISTED_KINDS)


class TrialQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The filters, order and page of a trial list. A trial must match all filters."""

    uid: str | None = None
    scope: Scope = Scope()
    states: Sequence[TrialState] = ()
    name: str | None = None
    labels: Sequence[str] = ()
    origin_id: int | None = None
    parent_id: int | None = None
    archived: bool | None = None
    kinds: Sequence[TrialKind] = ()  # an empty list means all kinds except commands and shells
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
    """Return a page's rows, the next page's cursor, and a hint if the list is empty."""
    query = _Query(connection, request, time.time() if now is None else now)
    page, following = split_page(query.read(), request.limit)
    hint = "" if page or request.cursor else doubt(connection, query.names, query.quoted)
    return _whole_rows(connection, [row["trial_id"] for row in page]), following, hint


def _whole_rows(connection: Connection, ids: Sequence[int]) -> list[Row]:
    """Return the complete rows of trials, in the order of `ids`."""
    conditions = Conditions()
    conditions.one_of("trials.id", ids or [-1])
    query = f"SELECT {COLUMNS} {FROM}{conditions.text}"
    rows = {row["id"]: row for row in connection.rows(query, conditions.parameters)}
    return [rows[trial_id] for trial_id in ids if trial_id in rows]


class _Query:
    """A query for one page of a trial list."""

    def __init__(self, connection: Connection, request: TrialQuery, now: float) -> None:
        self._connection = connection
        self._request = request
        self._now = now
        self._tree: Tree | None = parse(request.where, now) if request.where else None
        self._conditions = Conditions()
        is_first = request.cursor is None
        self._order = resolve_order(
            connection, self._conditions, request.sort, now, is_first=is_first
        )
        self._experiments = request.scope.limit(connection, self._conditions, is_first=is_first)
        self.names: list[Name] = [] if self._order.name is None else [self._order.name]
        self.quoted: list[Quoted] = []
        self._require()
        # `where` is compiled for both ways to read a page. Both compilers report the same errors
        # and names.
        self._scan_filters, _ = self._filters(is_lookup=True)
        self._search_filters, compiler = self._filters(is_lookup=False)
        if self._tree is not None:
            self._order = narrowed(self._order, self._tree, self._scan_filters)
        if compiler is not None:
            self.names += compiler.names
            self.quoted += compiler.quoted

    def read(self) -> list[Row]:
        """Return the ids and sort keys of the trials on the page.

        If there is a next page, the result has one extra row, which indicates the next page.
        """
        request, order = self._request, self._order.order
        if self._order.spans and not self._is_small:
            rows = scan(
                self._connection,
                self._order.spans,
                self._scan_filters,
                None if request.cursor is None else order.position(request.cursor),
                request.limit + 1,
                is_descending=order.is_descending,
            )
            if rows is not None:
                return rows
        conditions = self._search_filters
        order.start_after(request.cursor, conditions)
        return self._connection.rows(
            f"SELECT trials.id AS trial_id, {order.columns} FROM {self._source}{self._order.join}"
            f"{conditions.text}{order.tail(request.limit)}",
            conditions.parameters,
        )

    @property
    def _source(self) -> str:
        """The SQL source to read trials from: the trials table, possibly read through an index."""
        request = self._request
        if self._has_own_index:
            return "trials"
        if request.sort.removeprefix("-") == "id" and self._experiments:
            return "trials"  # another index contains an experiment's trials by id
        return TRIALS_BY_LIST_INDEX

    @property
    def _has_own_index(self) -> bool:
        """True if the query has a filter that few trials match and for which there is an index."""
        request = self._request
        return bool(request.uid or request.origin_id is not None or request.parent_id is not None)

    @property
    def _is_small(self) -> bool:
        """True if so few trials can match that sorting them is faster than a scan."""
        if self._has_own_index:
            return True
        if self._experiments is None:
            return False
        if self._request.sort.removeprefix("-") == "id":
            return True
        conditions = Conditions()
        conditions.one_of("experiment_id", self._experiments or [-1])
        query = f"SELECT 1 FROM trials{conditions.text} LIMIT {_FEW + 1}"
        count = f"SELECT count(*) FROM ({query}) AS some_trials"
        return bool(self._connection.value(count, conditions.parameters) <= _FEW)

    def _filters(self, *, is_lookup: bool) -> tuple[Conditions, WhereCompiler | None]:
        conditions, compiler = self._conditions.copy(), None
        if self._tree is not None:
            where = self._request.where or ""
            compiler = WhereCompiler(conditions, where, self._now, is_lookup=is_lookup)
            conditions.require(compiler.condition(self._tree))
        if not is_lookup and self._experiments and self._source != "trials":
            # In the list index, an experiment's trials are not next to each other.
            scoped = conditions.branch()
            scoped.one_of("scoped.experiment_id", self._experiments)
            conditions.require(
                f"trials.id IN (SELECT scoped.id FROM trials AS scoped{scoped.text})"
            )
        self._require_kind(conditions, compiler is not None and compiler.mentions_kind)
        return conditions, compiler

    def _require(self) -> None:
        request, conditions = self._request, self._conditions
        conditions.equal("trials.uid", request.uid)
        if request.archived is not None:
            is_in = "IN" if request.archived else "NOT IN"
            conditions.require(f"trials.experiment_id {is_in} ({ARCHIVED_EXPERIMENTS})")
        conditions.one_of("trials.state", [state.value for state in request.states])
        conditions.equal("trials.name", request.name)
        if request.labels:
            labelled = conditions.branch()
            labelled.require("labelled.labels IS NOT NULL")  # lets SQLite use the index on labels
            labelled.all_in("labelled.labels", request.labels)
            labelled_ids = f"SELECT labelled.id FROM trials AS labelled{labelled.text}"
            conditions.require(f"trials.id IN ({labelled_ids})")
        conditions.equal("trials.origin_id", request.origin_id)
        conditions.equal("trials.parent_id", request.parent_id)
        conditions.equal('trials."user"', request.user)
        for sign, bound in ((">=", request.created_after), ("<", request.created_before)):
            if bound is not None:
                conditions.require(f"trials.created {sign} {conditions.bind(bound)}")

    def _require_kind(self, conditions: Conditions, is_mentioned: bool) -> None:
        """Add a condition on the kinds of trials.

        By default, a query by uid or a `where` that mentions the kind finds trials of any kind.
        """
        kinds = self._request.kinds
        if not kinds and (self._request.uid or is_mentioned):
            return
        if kinds:
            conditions.one_of("trials.kind", [kind.value for kind in kinds])
        else:  # an IN condition would make SQLite search an index once per kind
            conditions.require(f"trials.kind NOT IN ({_UNLISTED})")


def newest_listed(connection: Connection) -> int | None:
    """Return the id of the newest trial in a list without filters."""
    newest: int | None = connection.value(
        f"SELECT id FROM trials WHERE kind NOT IN ({_UNLISTED})"
        f" AND experiment_id NOT IN ({ARCHIVED_EXPERIMENTS}) ORDER BY id DESC LIMIT 1"
    )
    return newest
