"""Where a server listens: for this machine alone, unless it is told otherwise.

`WINDLASS_LISTEN=0.0.0.0:8080` has it listen for others, and `WINDLASS_NAMES` says by which names
they know it, with commas between: requests that name another are refused, as those of a page in a
browser that was bent to this address would be.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import NamedTuple

from windlass.model.errors import InvalidArgument

LISTEN, NAMES = "WINDLASS_LISTEN", "WINDLASS_NAMES"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Listening(NamedTuple):
    """An address, and the names it is known by."""

    host: str = "127.0.0.1"
    port: int = 0  # any that is free
    names: tuple[str, ...] = ()

    @property
    def hosts(self) -> frozenset[str]:
        """What requests may call this server."""
        return LOOPBACK | set(self.names)

    def urls(self, port: int) -> tuple[str, ...]:
        """Where others reach it; none if it listens for this machine alone."""
        return tuple(f"http://{name}:{port}" for name in self.names)

    def own_url(self, port: int) -> str:
        """Where programs of this machine reach it.

        >>> Listening("0.0.0.0", 8080).own_url(8080), Listening("10.0.0.7", 8080).own_url(8080)
        ('http://127.0.0.1:8080', 'http://10.0.0.7:8080')
        """
        is_everywhere = self.host in ("0.0.0.0", "::")  # noqa: S104 -- it is only compared
        host = "127.0.0.1" if is_everywhere else self.host
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def open(self) -> socket.socket:
        """A socket that listens there."""
        try:
            listener = socket.create_server((self.host, self.port), backlog=1024)
        except OSError as error:
            raise InvalidArgument(
                f"It cannot listen at {self.host}:{self.port}: {error.strerror}.",
                hint=f"Another program may have that port; {LISTEN} names another.",
            ) from error
        # Accepted connections inherit it. Without it, a kept connection answers in 40 ms steps.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener


def read_listening(environ: Mapping[str, str] = os.environ) -> Listening:
    """What the environment says.

    >>> read_listening({"WINDLASS_LISTEN": "0.0.0.0:8080", "WINDLASS_NAMES": "lab, 10.0.0.7"})
    Listening(host='0.0.0.0', port=8080, names=('lab', '10.0.0.7'))
    >>> read_listening({})
    Listening(host='127.0.0.1', port=0, names=())
    """
    text = environ.get(LISTEN, "")
    if not text:
        return Listening()
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidArgument(
            f"{LISTEN}: {text!r} is no address.", hint=f"Write host and port: {LISTEN}=0.0.0.0:8080"
        )
    names = [name.strip().lower() for name in environ.get(NAMES, "").split(",")]
    if host not in LOOPBACK and host != "0.0.0.0":  # noqa: S104 -- it is compared, not listened at
        names.append(host.strip("[]"))
    return Listening(host.strip("[]"), int(port), tuple(name for name in names if name))
