"""Checks whether a client and a server can work together.

Each side has a version, for people to read, and an API level, which is a number. The level rises
with each change to the HTTP API that breaks older clients or servers, such as a field with a new
meaning, a newly required field, or a removed route. A change that older clients can ignore, such as
a new optional field, does not affect the level.
"""

API_LEVEL = 1
_OLDER = 2  # how many older API levels a server accepts


def oldest_accepted(server: int) -> int:
    """Return the lowest API level that a server accepts from clients.

    >>> [oldest_accepted(server) for server in (1, 2, 3, 7)]
    [1, 1, 1, 5]
    """
    return max(1, server - _OLDER)


def is_accepted(client: int, server: int) -> bool:
    """Return True if a server accepts a client, which may be up to two API levels older.

    >>> [is_accepted(client, server=7) for client in (4, 5, 6, 7, 8)]
    [False, True, True, True, False]
    """
    return oldest_accepted(server) <= client <= server


def read_level(text: str) -> int | None:
    """Parse an API level, or return None if the text is not one.

    >>> read_level("3"), read_level("-1"), read_level("three"), read_level("9" * 100)
    (3, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def mismatch(client: str, client_level: int | None, server: str, server_level: int | None) -> str:
    """Return the message for a client and a server that cannot work together.

    >>> mismatch("0.1.0", 1, "0.4.0", 4)
    'The server is Windlass 0.4.0 (API level 4), this client is Windlass 0.1.0 (API level 1). \
The server accepts clients of API levels 2 to 4.'
    """
    sides = (
        f"The server is {_side(server, server_level)}, "
        f"this client is {_side(client, client_level)}."
    )
    if server_level is None:
        return sides
    oldest = oldest_accepted(server_level)
    span = f"levels {oldest} to {server_level}" if oldest < server_level else f"level {oldest}"
    return f"{sides} The server accepts clients of API {span}."


def _side(version: str, level: int | None) -> str:
    shown = "unknown" if level is None else str(level)
    return f"Windlass {version or 'of an unknown version'} (API level {shown})"
