"""A check that a `match` covers every member of an enum (`typing.assert_never` of Python 3.11)."""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """Raise an error for a value that no `case` handles. The type checker proves that this never
    runs.
    """
    raise AssertionError(f"no case covers {value!r}")
