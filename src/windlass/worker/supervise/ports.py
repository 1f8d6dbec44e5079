"""Reserved ports: the supervisor holds a port until its replica binds it.

A socket that is bound and does not listen keeps a port from every process that requests any free
port or binds it without options. A replica that binds with SO_REUSEADDR, as servers do, gets it.
"""

from __future__ import annotations

import _socket  # as in nudge.py, to avoid the import of `socket`
import errno
import sys

LOOPBACK = "127.0.0.1"
# On other systems no process can bind a port that is bound already, not even its replica.
CAN_BE_HELD = sys.platform == "linux"


def claim_port(port: int) -> _socket.socket | None:
    """Bind a free port and return its socket; None if the port is in use.

    >>> held = claim_port(0)
    >>> port = held.getsockname()[1]
    >>> claim_port(port) is None
    True
    >>> held.close()
    """
    claimed = _bound(port, is_shared=False)
    if claimed is not None:
        # Set the option only after the bind, so that only one of two concurrent claims succeeds.
        claimed.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    return claimed


def hold_port(port: int) -> _socket.socket | None:
    """Bind a port of this replica once more; None if the replica has bound it already."""
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
