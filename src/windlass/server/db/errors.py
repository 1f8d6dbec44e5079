"""Driver-independent database errors. Other parts of the server see only these errors."""

from __future__ import annotations


class DatabaseError(Exception):
    """An SQL statement failed."""


class DatabaseUnavailable(DatabaseError):
    """The database cannot be used now: the disk is full, or the file is locked or missing.

    `errno` is the operating system error number that best describes the cause.
    """

    def __init__(self, errno: int, message: str) -> None:
        super().__init__(message)
        self.errno = errno


class ConstraintViolated(DatabaseError):
    """A row violates a constraint: a value is missing, or a referenced row does not exist."""


class DuplicateKey(ConstraintViolated):
    """Another row already has the same value in columns that must be unique."""
