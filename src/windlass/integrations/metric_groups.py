"""Functions with which all callbacks report progress and metrics."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from windlass.worker.program import report as reporting
from windlass.worker.program.context import rank

LONGEST_NAME = 180  # below the limit for metric names, because a group prefix is added
_OF_ANOTHER = re.compile(r"(val|valid|validation|eval|test)[_/](.+)")


def tell(step: int, metrics: Mapping[str, Any]) -> None:
    """Report the metrics that a framework logged. A metric's name determines its group."""
    groups: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        number = _number(value)
        group, plain = group_of(name)
        if number is not None and _is_name(plain):
            groups.setdefault(group, {})[plain] = number
    for group, values in groups.items():
        reporting.report(step, group, **values)


def group_of(name: str) -> tuple[str, str]:
    """Return a metric's group, and its name in that group.

    >>> group_of("val_loss"), group_of("eval/accuracy"), group_of("value")
    (('validation', 'loss'), ('validation', 'accuracy'), ('training', 'value'))
    """
    match = _OF_ANOTHER.fullmatch(name)
    if match is None:
        return "training", name
    return ("test" if match[1] == "test" else "validation"), match[2]


def tell_progress(done: float) -> None:
    """Report progress as a fraction from 0 to 1."""
    reporting.report_progress(min(max(done, 0.0), 1.0))


def is_first() -> bool:
    """Return True in the one process that reports for all of a trial's processes.

    This is the first process in the replica with rank 0.
    """
    return rank() == 0 and os.environ.get("LOCAL_RANK", "0") == "0"


def _is_name(name: str) -> bool:
    is_argument = name in ("step", "group")  # parameters of `report`
    return name.isprintable() and 0 < len(name) <= LONGEST_NAME and not is_argument


def _number(value: Any) -> float | None:
    if isinstance(value, (str, bytes)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
