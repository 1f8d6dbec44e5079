"""Converts the arguments of a call to readable JSON, as trial records show them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.model.requests import LARGEST_PARAM, LARGEST_PARAMS

_DEPTH = 6
_ITEMS = 50
_TEXT = 200
_LONG_TEXT = 2000
_EXACT = 2**53  # JSON readers lose digits of larger numbers


def describe_params(arguments: Mapping[str, object]) -> dict[str, Any]:
    """Convert named arguments to JSON values. Large and unusual values become short texts.

    >>> describe_params({"lr": 0.1, "layers": [64, 32], "seed": 2**60, "best": float("inf")})
    {'lr': 0.1, 'layers': [64, 32], 'seed': '1152921504606846976', 'best': 'inf'}
    >>> describe_params({"data": object, "separator": "\\0"})
    {'data': "<class 'object'>", 'separator': '␀'}
    """
    described = {str(name): _describe(value, _DEPTH) for name, value in arguments.items()}
    left = LARGEST_PARAMS
    for name, value in described.items():
        size = len(name) + len(msgspec.json.encode(value))
        if size > min(LARGEST_PARAM, left):
            described[name] = _summary(value)
            size = len(name) + _TEXT
        left -= size
    return described


def _summary(value: object) -> str:
    """Describe a value that is too large for a record."""
    if isinstance(value, (list, dict)):
        return f"{type(value).__name__} of {len(value)}"
    return _short(value)


def _describe(value: Any, depth: int) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -_EXACT <= value <= _EXACT else _large(value)
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if kind is str:
        return _clean(value, _LONG_TEXT)
    try:
        return _describe_other(value, depth)
    except Exception:  # noqa: BLE001 - an unusual argument must not fail the call
        return _short(value)


def _describe_other(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind.__module__.partition(".")[0] in ("numpy", "torch", "jax", "jaxlib", "tensorflow"):
        described = _describe_array(value, depth)
        if described is not None:
            return described
    if isinstance(value, (int, float, str)):  # enums and other kinds of plain values
        name = getattr(value, "name", None)
        plain = next(base for base in (int, float, str) if isinstance(value, base))
        is_enum = isinstance(name, str) and hasattr(kind, "__members__")
        return f"{kind.__name__}.{name}" if is_enum else _describe(plain(value), depth)
    if kind.__module__.partition(".")[0] in ("pandas", "polars") and hasattr(value, "shape"):
        return f"{kind.__name__} {tuple(value.shape)}"
    if depth > 0:
        if kind in (list, tuple, set, frozenset) and len(value) <= _ITEMS:
            items = sorted(value, key=repr) if kind in (set, frozenset) else value
            return [_describe(item, depth - 1) for item in items]
        if isinstance(value, dict) and len(value) <= _ITEMS:
            return {_key(key): _describe(item, depth - 1) for key, item in value.items()}
        # This check avoids the import of dataclasses, which is slow.
        if hasattr(kind, "__dataclass_fields__"):
            names = [name for name in kind.__dataclass_fields__ if hasattr(value, name)][:_ITEMS]
            return {name: _describe(getattr(value, name), depth - 1) for name in names}
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        return f"{kind.__name__} of {len(value)}"
    return _short(value)


def _describe_array(value: Any, depth: int) -> Any:
    shape = getattr(value, "shape", None)
    dtype = getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return None
    if type(value).__module__ == "numpy" and tuple(shape) == () and hasattr(value, "item"):
        plain = value.item()
        if isinstance(plain, (bool, int, float, str)):
            return _describe(plain, depth)
    return f"{type(value).__name__} {dtype} {tuple(shape)}"


def _key(key: object) -> str:
    return _clean(key, _TEXT) if isinstance(key, str) else _short(key)


def _short(value: object) -> str:
    try:
        text = repr(value)
        return _clean(text, _TEXT)
    except Exception:  # noqa: BLE001 - a user's repr may raise anything
        return f"<{type(value).__qualname__}>"


def _large(value: int) -> str:
    return str(value) if value.bit_length() <= 2048 else f"an integer of {value.bit_length()} bits"


def _clean(text: str, limit: int) -> str:
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    # Not every database can store NUL. The function itself still gets the original text.
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "␀")
