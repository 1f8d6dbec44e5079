"""Functions that create errors of the public `wl` classes inside a trial.

These functions import the public classes, which are outside of the package `worker`, only when they
raise one.
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
    """Return the repr of a value for an error message. The text is short, even if the repr fails.

    >>> shown("4XB"), len(shown("x" * 1_000_000))
    ("'4XB'", 100)
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 -- a repr of user code, or a huge integer
        text = f"this {type(value).__name__}"
    return text if len(text) <= 100 else text[:99] + "…"
