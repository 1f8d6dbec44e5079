"""Provides `assert_never`, which is built into Python only since version 3.11.

It lets type checkers verify that a `match` covers every member of an enum.
"""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """Raise an error for a value that no `case` handles.

    Type checkers prove that no such value exists.
    """
    raise AssertionError(f"no case covers {value!r}")
