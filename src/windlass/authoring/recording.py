"""Values as JSON that says all of them: what can be given again exactly as it was."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.authoring.arguments import DEEPEST, text_of
from windlass.authoring.checks import flaw_of
from windlass.authoring.executables import Raw
from windlass.model.errors import shown

_EXACT = 2**53  # beyond this, readers of JSON lose digits
_LARGEST = 1 << 20  # characters, a number counting as eight

RAW = "wl.Raw"


class NotExact(ValueError):
    """A value that JSON cannot say exactly: where it stands, and why."""


def words_as_json(arguments: Any) -> Any:
    """The arguments of a program, so that the same command line comes of them again.

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
    return arguments if _is_plain(arguments) else text_of(arguments)


def words_from_json(recorded: Any) -> Any:
    """The arguments of a program that `words_as_json` made.

    >>> words_from_json({"lr": 0.1, "x": {"wl.Raw": "-v"}})
    {'lr': 0.1, 'x': Raw(text='-v')}
    """
    if isinstance(recorded, dict):
        if list(recorded) == [RAW]:
            return Raw(recorded[RAW])
        return {name: words_from_json(value) for name, value in recorded.items()}
    return [words_from_json(each) for each in recorded] if isinstance(recorded, list) else recorded


def exact_json(value: Any) -> Any:
    """A value as JSON that is read as the same value; paths and tuples become texts and lists.

    >>> exact_json({"lr": 0.1, "shape": (2, 3)})
    {'lr': 0.1, 'shape': [2, 3]}
    >>> exact_json({"model": {"act": len}})
    Traceback (most recent call last):
    ...
    windlass.authoring.recording.NotExact: model.act is <built-in function len>
    """
    return _Writing().json(value, "", DEEPEST)


def call_as_json(arguments: Any) -> Any:
    """The arguments of a function, if JSON says them just so and they are not huge; else none.

    >>> call_as_json({"lr": 0.1}), call_as_json({"shape": (2, 3)})
    ({'lr': 0.1}, None)
    """
    try:
        return _Writing(is_strict=True).json(arguments, "", DEEPEST)
    except NotExact:
        return None


class _Writing:
    """One value on its way to JSON: what holds itself, or far too much, comes to an end.

    A strict one changes nothing: no path or tuple, no number of another kind.
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
                _key(name, at): self.json(each, f"{at}.{name}".lstrip("."), depth - 1)
                for name, each in value.items()
            }
        if kind is list or (kind is tuple and not self._is_strict):
            return [self.json(each, f"{at}[{n}]", depth - 1) for n, each in enumerate(value)]
        is_simple = kind in (int, float, str)  # nan, a huge number: nothing is inside
        plain = None if self._is_strict or is_simple else _unwrapped(value)
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
    return kind is str and not flaw_of(value)


def _key(name: Any, at: str) -> str:
    if type(name) is not str or flaw_of(name):
        raise NotExact(f"{at or 'it'} has the key {shown(name)}, which is no text")
    return name


def _unwrapped(value: Any) -> Any:
    """The plain number or text that a value of another kind is, as numpy's and enums are."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", None) == ():
        return item()
    return next((kind(value) for kind in (int, float, str) if isinstance(value, kind)), None)
