"""Curves of metrics as they are asked for: of many trials at once, as bytes, not as texts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.metrics import CurveHead, CurvesHead, FetchMetrics
from windlass.model.status import ReplicaId
from windlass.server.chunks import Parts, Wanted, parts_of, read_metrics
from windlass.server.columns import Column
from windlass.server.points import metric_files
from windlass.worker.reporting import GROUP

_MOST_POINTS = 500_000  # of one answer; whoever wants more asks again
_MOST_FEW = 5_000_000  # of one answer that cannot be asked on
_MOST_SEARCHED = 64 << 20  # bytes that are searched for an answer


class Curve(NamedTuple):
    """Points of one metric of one attempt, in the order of their reports."""

    trial_id: int
    replica: ReplicaId
    name: str
    column: Column


def fetch_curves(home: Path, asked: FetchMetrics) -> bytes:
    """The pack that answers what was asked."""
    if asked.max_points is not None:
        return _pack(_few_of_all(home, asked), CurvesHead(curves=()))
    known = dict(asked.known)
    curves: list[Curve] = []
    points = searched = 0
    for key, curve, position, read in _new(home, asked):
        known[key] = position
        curves += curve
        points += sum(len(each.column.values) for each in curve)
        searched += read
        if points >= _MOST_POINTS or searched >= _MOST_SEARCHED:
            return _pack(curves, CurvesHead(curves=(), known=known, more=True))
    return _pack(curves, CurvesHead(curves=(), known=known))


def _new(home: Path, asked: FetchMetrics) -> Iterator[tuple[str, list[Curve], int, int]]:
    """What is beyond what is known, piece by piece: of which file, what, up to where, how long."""
    wanted = _wanted(asked)
    for trial_id in dict.fromkeys(asked.trials):
        for replica, path in _files(home, trial_id, asked):
            key = f"{trial_id}/{replica.role}/{replica.index}/{replica.attempt}"
            before = asked.known.get(key, 0)
            for columns, position in read_metrics(path, wanted, before):
                found = [
                    Curve(trial_id, replica, name, column)
                    for name, column in columns.items()
                    if column.values
                ]
                yield key, found, position, position - before
                before = position


def _few_of_all(home: Path, asked: FetchMetrics) -> list[Curve]:
    curves: list[Curve] = []
    points = 0
    for trial_id in dict.fromkeys(asked.trials):
        for curve in _few(home, trial_id, asked):
            curves.append(curve)
            points += len(curve.column.values)
            if points > _MOST_FEW:
                raise InvalidArgument(
                    f"That is more than {_MOST_FEW:,} points.",
                    hint="Ask for fewer trials or metrics at a time, or set max_points lower.",
                )
    return curves


def _few(home: Path, trial_id: int, asked: FetchMetrics) -> Iterator[Curve]:
    """So many points as were asked for of each metric, each attempt by its share of them."""
    most = asked.max_points or 1
    wanted = _wanted(asked)
    by_name: dict[str, list[tuple[ReplicaId, Parts]]] = {}
    for replica, path in _files(home, trial_id, asked):
        for name, parts in parts_of(path, wanted).items():
            by_name.setdefault(name, []).append((replica, parts))
    for name, every in by_name.items():
        for (replica, parts), share in zip(
            every, shares([parts.count for _, parts in every], most), strict=True
        ):
            if share:
                yield Curve(trial_id, replica, name, parts.fewer(share))


def shares(counts: Sequence[int], most: int) -> list[int]:
    """How many points each of several curves is told with, so that they are not too many.

    >>> shares([100, 0, 300], 40), shares([10, 10], 100), shares([5, 5, 5], 2)
    ([10, 0, 30], [10, 10], [1, 1, 0])
    """
    total = sum(counts)
    if total <= most:
        return list(counts)
    found = [max(most * count // total, min(count, 1)) for count in counts]
    for number in reversed(range(len(found))):
        # Where each has but one or two, the last do without.
        too_many = sum(found) - most
        if too_many <= 0:
            break
        found[number] -= min(found[number], too_many)
    return found


def _wanted(asked: FetchMetrics) -> Wanted:
    group = asked.group
    if asked.names is not None:
        prefix = "" if group in (None, GROUP) else f"{group}/"
        return {prefix + name for name in asked.names}.__contains__
    if group is None:
        return lambda _name: True
    if group == GROUP:
        return lambda name: "/" not in name
    return lambda name: name.startswith(f"{group}/")


def _files(home: Path, trial_id: int, asked: FetchMetrics) -> Iterator[tuple[ReplicaId, Path]]:
    for replica, path in metric_files(home, trial_id):
        if (
            asked.role in (None, replica.role)
            and asked.index in (None, replica.index)
            and asked.attempt in (None, replica.attempt)
        ):
            yield replica, path


def _pack(curves: Sequence[Curve], head: CurvesHead) -> bytes:
    heads = tuple(
        CurveHead(
            trial_id=each.trial_id,
            name=each.name,
            role=each.replica.role,
            index=each.replica.index,
            attempt=each.replica.attempt,
            count=len(each.column.values),
        )
        for each in curves
    )
    first = msgspec.json.encode(msgspec.structs.replace(head, curves=heads))
    columns = [part for each in curves for part in each.column]
    if sys.byteorder == "big":
        for part in columns:
            part.byteswap()
    return b"".join([len(first).to_bytes(8, "little"), first, *columns])
