"""Prints JSON for other programs. Stdout contains full records and nothing else."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

_encode = json.JSONEncoder(ensure_ascii=False).encode


def print_json(value: Any) -> None:
    """Print one value as indented JSON."""
    sys.stdout.write(_written(value, indent=2) + "\n")


def print_json_line(value: Any) -> None:
    """Print one of several values as JSON, on its own line."""
    sys.stdout.write(_written(value) + "\n")


def json_line(value: Mapping[str, str | int | float]) -> str:
    """Encode a value of plain types as one line of JSON.

    This function is faster than `print_json_line` for many values.

    >>> json_line({"step": 3})
    '{"step": 3}\\n'
    """
    return _harmless(_encode(value)) + "\n"


def print_json_array(values: Iterable[Any]) -> None:
    """Print a JSON array, with each value on its own line."""
    first = True
    for value in values:
        sys.stdout.write("[\n" if first else ",\n")
        sys.stdout.write(_written(value))
        first = False
    sys.stdout.write("[]\n" if first else "\n]\n")


def plain(value: Any) -> Any:
    """Convert a struct to JSON types, including fields with default values.

    >>> from windlass.model.records import Git
    >>> plain(Git(commit="4b825d"))
    {'commit': '4b825d', 'branch': '', 'dirty': False}
    """
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        return {str(config.tag_field): config.tag, **fields} if config.tag else fields
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no NaN or infinity, so another field holds them as text
    return value


def _written(value: Any, indent: int | None = None) -> str:
    """Encode a value as JSON, with terminal control characters escaped."""
    return _harmless(json.dumps(plain(value), indent=indent, ensure_ascii=False))


def _harmless(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
