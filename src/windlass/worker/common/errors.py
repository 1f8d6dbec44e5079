"""Functions that create public `wl` errors inside a trial.

The public classes are outside the package `worker`, so these functions import them only when they
create an error.
"""

from __future__ import annotations


def invalid(message: str, hint: str) -> Exception:
    """Return a `wl.InvalidArgument`, which is a `ValueError`."""
    from windlass.model.errors import InvalidArgument

    return InvalidArgument(message, hint=hint)


def wrong_type(message: str, hint: str) -> Exception:
    """Return a `wl.InvalidArgument` that is also a `TypeError`."""
    from windlass.model.worker_errors import WrongType

    return WrongType(message, hint=hint)


def no_such_file(message: str, hint: str) -> Exception:
    """Return a `wl.NotFound` that is also a `FileNotFoundError`."""
    from windlass.model.worker_errors import NoSuchFile

    return NoSuchFile(message, hint=hint)


def changed(message: str, hint: str) -> Exception:
    """Return a `wl.Conflict` that is also a `RuntimeError`."""
    from windlass.model.worker_errors import Changed

    return Changed(message, hint=hint)


def shown(value: object) -> str:
    """Return a value's repr for an error message: always a short text, even if the repr fails.

    >>> shown("4XB"), len(shown("x" * 1_000_000))
    ("'4XB'", 100)
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 -- a repr of user code, or a huge integer
        text = f"this {type(value).__name__}"
    return text if len(text) <= 100 else text[:99] + "…"
