"""Stores the parameters of trials as database rows, one per name, for filters and sort orders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass.server.db.base import Connection

_MOST = 1000  # parameters per trial that get a row; the trial's record contains all of them
_LONGEST_NAME = 500
_LONGEST_TEXT = 2000
_DEEPEST = 20
_INFINITIES = {"inf": float("inf"), "-inf": float("-inf")}
_HUGE = re.compile(r"-?\d{16,300}", re.ASCII)

_PUT = """
INSERT INTO parameters (trial_id, name, number, text) VALUES (:trial_id, :name, :number, :text)
"""


def put_parameters(connection: Connection, trial_id: int, params: Mapping[str, Any]) -> None:
    """Insert the rows for the parameters of a new trial."""
    if params:
        connection.run_many(_PUT, to_rows(trial_id, params))


def to_rows(trial_id: int, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each parameter. The parts of a nested parameter's name are joined by dots.

    A boolean becomes both a number and a text, so that both `= 1` and `= true` match.

    >>> for row in to_rows(7, {"lr": 0.1, "model": {"act": "relu", "deep": True}, "dims": [8, 2]}):
    ...     print(row["name"], row["number"], row["text"])
    lr 0.1 None
    model.act None relu
    model.deep 1.0 true
    dims None [8,2]
    """
    flat: dict[str, Any] = {}
    for name, value in _flat(params, "", _DEEPEST):
        if len(flat) == _MOST:
            break
        if len(name) <= _LONGEST_NAME:
            flat.setdefault(name, value)
    rows = []
    for name, value in flat.items():
        number, text = _stored(value)
        rows.append({"trial_id": trial_id, "name": name, "number": number, "text": text})
    return rows


def _flat(params: Mapping[str, Any], before: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, value in params.items():
        if isinstance(value, dict) and value and depth:
            yield from _flat(value, f"{before}{name}.", depth - 1)
        else:
            yield f"{before}{name}", value


def _stored(value: Any) -> tuple[float | None, str | None]:
    """Return a parameter's value as the number and the text for its database row.

    Either can be None.
    """
    if value is None:
        return None, None
    if isinstance(value, bool):
        return float(value), "true" if value else "false"
    if isinstance(value, (int, float)):
        return _number(value), None
    if isinstance(value, str):
        # Clients send infinite and huge numbers as texts, because JSON has no such numbers.
        if value in _INFINITIES:
            return _INFINITIES[value], value
        number = _number(int(value)) if _HUGE.fullmatch(value) else None
        return number, value[:_LONGEST_TEXT]
    return None, msgspec.json.encode(value).decode("utf-8", "replace")[:_LONGEST_TEXT]


def _number(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None
