"""Metric summaries as database rows. Each point counts only once, even after a crash.

A restarted replica may repeat steps. In that case, the newest attempt counts: from the first step
that it reports for a metric, the points of earlier attempts no longer count. The table `tallies`
contains the totals of the counted points per attempt, and `summaries` contains the sums over all
attempts.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from windlass.model.records import Summary
from windlass.model.status import ReplicaId
from windlass.server.db.base import Connection, Row
from windlass.server.db.paging import Conditions
from windlass.server.stores.metrics.columns import Column
from windlass.worker.program.report import MOST_NAMES


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of metric values. Two tallies can be added."""

    count: int = 0
    finite: int = 0  # the number of finite values
    total: float = 0.0  # the sum of the finite values
    min: float | None = None
    max: float | None = None
    last: float = math.nan
    step: int = 0  # the step of the last value
    time: float = 0.0  # the time of the last value

    @property
    def mean(self) -> float | None:
        return self.total / self.finite if self.finite else None

    @property
    def summary(self) -> Summary:
        """The totals of a metric's values in the form that the API returns."""
        return Summary(
            count=self.count,
            min=self.min,
            max=self.max,
            mean=self.mean,
            last=self.last,
            step=self.step,
        )

    def plus(self, other: Tally) -> Tally:
        """Return the sum of two tallies. Its `last` is the value that was reported last."""
        if not (self.count and other.count):
            return other if other.count else self
        newest = other if other.time >= self.time else self
        return Tally(
            count=self.count + other.count,
            finite=self.finite + other.finite,
            total=_bounded(self.total + other.total),
            min=min((v for v in (self.min, other.min) if v is not None), default=None),
            max=max((v for v in (self.max, other.max) if v is not None), default=None),
            last=newest.last,
            step=newest.step,
            time=newest.time,
        )


def count_column(column: Column) -> Tally:
    """Return the totals of a column's points.

    >>> from windlass.server.stores.metrics.columns import make_column
    >>> count_column(make_column([(1, 1.0, 0.5), (2, 2.0, float("nan")), (3, 3.0, 0.25)])).summary
    Summary(count=3, min=0.25, max=0.5, mean=0.375, last=0.25, step=3)
    """
    values: Sequence[float] = column.values
    if not values:
        return Tally()
    count, last = len(values), values[-1]
    total = sum(values)
    finite = values
    if not math.isfinite(total):
        values = [v for v in values if v == v]
        finite = [v for v in values if math.isfinite(v)]
        total = sum(finite)
    return Tally(
        count=count,
        finite=len(finite),
        total=_bounded(total),
        min=min(values, default=None),
        max=max(values, default=None),
        last=last,
        step=column.steps[-1],
        time=column.times[-1],
    )


def _bounded(total: float) -> float:
    """Limit a sum to the finite range.

    A sum of huge numbers may overflow, but JSON has no infinite numbers.
    """
    most = sys.float_info.max
    return max(-most, min(total, most)) if total == total else 0.0


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a metric's summary that comes from one attempt."""

    first: int  # the lowest reported step
    reach: int  # the highest reported step
    until: int | None = None  # the step from which a later attempt counts instead
    tally: Tally = Tally()


class ReplicaCounts(msgspec.Struct, frozen=True):
    """The counted points of all attempts of one replica."""

    positions: dict[int, int]  # the read positions in the metrics files, by attempt
    shares: dict[str, dict[int, Share]]  # the shares of the summary, by metric and attempt


class SummaryPiece(msgspec.Struct, frozen=True):
    """An attempt's new points and the changes that they cause in summaries."""

    uid: str
    trial_id: int
    replica: ReplicaId
    end: int  # the read position in the metrics file after this piece
    counted: ReplicaCounts  # the counts before this piece; if they have changed, the piece is stale
    shares: Mapping[str, dict[int, Share]]  # changed shares after this piece, by metric and attempt
    added: Mapping[str, Tally]  # values to add, for metrics whose earlier attempts lose no points
    progress: float | None = None


class Stale(Exception):
    """Raised if a metric's counted points changed during a computation that started from them.

    The computation must be repeated.
    """


class Added(msgspec.Struct, frozen=True):
    """The summaries that changed when a piece of new points was stored."""

    experiment_id: int
    summaries: dict[str, Summary]
    left_out: str = ""  # the first metric beyond the limit of metrics per trial


# A function that counts an attempt's metrics again, up to one step per metric and up to a position
# in the file.
Reread = Callable[[int, Mapping[str, int], int], Mapping[str, Tally]]


