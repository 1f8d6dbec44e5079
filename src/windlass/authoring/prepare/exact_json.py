"""Converts arguments to JSON and back without loss, so that a rerun can reproduce them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.authoring.checks.command_line import DEEPEST, to_argument
from windlass.authoring.checks.options import find_text_flaw
from windlass.authoring.public.executables import Raw
from windlass.model.errors import shown

_EXACT = 2**53  # JSON readers lose digits of numbers above this
_LARGEST = 1 << 20  # characters; a number counts as eight

RAW = "wl.Raw"


class NotExact(ValueError):
    """Raised for a value that JSON cannot represent exactly.

    The message names the value and its location.
    """


def words_as_json(arguments: Any) -> Any:
    """Convert program arguments to JSON that reproduces the command line.

    >>> from pathlib import Path
    >>> words_as_json({"lr": 0.1, "data": Path("a/b"), "best": float("inf"), "x": Raw("-v")})
    {'lr': 0.1, 'data': 'a/b', 'best': 'inf', 'x': {'wl.Raw': '-v'}}
    """
    if isinstance(arguments, Raw):
        return {RAW: arguments.text}
    if isinstance(arguments, Mapping):
        return {str(name): words_as_json(value) for name, value in arguments.items()}
    if isinstance(arguments, Sequence) and not isinstance(arguments, (str, bytes)):
        return [words_as_json(value) for value in arguments]
    return arguments if _is_plain(arguments) else to_argument(arguments)


def words_from_json(recorded: Any) -> Any:
    """Convert JSON from `words_as_json` back to a program's arguments.

    >>> words_from_json({"lr": 0.1, "x": {"wl.Raw": "-v"}})
    {'lr': 0.1, 'x': Raw(text='-v')}
    """
    if isinstance(recorded, dict):
        if list(recorded) == [RAW]:
            return Raw(recorded[RAW])
        return {name: words_from_json(value) for name, value in recorded.items()}
    return [words_from_json(item) for item in recorded] if isinstance(recorded, list) else recorded


def exact_json(value: Any) -> Any:
    """Convert a value to JSON. Paths become strings and tuples become lists.

    Values that JSON cannot represent exactly, such as functions, raise `NotExact`.

    >>> exact_json({"lr": 0.1, "shape": (2, 3)})
    {'lr': 0.1, 'shape': [2, 3]}
    >>> exact_json({"model": {"act": len}})
    Traceback (most recent call last):
    ...
    windlass.authoring.prepare.exact_json.NotExact: model.act is <built-in function len>
    """
    return _JsonWriter().json(value, "", DEEPEST)


def call_as_json(arguments: Any) -> Any:
    """Convert function arguments to JSON.

    Return None if JSON would change the arguments, or if they are too large.

    >>> call_as_json({"lr": 0.1}), call_as_json({"shape": (2, 3)})
    ({'lr': 0.1}, None)
    """
    try:
        return _JsonWriter(is_strict=True).json(arguments, "", DEEPEST)
    except NotExact:
        return None


class _JsonWriter:
    """Converts a value to JSON, with a limit on depth and size.

    A strict writer rejects values that JSON would change, such as paths and tuples.
    """

    def __init__(self, *, is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self._left = _LARGEST

    def json(self, value: Any, at: str, depth: int) -> Any:
        self._left -= len(value) if type(value) is str else 8
        if depth == 0 or self._left < 0:
            raise NotExact(f"{at.partition('.')[0] or 'it'} is too deep or too large")
        if _is_plain(value):
            return value
        kind = type(value)
        if kind is dict or (isinstance(value, Mapping) and not self._is_strict):
            return {
                _key(name, at): self.json(item, f"{at}.{name}".lstrip("."), depth - 1)
                for name, item in value.items()
            }
        if kind is list or (kind is tuple and not self._is_strict):
            return [self.json(item, f"{at}[{n}]", depth - 1) for n, item in enumerate(value)]
        is_simple = kind in (int, float, str)  # for example nan, or a huge number
        plain = None if self._is_strict or is_simple else _unwrap(value)
        if plain is None:
            raise NotExact(f"{at or 'it'} is {shown(value)}")
        return self.json(plain, at, depth - 1)


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if value is None or kind is bool:
        return True
    if kind is int:
        return bool(-_EXACT <= value <= _EXACT)
    if kind is float:
        return math.isfinite(value)
    return kind is str and not find_text_flaw(value)


def _key(name: Any, at: str) -> str:
    if type(name) is not str or find_text_flaw(name):
        raise NotExact(f"{at or 'it'} has the key {shown(name)}, which is not a string")
    return name


def _unwrap(value: Any) -> Any:
    """Return the plain number or text that a path, numpy value or enum member stands for."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        return item()
    return next((kind(value) for kind in (int, float, str) if isinstance(value, kind)), None)
