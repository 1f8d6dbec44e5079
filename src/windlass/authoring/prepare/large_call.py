"""Warns about calls with large arguments or closure variables."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from windlass.authoring.checks.options import callers_level
from windlass.model.text.quantities import format_size
from windlass.packaging.draft import Call
from windlass.packaging.pickling import find_large_parts

LARGE_CALL = 10_000_000  # bytes
_ADVICE = (
    "Windlass stores it once, however many trials get it, but each trial loads all of it. To send "
    "less, pass a path and read the data inside the function, or mount a folder with volumes=."
)
_warned: set[Any] = set()  # functions already warned about; finding a large variable takes a while


def warn_of_large_call(call: Call, size: int, folders: Sequence[str]) -> None:
    """Warn that a call is large, and name the arguments and variables that make it large."""
    function = call.function
    key = getattr(function, "__code__", None) or type(function)
    if key in _warned:
        return
    _warned.add(key)
    name = getattr(function, "__name__", type(function).__name__)
    parts = find_large_parts(function, call.args, call.kwargs, folders, LARGE_CALL)
    whole = [(f"the call of {name}", size)]
    for part, part_size in parts or whole:
        warnings.warn(
            f"{part[0].upper()}{part[1:]} is {format_size(part_size)}. {_ADVICE}",
            stacklevel=callers_level(),
        )
