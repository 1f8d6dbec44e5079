"""Compatibility of a client and a server. Each has a version, for people, and an API level.

The API level is the number of the newest change of the HTTP API that an older client or an older
server would notice: a new meaning of a field, a field that is required now, a route that is gone.
A change that an older client can ignore, such as a new optional field, keeps the level.
"""

API_LEVEL = 1
_OLDER = 2  # levels before its own that a server accepts


def oldest_accepted(server: int) -> int:
    """Return the lowest API level of the clients that a server accepts.

    >>> [oldest_accepted(server) for server in (1, 2, 3, 7)]
    [1, 1, 1, 5]
    """
    return max(1, server - _OLDER)


def is_accepted(client: int, server: int) -> bool:
    """Return whether a server accepts a client: of its own API level or of the two before.

    >>> [is_accepted(client, server=7) for client in (4, 5, 6, 7, 8)]
    [False, True, True, True, False]
    """
    return oldest_accepted(server) <= client <= server


def read_level(text: str) -> int | None:
    """Return the API level that a text states, or None.

    >>> read_level("3"), read_level("-1"), read_level("three"), read_level("9" * 100)
    (3, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def mismatch(client: str, client_level: int | None, server: str, server_level: int | None) -> str:
    """Return the message that two sides cannot work together.

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
