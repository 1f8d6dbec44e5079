"""A check that a `match` covers every member of an enum (`typing.assert_never` of Python 3.11)."""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """Fail for a value that no case covers; the type checker proves that no such value exists."""
    raise AssertionError(f"no case covers {value!r}")