def read_counted(connection: Connection, trial_id: int, replica: ReplicaId) -> ReplicaCounts:
    """Read a replica's counted points."""
    whose = _replica(trial_id, replica)
    shares: dict[str, dict[int, Share]] = {}
    for row in connection.rows(_SHARES, whose):
        share = Share(first=row["first"], reach=row["reach"], until=row["until"], tally=_tally(row))
        shares.setdefault(row["name"], {})[row["attempt"]] = share
    return ReplicaCounts(_positions(connection, whose), shares)


def shares_with(
    counted: ReplicaCounts, attempt: int, columns: Mapping[str, Column], reread: Reread
) -> tuple[dict[str, dict[int, Share]], dict[str, Tally]]:
    """Compute how an attempt's new points change a replica's counted points.

    `columns` contains the new points of `attempt`. From the first new step of a metric on, the
    points of earlier attempts no longer count, so their shares change, too. Return all changed
    shares by metric and attempt. For each metric of which only this attempt's share changed, also
    return the totals of the new points, which can simply be added to the summary.
    """
    shares: dict[str, dict[int, Share]] = {}
    added: dict[str, Tally] = {}
    to_reread: dict[int, dict[str, int]] = {}  # steps, by attempt and metric
    for name, column in columns.items():
        before = counted.shares.get(name, {})
        own = before.get(attempt)
        first, reach = min(column.steps), max(column.steps)
        until = min((share.first for n, share in before.items() if n > attempt), default=None)
        new = count_column(column if until is None or reach < until else column.below(until))
        whole = Share(
            first=min(first, own.first) if own else first,
            reach=max(reach, own.reach) if own else reach,
            until=until,
            tally=own.tally.plus(new) if own else new,
        )
        shares[name] = {attempt: whole}
        for number, share in before.items():
            cut = _cut(share, first) if number < attempt else None
            if cut is not None:
                shares[name][number] = cut
                if share.first < first:
                    to_reread.setdefault(number, {})[name] = first
        if len(shares[name]) == 1:
            added[name] = new
    for number, steps in to_reread.items():
        for name, tally in reread(number, steps, counted.positions.get(number, 0)).items():
            cut = shares[name][number]
            shares[name][number] = msgspec.structs.replace(cut, tally=tally)
    return shares, added


def _cut(share: Share, first: int) -> Share | None:
    """Return an earlier attempt's share, limited to the steps before `first`, with empty totals.

    The caller must count the totals again. Return None if the limit does not change the share.
    """
    if share.until is not None and share.until <= first:
        return None
    if share.reach < first:
        return None
    return msgspec.structs.replace(share, until=first, tally=Tally())


_SHARES = """
SELECT * FROM tallies WHERE trial_id = :trial_id AND role = :role AND "index" = :index
"""

_MOVE = """
INSERT INTO readings (trial_id, role, "index", attempt, position)
SELECT id, :role, :index, :attempt, :end FROM trials WHERE id = :trial_id AND uid = :uid
ON CONFLICT (trial_id, role, "index", attempt) DO UPDATE SET position = excluded.position
"""

_PUT_SHARE = """
INSERT INTO tallies (trial_id, role, "index", attempt, name, first, reach, until,
    count, finite, total, min, max, last, step, time)
VALUES (:trial_id, :role, :index, :attempt, :name, :first, :reach, :until,
    :count, :finite, :total, :min, :max, :last, :step, :time)
ON CONFLICT (trial_id, role, "index", attempt, name) DO UPDATE SET
    first = excluded.first, reach = excluded.reach, until = excluded.until,
    count = excluded.count, finite = excluded.finite, total = excluded.total, min = excluded.min,
    max = excluded.max, last = excluded.last, step = excluded.step, time = excluded.time
"""

_INSERT = """
INSERT INTO summaries (trial_id, name, count, finite, total, mean, min, max, last, step, time)
VALUES (:trial_id, :name, :count, :finite, :total, :mean, :min, :max, :last, :step, :time)
"""

# The update leaves out unchanged extremes, because they rarely change and each has an index.
_UPDATE = """
UPDATE summaries SET
    count = :count, finite = :finite, total = :total, mean = :mean, last = :last, step = :step,
    time = :time{extremes}
WHERE trial_id = :trial_id AND name = :name
"""
_UPDATES = {
    (is_min_new, is_max_new): _UPDATE.format(
        extremes=", min = :min" * is_min_new + ", max = :max" * is_max_new
    )
    for is_min_new in (False, True)
    for is_max_new in (False, True)
}


