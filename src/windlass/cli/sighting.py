"""Looking at the server of this machine from outside: nothing here ever starts one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.client.discovery import describe_server, named_endpoint, running_endpoint
from windlass.home import Home
from windlass.model.errors import WindlassError
from windlass.worker.identity import is_alive

if TYPE_CHECKING:
    from windlass.model.records import TrialRecord
    from windlass.model.wire import ServerInfo

_PATIENCE = 5.0  # a server that is well answers in milliseconds


class Sighting(NamedTuple):
    """What can be seen of a server: what it wrote about itself, and what it answers."""

    home: Home
    described: dict[str, Any] | None  # none: it never started, or it was stopped
    is_running: bool
    info: ServerInfo | None  # none: it does not answer
    problem: str = ""  # why it does not

    @property
    def pid(self) -> int:
        """Its process, or the one it had."""
        return int((self.described or {}).get("pid") or 0)


def sight_server(home: Home) -> Sighting:
    """Look whether the server of a home runs and answers."""
    described = describe_server(home)
    if described is None:
        return Sighting(home, None, is_running=False, info=None)
    pid, identity = described.get("pid"), described.get("identity")
    if not isinstance(pid, int) or not is_alive(pid, str(identity or "")):
        return Sighting(home, described, is_running=False, info=None)
    try:
        endpoint = running_endpoint(home)
        if endpoint is None:
            return Sighting(home, described, is_running=False, info=None)
        info = ask_info(endpoint.url, endpoint.token)
    except WindlassError as error:
        return Sighting(home, described, is_running=True, info=None, problem=str(error))
    return Sighting(home, described, is_running=True, info=info)


def ask_info(url: str, token: str) -> ServerInfo:
    """What a server says of itself, asked with little patience."""
    from windlass.client.transport import Transport
    from windlass.model.wire import ServerInfo

    return Transport(url, token, timeout=_PATIENCE).ask("GET", "/server", ServerInfo)


def recent_trials(limit: int = 50) -> Sequence[TrialRecord]:
    """The newest trials, for completion: none if no server runs, whatever the reason."""
    from windlass.client.transport import Transport
    from windlass.model.wire import TrialPage

    try:
        endpoint = named_endpoint() or running_endpoint(Home.find())
        if endpoint is None:
            return ()
        transport = Transport(endpoint.url, endpoint.token, timeout=_PATIENCE)
        query = {"sort": "-id", "limit": limit}
        return transport.ask("GET", "/trials", TrialPage, query=query).items
    except WindlassError:
        return ()


def known_names(nouns: str) -> Sequence[str]:
    """The names of workspaces, projects, models or templates, for completion, likewise."""
    from windlass.client.transport import Transport
    from windlass.model.names import join_place

    try:
        endpoint = named_endpoint() or running_endpoint(Home.find())
        if endpoint is None:
            return ()
        transport = Transport(endpoint.url, endpoint.token, timeout=_PATIENCE)
        query = {"sort": "-id", "limit": 200}
        page = transport.ask("GET", f"/{nouns}", dict[str, Any], query=query)
        items = page["items"]
        return [join_place(each.get("workspace", "default"), each["name"]) for each in items]
    except WindlassError:
        return ()
