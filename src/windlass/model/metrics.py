"""Metrics on the wire: reported points, and packs of curves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import msgspec


def near_metric(name: str, names: Collection[str]) -> str | None:
    """Suggest the metric that a name probably means: in a group, misspelt, or abbreviated.

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
    """Values of one metric from one attempt of one replica, in the order of reports."""

    trial_id: int
    name: str
    role: str = "main"
    index: int = 0
    attempt: int = 1
    start: int = 0  # the number of earlier points
    steps: tuple[int, ...] = ()
    times: tuple[float, ...] = ()
    values: tuple[float | str, ...] = ()  # "nan", "inf", "-inf" as text: not JSON numbers


class FetchMetrics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request the points of metrics of trials in one pack of curves.

    Names are the names of summaries. Without names, the request covers all metrics, or all metrics
    of `group`.
    """

    trials: Annotated[tuple[int, ...], msgspec.Meta(min_length=1, max_length=1000)]
    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=1000)] | None = None
    group: str | None = None
    role: str | None = None
    index: int | None = None
    attempt: int | None = None
    # The limit of points of each metric of each trial; spikes are kept.
    max_points: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None = None
    # The read position in the file of each attempt, from the previous response.
    positions: Annotated[
        dict[str, Annotated[int, msgspec.Meta(ge=0, le=2**62)]], msgspec.Meta(max_length=100_000)
    ] = {}


class CurveHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The header of one curve in a pack; the points follow separately."""

    trial_id: int
    name: str
    role: str = "main"
    index: int = 0
    attempt: int = 1
    count: int = 0


class CurvesHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The header of a pack of curves, after the eight bytes of its length.

    The steps, times and values of each curve follow: eight bytes a number, little-endian.
    """

    curves: tuple[CurveHead, ...]
    positions: dict[str, int] = {}
    more: bool = False  # the response is incomplete; continue from `positions`
