"""Reserves a replica's port until the replica itself binds it.

While a socket is bound to a port but does not listen, no other process gets that port by requesting
any free port or by binding it without options. Servers bind with the option SO_REUSEADDR, and
therefore get it.
"""

from __future__ import annotations

import _socket  # as in `nudge.py`, to avoid the import of `socket`
import errno
import sys

LOOPBACK = "127.0.0.1"
# On other systems, nobody could bind a reserved port, not even the replica.
CAN_BE_HELD = sys.platform == "linux"


def claim_port(port: int) -> _socket.socket | None:
    """Bind a port and return the socket, or None if the port is in use.

    >>> held = claim_port(0)
    >>> port = held.getsockname()[1]
    >>> claim_port(port) is None
    True
    >>> held.close()
    """
    claimed = _bound(port, is_shared=False)
    if claimed is not None:
        # Setting this option after the bind ensures that only one of two concurrent calls gets the
        # port.
        claimed.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    return claimed


def hold_port(port: int) -> _socket.socket | None:
    """Bind a port that another process reserved for this replica. Return the socket.

    Return None if a program is already listening on the port.
    """
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
