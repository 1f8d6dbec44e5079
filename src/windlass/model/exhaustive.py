"""Provides `assert_never`, which Python has only since version 3.11.

With it, the type checker verifies that a `match` covers every member of an enum.
"""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """Raise an error for a value that no `case` handles.

    The type checker proves that no such value exists.
    """
    raise AssertionError(f"no case covers {value!r}")
