"""Metrics on the wire: points that were reported, and packs of curves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import msgspec


def near_metric(name: str, names: Collection[str]) -> str | None:
    """The metric that was probably meant: of that name in a group, spelt nearly so, or cut short.

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
    """Values of one metric that one replica reported in one attempt, in their order."""

    trial_id: int
    name: str
    role: str = "main"
    index: int = 0
    attempt: int = 1
    start: int = 0  # how many came before these
    steps: tuple[int, ...] = ()
    times: tuple[float, ...] = ()
    values: tuple[float | str, ...] = ()  # "nan", "inf", "-inf" as text: JSON has no such numbers


class FetchMetrics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ask for the points of metrics of trials, to be answered with one pack of curves.

    Names are those of summaries; without any, all that there are, of a group if one is named.
    """

    trials: Annotated[tuple[int, ...], msgspec.Meta(min_length=1, max_length=1000)]
    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=1000)] | None = None
    group: str | None = None
    role: str | None = None
    index: int | None = None
    attempt: int | None = None
    # At most so many of each metric of each trial, spikes among them.
    max_points: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None = None
    # How far the files of attempts are known: what the answer before said.
    known: Annotated[
        dict[str, Annotated[int, msgspec.Meta(ge=0, le=2**62)]], msgspec.Meta(max_length=100_000)
    ] = {}


class CurveHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Points of one metric that one replica reported in one attempt; they follow apart."""

    trial_id: int
    name: str
    role: str = "main"
    index: int = 0
    attempt: int = 1
    count: int = 0


class CurvesHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a pack of curves begins, after the eight bytes of its length.

    The steps, times and values of each curve follow: eight bytes a number, little-endian.
    """

    curves: tuple[CurveHead, ...]
    known: dict[str, int] = {}
    more: bool = False  # what is known then is not all
