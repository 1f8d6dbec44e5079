"""What metrics come to, as rows of the database: each point counts once, whatever is killed."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence

import msgspec

from windlass.model.records import Summary
from windlass.model.status import ReplicaId
from windlass.server.database import Connection, Row
from windlass.server.paging import Conditions
from windlass.server.points import Column
from windlass.worker.reporting import MOST_NAMES


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What values come to, so that those of others can be added."""

    count: int
    finite: int  # how many are numbers to add up
    total: float  # of those
    min: float | None
    max: float | None
    last: float
    step: int
    time: float  # of the last

    @property
    def summary(self) -> Summary:
        """The tally as it is told."""
        return Summary(
            count=self.count,
            min=self.min,
            max=self.max,
            mean=self.total / self.finite if self.finite else None,
            last=self.last,
            step=self.step,
        )

    def plus(self, other: Tally) -> Tally:
        """Both together; the last is the one that was reported last."""
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


def tally_of(column: Column) -> Tally:
    """What some points come to.

    >>> tally_of(Column([1, 2, 3], [1.0, 2.0, 3.0], [0.5, float("nan"), 0.25])).summary
    Summary(count=3, min=0.25, max=0.5, mean=0.375, last=0.25, step=3)
    """
    values = column.values
    total = sum(values)
    finite, ordered = values, values
    if not math.isfinite(total):
        ordered = [v for v in values if v == v]
        finite = [v for v in ordered if math.isfinite(v)]
        total = sum(finite)
    return Tally(
        count=len(values),
        finite=len(finite),
        total=_bounded(total),
        min=min(ordered, default=None),
        max=max(ordered, default=None),
        last=values[-1],
        step=column.steps[-1],
        time=column.times[-1],
    )


def _bounded(total: float) -> float:
    """A sum that can be stored: of huge numbers it may come to none."""
    most = sys.float_info.max
    return max(-most, min(total, most)) if total == total else 0.0


class Piece(msgspec.Struct, frozen=True):
    """What was read of the metrics of an attempt, from where to where."""

    uid: str
    trial_id: int
    replica: ReplicaId
    start: int
    end: int
    tallies: Mapping[str, Tally]


class Added(msgspec.Struct, frozen=True):
    """What a piece changed."""

    experiment_id: int
    summaries: dict[str, Summary]
    left_out: str = ""  # a metric that there was no room for


# The position is what makes it once: a piece that begins elsewhere changes nothing.
_MOVE = """
INSERT INTO readings (trial_id, role, "index", attempt, position)
SELECT id, :role, :index, :attempt, :end FROM trials
WHERE id = :trial_id AND uid = :uid AND (:start = 0 OR EXISTS (
    SELECT 1 FROM readings WHERE trial_id = :trial_id AND role = :role AND "index" = :index
    AND attempt = :attempt AND position = :start))
ON CONFLICT (trial_id, role, "index", attempt) DO UPDATE SET position = excluded.position
WHERE readings.position = :start
"""

_PUT = """
INSERT INTO summaries (trial_id, name, count, finite, total, min, max, last, step, time)
VALUES (:trial_id, :name, :count, :finite, :total, :min, :max, :last, :step, :time)
ON CONFLICT (trial_id, name) DO UPDATE SET
    count = excluded.count, finite = excluded.finite, total = excluded.total, min = excluded.min,
    max = excluded.max, last = excluded.last, step = excluded.step, time = excluded.time
"""


def add(connection: Connection, piece: Piece) -> Added | None:
    """Count a piece; none if somebody else did, or it is none of a trial that there is."""
    where = _where(piece.trial_id, piece.replica)
    if not connection.run(
        _MOVE, {**where, "uid": piece.uid, "start": piece.start, "end": piece.end}
    ):
        return None
    experiment_id = connection.value("SELECT experiment_id FROM trials WHERE id = :trial_id", where)
    rows = connection.rows("SELECT * FROM summaries WHERE trial_id = :trial_id", where)
    known = {row["name"]: _tally(row) for row in rows}
    changed: dict[str, Tally] = {}
    left_out = ""
    for name, tally in piece.tallies.items():
        if name in known:
            changed[name] = known[name].plus(tally)
        elif len(known) < MOST_NAMES:
            changed[name] = known[name] = tally
        else:
            left_out = left_out or name
    connection.run_many(_PUT, [_row(piece.trial_id, *each) for each in changed.items()])
    return Added(experiment_id, {name: tally.summary for name, tally in changed.items()}, left_out)


def position_of(connection: Connection, trial_id: int, replica: ReplicaId) -> int:
    """How far the metrics of an attempt have been counted."""
    query = """
    SELECT position FROM readings WHERE trial_id = :trial_id AND role = :role
    AND "index" = :index AND attempt = :attempt
    """
    return connection.value(query, _where(trial_id, replica)) or 0


def summaries_of(connection: Connection, trial_ids: Sequence[int]) -> dict[int, dict[str, Summary]]:
    """The summaries of trials that have any, by trial and name."""
    asked = Conditions()
    asked.one_of("trial_id", trial_ids or [-1])
    found: dict[int, dict[str, Summary]] = {}
    query = f"SELECT * FROM summaries{asked.text} ORDER BY trial_id, name"
    for row in connection.rows(query, asked.parameters):
        found.setdefault(row["trial_id"], {})[row["name"]] = _tally(row).summary
    return found


def _where(trial_id: int, replica: ReplicaId) -> dict[str, object]:
    return {"trial_id": trial_id, **msgspec.structs.asdict(replica)}


def _tally(row: Row) -> Tally:
    fields = {name: row[name] for name in Tally.__struct_fields__}
    return Tally(**{**fields, "last": float(row["last"])})


def _row(trial_id: int, name: str, tally: Tally) -> dict[str, object]:
    fields = msgspec.structs.asdict(tally)
    # No database keeps a NaN as a number.
    return {**fields, "trial_id": trial_id, "name": name, "last": repr(tally.last)}
