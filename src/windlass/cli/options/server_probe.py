"""Probes this machine's server without ever starting one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from windlass.client.connection.discovery import (
    Endpoint,
    describe_server,
    named_endpoint,
    running_endpoint,
)
from windlass.home import Home
from windlass.model.errors import WindlassError
from windlass.worker.common.process_identity import is_alive

if TYPE_CHECKING:
    from windlass.model.records import CheckpointRecord, TrialRecord
    from windlass.model.requests import ServerInfo

T = TypeVar("T")
_PATIENCE = 5.0  # seconds; a healthy server responds in milliseconds


class ServerProbe(NamedTuple):
    """A server's state, read from its server file, its process and its response."""

    home: Home
    described: dict[str, Any] | None  # None without a server file
    is_running: bool
    info: ServerInfo | None  # None if the server does not respond
    problem: str = ""  # why the server does not respond

    @property
    def pid(self) -> int:
        """The process id of the current or the last server, or 0."""
        return int((self.described or {}).get("pid") or 0)


def probe_server(home: Home) -> ServerProbe:
    """Check whether a home's server is running and responds."""
    described = describe_server(home)
    if described is None:
        return ServerProbe(home, None, is_running=False, info=None)
    pid, identity = described.get("pid"), described.get("identity")
    if not isinstance(pid, int) or not is_alive(pid, str(identity or "")):
        return ServerProbe(home, described, is_running=False, info=None)
    try:
        endpoint = running_endpoint(home)
        if endpoint is None:
            return ServerProbe(home, described, is_running=False, info=None)
        info = fetch_server_info(endpoint)
    except WindlassError as error:
        return ServerProbe(home, described, is_running=True, info=None, problem=str(error))
    return ServerProbe(home, described, is_running=True, info=info)


def fetch_server_info(endpoint: Endpoint) -> ServerInfo:
    """Fetch a server's version, capacity and load, with a short timeout."""
    from windlass.client.connection.transport import Transport
    from windlass.model.requests import ServerInfo

    return Transport(endpoint=endpoint, timeout=_PATIENCE).ask("GET", "/server", ServerInfo)


def recent_trials(limit: int = 50) -> Sequence[TrialRecord]:
    """Return the newest trials for shell completion, or () if no server responds."""
    from windlass.model.requests import TrialPage

    page = _newest("/trials", TrialPage, limit=limit)
    return page.items if page is not None else ()


def recent_checkpoints(trial_id: int | None = None) -> Sequence[CheckpointRecord]:
    """Return the newest checkpoints of one or all trials, for shell completion."""
    from windlass.model.requests import CheckpointPage

    page = _newest("/checkpoints", CheckpointPage, limit=50, trial_id=trial_id)
    return page.items if page is not None else ()


def recent_names(nouns: str) -> Sequence[str]:
    """Return the names of workspaces, projects, models or templates, for shell completion."""
    from windlass.model.text.names import join_place

    page = _newest(f"/{nouns}", dict[str, Any], limit=200)
    items = page["items"] if page is not None else ()
    return [join_place(item.get("workspace", "default"), item["name"]) for item in items]


def _newest(path: str, kind: type[T], **query: Any) -> T | None:
    """Return the first page of the list at a URL path, sorted from the newest object on.

    Return None if no server responds.
    """
    from windlass.client.connection.transport import Transport

    try:
        endpoint = named_endpoint() or running_endpoint(Home.find())
        if endpoint is None:
            return None
        transport = Transport(endpoint=endpoint, timeout=_PATIENCE)
        return transport.ask("GET", path, kind, query={"sort": "-id", **query})
    except WindlassError:
        return None