def add(connection: Connection, piece: SummaryPiece) -> Added | None:
    """Store the counts of a piece of new points, and return the changed summaries.

    Return None if the trial does not exist. Each piece counts only once: if the stored read
    positions are not those from which the piece starts, `Stale` is raised.
    """
    whose = _replica(piece.trial_id, piece.replica)
    if _positions(connection, whose) != piece.counted.positions:
        raise Stale
    where = {**whose, "attempt": piece.replica.attempt}
    if not connection.run(_MOVE, {**where, "uid": piece.uid, "end": piece.end}):
        return None
    experiment_id = connection.value("SELECT experiment_id FROM trials WHERE id = :trial_id", whose)
    if piece.progress is not None:
        connection.run(
            "UPDATE trials SET progress = :progress WHERE id = :trial_id",
            {**whose, "progress": piece.progress},
        )
    rows = connection.rows("SELECT * FROM summaries WHERE trial_id = :trial_id", whose)
    tallies = {row["name"]: _tally(row) for row in rows}
    taken, left_out = _within_limit(tallies, piece.shares)
    connection.run_many(
        _PUT_SHARE,
        (
            {**_row(share.tally), **_bounds(share), **whose, "attempt": attempt, "name": name}
            for name in taken
            for attempt, share in piece.shares[name].items()
        ),
    )
    is_added = taken & piece.added.keys()
    changed = {name: tallies.get(name, Tally()).plus(piece.added[name]) for name in is_added}
    for name in taken - is_added:
        changed[name] = _all_together(connection, piece.trial_id, name)
    _put_summaries(connection, piece.trial_id, tallies, changed)
    summaries = {name: tally.summary for name, tally in changed.items()}
    return Added(experiment_id, summaries, left_out)


def _put_summaries(
    connection: Connection, trial_id: int, old: Mapping[str, Tally], new: Mapping[str, Tally]
) -> None:
    rows_by_statement: dict[str, list[dict[str, object]]] = {}
    for name, tally in new.items():
        before = old.get(name)
        statement = (
            _INSERT
            if before is None
            else _UPDATES[before.min != tally.min, before.max != tally.max]
        )
        row = {**_row(tally), "mean": tally.mean, "trial_id": trial_id, "name": name}
        rows_by_statement.setdefault(statement, []).append(row)
    for statement, rows in rows_by_statement.items():
        connection.run_many(statement, rows)


def _within_limit(stored_names: Iterable[str], new_names: Iterable[str]) -> tuple[set[str], str]:
    """Return the new metrics that stay within a trial's limit, and the first metric beyond it."""
    names = set(stored_names)
    taken, left_out = set(), ""
    for name in new_names:
        if name in names or len(names) < MOST_NAMES:
            names.add(name)
            taken.add(name)
        else:
            left_out = left_out or name
    return taken, left_out


def _all_together(connection: Connection, trial_id: int, name: str) -> Tally:
    query = "SELECT * FROM tallies WHERE trial_id = :trial_id AND name = :name"
    total = Tally()
    for row in connection.rows(query, {"trial_id": trial_id, "name": name}):
        total = total.plus(_tally(row))
    return total


def read_summaries(
    connection: Connection, trial_ids: Sequence[int]
) -> dict[int, dict[str, Summary]]:
    """Return the summaries of trials, by trial id and metric name."""
    conditions = Conditions()
    conditions.one_of("trial_id", trial_ids or [-1])
    summaries: dict[int, dict[str, Summary]] = {}
    query = f"SELECT * FROM summaries{conditions.text} ORDER BY trial_id, name"
    for row in connection.rows(query, conditions.parameters):
        summaries.setdefault(row["trial_id"], {})[row["name"]] = _tally(row).summary
    return summaries


def _replica(trial_id: int, replica: ReplicaId) -> dict[str, object]:
    return {"trial_id": trial_id, "role": replica.role, "index": replica.index}


def _positions(connection: Connection, whose: Mapping[str, object]) -> dict[int, int]:
    query = """
    SELECT attempt, position FROM readings
    WHERE trial_id = :trial_id AND role = :role AND "index" = :index
    """
    return {row["attempt"]: row["position"] for row in connection.rows(query, whose)}


def _tally(row: Row) -> Tally:
    fields = {name: row[name] for name in Tally.__struct_fields__}
    # The database stores NaN as NULL.
    return Tally(**{**fields, "last": math.nan if row["last"] is None else row["last"]})


def _row(tally: Tally) -> dict[str, object]:
    last = None if tally.last != tally.last else tally.last
    return {**msgspec.structs.asdict(tally), "last": last}


def _bounds(share: Share) -> dict[str, object]:
    return {"first": share.first, "reach": share.reach, "until": share.until}
