"""Parses resource amounts in Kubernetes notation, such as `250m` or `2Gi`."""

from __future__ import annotations

import re
from typing import Any

_SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip


def parse_quantity(text: Any) -> float:
    """Convert a resource amount to a number, or return 0 if the text is not an amount.

    >>> parse_quantity("250m"), parse_quantity("2Gi"), parse_quantity("1e3"), parse_quantity(4)
    (0.25, 2147483648.0, 1000.0, 4.0)
    """
    match = re.fullmatch(r"([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)", str(text).strip())
    if match is None or match[2] not in _SUFFIXES:
        return 0.0
    try:
        return float(match[1]) * _SUFFIXES[match[2]]
    except ValueError:
        return 0.0
