"""The server's listen address, which is loopback unless the environment sets another address.

With `WINDLASS_LISTEN=0.0.0.0:8080`, other machines can reach the server. `WINDLASS_NAMES` is a
comma-separated list of the host names that they use for the server. The server refuses requests for
any other host name. This protects against a web page whose own host name was pointed at this
address (DNS rebinding).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import NamedTuple

from windlass.model.errors import InvalidArgument

LISTEN, NAMES = "WINDLASS_LISTEN", "WINDLASS_NAMES"
BACKLOG = 1024  # connections that may wait in the kernel for acceptance
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- the wildcard addresses


class Listening(NamedTuple):
    """An address to listen on, and the host names that clients use for it."""

    host: str = "127.0.0.1"
    port: int = 0  # 0 means any free port
    names: tuple[str, ...] = ()

    @property
    def hosts(self) -> frozenset[str]:
        """The host names that requests can use."""
        return LOOPBACK | set(self.names)

    def urls(self, port: int) -> tuple[str, ...]:
        """Return the URLs that other machines can use, or an empty tuple on loopback.

        >>> Listening("::", 8080, ("lab", "2001:db8::7")).urls(8080)
        ('http://lab:8080', 'http://[2001:db8::7]:8080')
        """
        return tuple(_url(name, port) for name in self.names if name not in _EVERYWHERE)

    def own_url(self, port: int) -> str:
        """Return the URL that programs on the same machine can use.

        >>> Listening("0.0.0.0", 8080).own_url(8080), Listening("10.0.0.7", 8080).own_url(8080)
        ('http://127.0.0.1:8080', 'http://10.0.0.7:8080')
        """
        return _url("127.0.0.1" if self.host in _EVERYWHERE else self.host, port)

    def open(self) -> socket.socket:
        """Open a listening socket."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        is_both = self.host == "::" and socket.has_dualstack_ipv6()
        try:
            listener = socket.create_server(
                (self.host, self.port), family=family, backlog=BACKLOG, dualstack_ipv6=is_both
            )
        except OSError as error:
            raise InvalidArgument(
                f"The server cannot listen at {self.host}:{self.port}: {error.strerror}.",
                hint=f"Another program may use this port. Set {LISTEN} to another address.",
            ) from error
        # Accepted connections inherit TCP_NODELAY. Without it, any response on a reused connection
        # may be 40 ms late.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener


def read_listening(environ: Mapping[str, str] = os.environ) -> Listening:
    """Read the listen address from the environment.

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
            f"{LISTEN}: {text!r} is not a valid address.",
            hint=f"Write host and port: {LISTEN}=0.0.0.0:8080",
        )
    host = host.strip("[]")
    names = [name.strip(" []").lower() for name in environ.get(NAMES, "").split(",")]
    if host not in LOOPBACK | _EVERYWHERE:
        names.append(host)
    return Listening(host, int(port), tuple(name for name in names if name))


def _url(host: str, port: int) -> str:
    """Format a URL. IPv6 addresses contain colons and need brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
