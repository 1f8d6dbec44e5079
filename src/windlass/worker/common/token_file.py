"""Reads the file with a home's access token."""

from __future__ import annotations

from windlass.worker.common.file_reads import read_file

_LONGEST = 4096  # bytes


def read_token(path: str) -> str:
    """Return the token, or "" if the file is missing. Raise `ValueError` if it is damaged.

    >>> read_token("/nowhere/token")
    ''
    """
    data = read_file(path, _LONGEST)
    if data is None:
        return ""
    try:
        token = data.decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise ValueError("it contains no token")
    return token
