"""Reserved ports: the supervisor holds a port until its replica binds it.

A socket that is bound and does not listen keeps a port from every process that requests any free
port or binds it without options. A replica that binds with SO_REUSEADDR, as servers do, gets it.
"""

from __future__ import annotations

import _socket  # as in nudge.py: the bare half of `socket`
import errno
import sys

LOOPBACK = "127.0.0.1"
# Elsewhere a port that is bound cannot be bound again by anyone, its replica included.
CAN_BE_HELD = sys.platform == "linux"


def claim_port(port: int) -> _socket.socket | None:
    """A socket that holds a port which nobody had, or none if somebody has it.

    >>> held = claim_port(0)
    >>> port = held.getsockname()[1]
    >>> claim_port(port) is None
    True
    >>> held.close()
    """
    claimed = _bound(port, is_shared=False)
    if claimed is not None:
        # Now, not before: two who claim it at the same time must not both have it.
        claimed.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    return claimed


def hold_port(port: int) -> _socket.socket | None:
    """One more socket that holds a port of ours; none if its replica has bound it already."""
    return _bound(port, is_shared=True) if CAN_BE_HELD else None


def _bound(port: int, *, is_shared: bool) -> _socket.socket | None:
    made = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        if is_shared:
            made.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        made.bind((LOOPBACK, port))
    except OSError as error:
        made.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise
    return made
