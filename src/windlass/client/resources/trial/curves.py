"""Curves of metrics, and their conversion to NumPy and pandas."""

from __future__ import annotations

import importlib
import sys
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.client.connection.transport import decode
from windlass.model.errors import WindlassError
from windlass.model.metrics import CurveHead, CurvesHead


class Curve(NamedTuple):
    """One metric's points, as reported by one replica in one attempt.

    Steps, times and values are separate arrays.

    ```python
    trial = train.submit(0.1).wait()
    for curve in trial.metrics("loss").curves():
        print(curve.head.attempt, list(curve.steps), list(curve.values))
    ```
    """

    head: CurveHead
    steps: array[int]
    times: array[float]
    values: array[float]


def unpack(data: bytes) -> tuple[CurvesHead, list[Curve]]:
    """Decode a binary response that contains curves."""
    view = memoryview(data)
    position = 8 + int.from_bytes(view[:8], "little")
    head = decode(view[8:position].tobytes(), CurvesHead)
    curves = []
    for curve_head in head.curves:
        size = 8 * curve_head.count
        parts = [view[position + n * size : position + (n + 1) * size].tobytes() for n in range(3)]
        position += 3 * size
        curve = Curve(curve_head, array("q", parts[0]), array("d", parts[1]), array("d", parts[2]))
        if sys.byteorder == "big":
            for part in curve[1:]:
                part.byteswap()
        curves.append(curve)
    return head, curves


def to_numpy(curves: Sequence[Curve]) -> Any:
    """Return all points as one structured NumPy array."""
    np = _library("numpy")
    kinds = [("step", "i8"), ("time", "f8"), ("value", "f8")]
    whose = [("index", "i4"), ("attempt", "i4"), ("trial", "i8")]
    every = np.empty(sum(curve.head.count for curve in curves), dtype=kinds + whose)
    start = 0
    for head, steps, times, values in curves:
        part = every[start : start + head.count]
        part["step"], part["time"], part["value"] = steps, times, values
        part["index"], part["attempt"], part["trial"] = head.index, head.attempt, head.trial_id
        start += head.count
    return every


def to_pandas(curves: Sequence[Curve]) -> Any:
    """Return all points as a pandas data frame with one row per point."""
    pd, np = _library("pandas"), _library("numpy")
    counts = [curve.head.count for curve in curves]

    def together(parts: list[array[Any]], kind: str) -> Any:
        return np.concatenate([np.empty(0, kind), *(np.frombuffer(part, kind) for part in parts)])

    def numbers(values: list[int]) -> Any:
        return np.repeat(np.array(values, dtype="i8"), counts)

    def texts(values: list[str]) -> Any:
        categories = sorted(set(values))
        codes = np.repeat(
            np.array([categories.index(value) for value in values], dtype="i4"), counts
        )
        return pd.Categorical.from_codes(codes, categories=categories)

    heads = [curve.head for curve in curves]
    return pd.DataFrame(
        {
            "step": together([curve.steps for curve in curves], "i8"),
            "value": together([curve.values for curve in curves], "f8"),
            "time": together([curve.times for curve in curves], "f8"),
            "name": texts([head.name for head in heads]),
            "role": texts([head.role for head in heads]),
            "index": numbers([head.index for head in heads]),
            "attempt": numbers([head.attempt for head in heads]),
            "trial": numbers([head.trial_id for head in heads]),
        }
    )


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise WindlassError(
            f"{name} is not installed here.",
            hint=f"Install it (uv pip install {name}), or iterate over the points.",
        ) from None
