"""Converts a call's arguments to readable JSON for the trial's record."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.model.requests import LARGEST_PARAM, LARGEST_PARAMS

_DEPTH = 6
_ITEMS = 50
_TEXT = 200
_LONG_TEXT = 2000
_NAMESPACES = ("Namespace", "SimpleNamespace")
_EXACT = 2**53  # JSON readers lose digits of numbers above this


def describe_params(arguments: Mapping[str, object]) -> dict[str, Any]:
    """Convert named arguments to JSON. Large and unusual values become short texts.

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
    """Return a short text in place of a value that is too large for a record."""
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
    if hasattr(kind, "__members__"):
        return f"{kind.__name__}.{value.name}"
    if isinstance(value, (int, float, str)):
        plain = next(base for base in (int, float, str) if isinstance(value, base))
        return _describe(plain(value), depth)
    if isinstance(value, os.PathLike):
        return _describe(os.fsdecode(value), depth)
    if kind.__module__.partition(".")[0] in ("pandas", "polars") and hasattr(value, "shape"):
        return f"{kind.__name__} {tuple(value.shape)}"
    if kind.__module__.partition(".")[0] == "omegaconf":
        value = _resolve(value)
        kind = type(value)
    if depth > 0:
        if kind in (list, tuple, set, frozenset) and len(value) <= _ITEMS:
            items = sorted(value, key=repr) if kind in (set, frozenset) else value
            return [_describe(item, depth - 1) for item in items]
        if isinstance(value, dict) and len(value) <= _ITEMS:
            return {_key(key): _describe(item, depth - 1) for key, item in value.items()}
        fields = _field_names(kind) or _plain_attributes(value, depth)
        if fields:
            names = [name for name in fields if hasattr(value, name)][:_ITEMS]
            return {name: _describe(getattr(value, name), depth - 1) for name in names}
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        return f"{kind.__name__} of {len(value)}"
    return _short(value)


def _resolve(value: Any) -> Any:
    """Convert an OmegaConf configuration, as used by Hydra, to dicts and lists."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(value, resolve=True, enum_to_str=True)


def _field_names(kind: type) -> list[str]:
    """Return the field names of a dataclass, or of a class from a similar library."""
    # The class itself has these attributes, and importing dataclasses would be slow.
    if hasattr(kind, "__dataclass_fields__"):
        return list(kind.__dataclass_fields__)
    if hasattr(kind, "__attrs_attrs__"):
        return [attribute.name for attribute in kind.__attrs_attrs__]
    for attribute in ("__pydantic_fields__", "__struct_fields__", "_fields"):
        if fields := getattr(kind, attribute, None):
            return list(fields)
    return []


def _plain_attributes(value: Any, depth: int) -> list[str]:
    """Return the attributes of an object that only carries plain values, or an empty list.

    An `argparse.Namespace` is such an object. An object with a text representation of its own is
    not, because that text describes it better.
    """
    attributes = getattr(value, "__dict__", None)
    kind = type(value)
    has_own_text = (
        getattr(kind, "__repr__", None) is not object.__repr__ and kind.__name__ not in _NAMESPACES
    )
    if type(attributes) is not dict or has_own_text or isinstance(value, type):
        return []
    names = [name for name in attributes if not name.startswith("_")]
    are_plain = len(names) <= _ITEMS and all(_is_plain(attributes[name], depth) for name in names)
    return names if are_plain else []


def _is_plain(value: object, depth: int) -> bool:
    if value is None or isinstance(value, (bool, int, float, str, os.PathLike)):
        return True
    if depth == 0:
        return False
    if isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        return len(value) <= _ITEMS and all(_is_plain(item, depth - 1) for item in items)
    return bool(_field_names(type(value)) or _plain_attributes(value, depth - 1))


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
    # Not every database can store NUL. The function itself still receives the original text.
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "␀")
