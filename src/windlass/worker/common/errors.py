"""Errors that a program gets inside a trial, with the public classes of `wl`.

The worker imports these classes from outside of its package, and only when it raises one.
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
    """Format a value for an error message, limited in length, even if its repr raises.

    >>> shown("4XB"), len(shown("x" * 1_000_000))
    ("'4XB'", 100)
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 -- user code, or an integer with too many digits
        text = f"this {type(value).__name__}"
    return text if len(text) <= 100 else text[:99] + "…"
