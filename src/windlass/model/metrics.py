"""Requests and responses about metrics, as lists of reported points or as packed curves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import msgspec


def near_metric(name: str, names: Collection[str]) -> str | None:
    """Suggest an existing metric in place of an unknown metric name.

    The unknown name may be misspelt, shortened, or lack its group.

    >>> near_metric("accuracy", ["loss", "validation/accuracy"]), near_metric("los", ["loss"])
    ('validation/accuracy', 'loss')
    >>> near_metric("acc", ["loss", "validation/accuracy"])
    'validation/accuracy'
    """
    import difflib

    name = str(name)
    in_a_group = [metric for metric in names if metric.endswith(f"/{name}")]
    near = in_a_group or difflib.get_close_matches(name, names, n=1)
    if not near and len(name) > 1:
        near = [metric for metric in names if metric.rpartition("/")[2].startswith(name)]
    return near[0] if near else None


class Points(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One metric's values, as reported by one attempt of a replica, in order."""

    trial_id: int
    name: str
    role: str = "main"
    index: int = 0
    attempt: int = 1
    start: int = 0  # the number of points reported before these
    steps: tuple[int, ...] = ()
    times: tuple[float, ...] = ()
    # "nan", "inf" and "-inf" are strings, because JSON has no such numbers
    values: tuple[float | str, ...] = ()


class FetchMetrics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request trials' metric points. The response is one pack of curves.

    `names` are metric names as in the trials' summaries. Without `names`, the response contains all
    metrics, or all metrics in `group`.
    """

    trials: Annotated[tuple[int, ...], msgspec.Meta(min_length=1, max_length=1000)]
    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=1000)] | None = None
    group: str | None = None
    role: str | None = None
    index: int | None = None
    attempt: int | None = None
    # The maximum number of points per metric and trial. Thinned curves keep their spikes.
    max_points: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None = None
    # Where to continue in each attempt's file, taken from the previous response.
    positions: Annotated[
        dict[str, Annotated[int, msgspec.Meta(ge=0, le=2**62)]], msgspec.Meta(max_length=100_000)
    ] = {}


class CurveHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The header of one curve in a pack. Its points follow separately."""

    trial_id: int
    name: str
    role: str = "main"
    index: int = 0
    attempt: int = 1
    count: int = 0


class CurvesHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The header of a pack of curves, preceded by its length in eight bytes.

    After the header come each curve's steps, times and values. Each number has eight bytes in
    little-endian order.
    """

    curves: tuple[CurveHead, ...]
    positions: dict[str, int] = {}
    # True if the response is incomplete; the next request continues from `positions`
    more: bool = False
