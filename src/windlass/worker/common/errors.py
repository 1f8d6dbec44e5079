"""Errors of the functions that a program calls inside a trial, as users of `wl` know them.

The worker imports these classes from outside of its package, and only when it raises one.
"""

from __future__ import annotations


def invalid(message: str, hint: str) -> Exception:
    """A `wl.InvalidArgument`, which is a `ValueError`."""
    from windlass.model.errors import InvalidArgument

    return InvalidArgument(message, hint=hint)


def wrong_type(message: str, hint: str) -> Exception:
    """A `wl.InvalidArgument` that is a `TypeError`, too."""
    from windlass.model.worker_errors import WrongType

    return WrongType(message, hint=hint)


def no_such_file(message: str, hint: str) -> Exception:
    """A `wl.NotFound` that is a `FileNotFoundError`, too."""
    from windlass.model.worker_errors import NoSuchFile

    return NoSuchFile(message, hint=hint)


def changed(message: str, hint: str) -> Exception:
    """A `wl.Conflict` that is a `RuntimeError`, too."""
    from windlass.model.worker_errors import Changed

    return Changed(message, hint=hint)


def shown(value: object) -> str:
    """A value as an error shows it: in bounds, whatever its own repr does.

    >>> shown("4XB"), len(shown("x" * 1_000_000))
    ("'4XB'", 100)
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 -- it is somebody else's, or a number of too many digits
        text = f"this {type(value).__name__}"
    return text if len(text) <= 100 else text[:99] + "…"
