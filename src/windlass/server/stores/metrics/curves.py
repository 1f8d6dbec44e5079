"""Reads metric curves from many trials into one binary message."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.metrics import CurveHead, CurvesHead, FetchMetrics
from windlass.model.status import ReplicaId
from windlass.server.stores.metrics.base import Wanted
from windlass.server.stores.metrics.chunks import Parts, find_parts, read_metrics
from windlass.server.stores.metrics.columns import Column
from windlass.server.stores.metrics.points import metric_files
from windlass.worker.program.report import GROUP

_MOST_POINTS = 500_000  # points per response, after which clients request the next page
_MOST_FEW = 5_000_000  # points per downsampled response, which has only one page
_MOST_SEARCHED = 64 << 20  # bytes to read per response


class Curve(NamedTuple):
    """Points of one metric from one attempt, in the order in which they were reported."""

    trial_id: int
    replica: ReplicaId
    name: str
    column: Column


def fetch_curves(home: Path, query: FetchMetrics) -> bytes:
    """Return the requested curves in one binary message."""
    if query.max_points is not None:
        return _pack(_few_of_all(home, query), CurvesHead(curves=()))
    positions = dict(query.positions)
    curves: list[Curve] = []
    points = searched = 0
    for key, new_curves, position, read in _new(home, query):
        positions[key] = position
        curves += new_curves
        points += sum(len(curve.column.values) for curve in new_curves)
        searched += read
        if points >= _MOST_POINTS or searched >= _MOST_SEARCHED:
            return _pack(curves, CurvesHead(curves=(), positions=positions, more=True))
    return _pack(curves, CurvesHead(curves=(), positions=positions))


def _new(home: Path, query: FetchMetrics) -> Iterator[tuple[str, list[Curve], int, int]]:
    """Yield the new curves in the requested metrics files, piece by piece.

    Each piece consists of the file's key, the curves, the position after the piece, and the number
    of bytes read.
    """
    wanted = _wanted(query)
    for trial_id in dict.fromkeys(query.trials):
        for replica, path in _files(home, trial_id, query):
            key = f"{trial_id}/{replica.role}/{replica.index}/{replica.attempt}"
            before = query.positions.get(key, 0)
            for columns, position in read_metrics(path, wanted, before):
                curves = [
                    Curve(trial_id, replica, name, column)
                    for name, column in columns.items()
                    if column.values
                ]
                yield key, curves, position, position - before
                before = position


def _few_of_all(home: Path, query: FetchMetrics) -> list[Curve]:
    curves: list[Curve] = []
    points = 0
    for trial_id in dict.fromkeys(query.trials):
        for curve in _few(home, trial_id, query):
            curves.append(curve)
            points += len(curve.column.values)
            if points > _MOST_FEW:
                raise InvalidArgument(
                    f"The request matches more than {_MOST_FEW:,} points.",
                    hint="Request fewer trials or metrics at a time, or set a lower max_points.",
                )
    return curves


def _few(home: Path, trial_id: int, query: FetchMetrics) -> Iterator[Curve]:
    """Yield at most `max_points` points per metric, divided among a trial's attempts."""
    most = query.max_points or 1
    wanted = _wanted(query)
    by_name: dict[str, list[tuple[ReplicaId, Parts]]] = {}
    for replica, path in _files(home, trial_id, query):
        for name, parts in find_parts(path, wanted).items():
            by_name.setdefault(name, []).append((replica, parts))
    for name, every in by_name.items():
        for (replica, parts), share in zip(
            every, shares([parts.count for _, parts in every], most), strict=True
        ):
            if share:
                yield Curve(trial_id, replica, name, parts.fewer(share))


def shares(counts: Sequence[int], most: int) -> list[int]:
    """Divide `most` points among curves in proportion to their numbers of points.

    >>> shares([100, 0, 300], 40), shares([10, 10], 100), shares([5, 5, 5], 2)
    ([10, 0, 30], [10, 10], [1, 1, 0])
    """
    total = sum(counts)
    if total <= most:
        return list(counts)
    allocated = [max(most * count // total, min(count, 1)) for count in counts]
    for number in reversed(range(len(allocated))):
        # If the limit is lower than the number of curves, the last curves get no points.
        too_many = sum(allocated) - most
        if too_many <= 0:
            break
        allocated[number] -= min(allocated[number], too_many)
    return allocated


def _wanted(query: FetchMetrics) -> Wanted:
    group = query.group
    if query.names is not None:
        prefix = "" if group in (None, GROUP) else f"{group}/"
        return {prefix + name for name in query.names}.__contains__
    if group is None:
        return lambda _name: True
    if group == GROUP:
        return lambda name: "/" not in name
    return lambda name: name.startswith(f"{group}/")


def _files(home: Path, trial_id: int, query: FetchMetrics) -> Iterator[tuple[ReplicaId, Path]]:
    for replica, path in metric_files(home, trial_id):
        if (
            query.role in (None, replica.role)
            and query.index in (None, replica.index)
            and query.attempt in (None, replica.attempt)
        ):
            yield replica, path


def _pack(curves: Sequence[Curve], head: CurvesHead) -> bytes:
    heads = tuple(
        CurveHead(
            trial_id=curve.trial_id,
            name=curve.name,
            role=curve.replica.role,
            index=curve.replica.index,
            attempt=curve.replica.attempt,
            count=len(curve.column.values),
        )
        for curve in curves
    )
    first = msgspec.json.encode(msgspec.structs.replace(head, curves=heads))
    columns = [part for curve in curves for part in curve.column]
    if sys.byteorder == "big":
        for part in columns:
            part.byteswap()
    return b"".join([len(first).to_bytes(8, "little"), first, *columns])
