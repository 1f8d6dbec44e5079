"""Chooses and reserves TCP ports for jobs on this machine."""

from __future__ import annotations

import itertools
import logging
import random
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from windlass.worker.supervise.ports import CAN_BE_HELD, LOOPBACK, claim_port, hold_port

if TYPE_CHECKING:
    import _socket

_EPHEMERAL = "/proc/sys/net/ipv4/ip_local_port_range"
_USUAL_EPHEMERAL = (32768, 65535)  # the usual range on Linux and macOS
_LOWEST, _HIGHEST = 12000, 65535  # well-known servers use lower ports
_ENOUGH = 2000

_log = logging.getLogger(__name__)


class Ports:
    """The reserved ports of all jobs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, dict[str, _Port]] = {}  # by job uid, then "role-index"

    def addresses(
        self, uid: str, names: Iterable[str], assigned: Mapping[str, str]
    ) -> dict[str, str]:
        """Return an address for each named replica of a job, and reserve the address's port.

        Addresses in `assigned` and addresses from earlier calls stay the same.
        """
        self.take_up(uid, assigned)
        with self._lock:
            ports = self._jobs.setdefault(uid, {})
            new = [name for name in names if name not in ports]
            ports.update(zip(new, self._choose(len(new)), strict=True))
            return {
                **assigned,
                **{name: f"{LOOPBACK}:{port.number}" for name, port in ports.items()},
            }

    def take_up(self, uid: str, assigned: Mapping[str, str]) -> None:
        """Reserve the ports in the addresses that a job already has."""
        with self._lock:
            ports = self._jobs.setdefault(uid, {})
            for name, address in assigned.items():
                number = port_of(address)
                if number is None or (name in ports and ports[name].number == number):
                    continue
                if name in ports:
                    ports[name].close()
                ports[name] = _Port(number)
                ports[name].hold()

    def hold_again(self, uid: str) -> None:
        """Reserve a job's ports that could not be reserved while replicas listened on them."""
        if uid not in self._jobs:
            return
        with self._lock:
            for port in self._jobs.get(uid, {}).values():
                port.hold()

    def release(self, uid: str) -> None:
        """Release the ports of a job."""
        with self._lock:
            for port in self._jobs.pop(uid, {}).values():
                port.close()

    def close(self) -> None:
        """Release all ports. Supervisors keep the ports of running replicas reserved."""
        with self._lock:
            for ports in self._jobs.values():
                for port in ports.values():
                    port.close()
            self._jobs.clear()

    def _choose(self, count: int) -> list[_Port]:
        """Choose `count` free ports, adjacent if possible."""
        if not count:
            return []
        taken = {port.number for ports in self._jobs.values() for port in ports.values()}
        span = _span()
        start = random.randrange(len(span))  # noqa: S311  # so that servers choose different ports
        free: list[_Port] = []
        try:
            for number in itertools.chain(span[start:], span[:start]):
                socket = None if number in taken else claim_port(number)
                if socket is not None:
                    free.append(_Port(number, socket))
                if len(free) == count:
                    return free
            raise OSError(f"no {count} ports are free between {span[0]} and {span[-1]}")
        except OSError:
            for port in free:
                port.close()
            raise


class _Port:
    """A job's port and, if the port is reserved, the socket that reserves it."""

    def __init__(self, number: int, socket: _socket.socket | None = None) -> None:
        self.number = number
        self._socket = socket
        if socket is not None and not CAN_BE_HELD:
            self.close()

    def hold(self) -> None:
        if self._socket is not None:
            return
        try:
            self._socket = hold_port(self.number)
        except OSError as error:
            # The process has no free file descriptor. The job keeps its port, and the next call of
            # `hold` tries again.
            _log.warning("port %s could not be reserved: %s", self.number, error)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def port_of(address: str) -> int | None:
    """Return the port of an address on this machine, or None for any other address.

    >>> port_of("127.0.0.1:12345"), port_of("127.0.0.1"), port_of("10.0.0.1:80")
    (12345, None, None)
    """
    host, _, port = address.partition(":")
    return int(port) if host == LOOPBACK and port.isdecimal() and 0 < int(port) < 65536 else None


def _span() -> range:
    """Return the range of ports to choose from. It avoids the ports of outgoing connections."""
    low, high = _ephemeral()
    below, above = range(_LOWEST, low), range(high + 1, _HIGHEST + 1)
    best = max(below, above, key=len)
    # If outgoing connections may use any port, choose from all ports. A reserved port is safe.
    return best if len(best) >= _ENOUGH else range(_LOWEST, _HIGHEST + 1)


def _ephemeral() -> tuple[int, int]:
    try:
        with open(_EPHEMERAL) as file:
            low, high = map(int, file.read().split())
    except (OSError, ValueError):
        return _USUAL_EPHEMERAL
    return low, high
