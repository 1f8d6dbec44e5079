"""Refuses NUL characters, which PostgreSQL, C programs and environment variables cannot hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.model.errors import InvalidArgument

# JSON can contain NUL only as this escape sequence. If an odd number of backslashes precedes it,
# the same characters are ordinary text.
_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def check_parameters(parameters: dict[str, str]) -> None:
    """Raise InvalidArgument if a path or query parameter contains a NUL character.

    >>> check_parameters({"search": "nan\\0"})
    Traceback (most recent call last):
    ...
    windlass.InvalidArgument: search: the text contains a NUL character.
      Remove the NUL character, which texts cannot contain.
    """
    for name, value in parameters.items():
        if "\0" in value or "\0" in name:
            raise _nul_at(name)


def check_body(body: bytes) -> None:
    """Raise InvalidArgument if a text in a JSON document contains a NUL character.

    >>> check_body(b'{"params": {"model": {"act": ["relu", "\\\\u0000"]}}}')
    Traceback (most recent call last):
    ...
    windlass.InvalidArgument: params.model.act.1: the text contains a NUL character.
      Remove the NUL character, which texts cannot contain.
    """
    if b"\\u0000" in body and _ESCAPED_NUL.search(body):
        try:
            document = msgspec.json.decode(body)
        except msgspec.DecodeError:
            return  # the JSON is invalid, and the route's decoder will report that
        raise _nul_at(_path_to_nul(document) or "")


def _path_to_nul(value: Any) -> str | None:
    """Return the path to the first text that contains a NUL character, or None if there is none."""
    if isinstance(value, str):
        return "" if "\0" in value else None
    if isinstance(value, dict):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return None
    for name, part in items:
        if isinstance(name, str) and "\0" in name:
            return name
        inner = _path_to_nul(part)
        if inner is not None:
            return f"{name}.{inner}".rstrip(".")
    return None


def _nul_at(path: str) -> InvalidArgument:
    where = f"{path.replace(chr(0), '␀')[:200]}: the" if path else "The"
    return InvalidArgument(
        f"{where} text contains a NUL character.",
        hint="Remove the NUL character, which texts cannot contain.",
    )
