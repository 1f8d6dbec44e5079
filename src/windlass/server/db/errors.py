"""Errors of any database. No other part of the server knows the errors of a driver."""

from __future__ import annotations


class DatabaseError(Exception):
    """A statement failed."""


class DatabaseUnavailable(DatabaseError):
    """The database cannot be read or written now: the disk is full, the file is locked or lost.

    `errno` is the error number of the operating system that describes the cause best.
    """

    def __init__(self, errno: int, message: str) -> None:
        super().__init__(message)
        self.errno = errno


class ConstraintViolated(DatabaseError):
    """A row is not allowed: a value is missing, or it refers to a row that does not exist."""


class DuplicateKey(ConstraintViolated):
    """Another row has the same value in columns that must be unique."""
