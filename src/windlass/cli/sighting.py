"""Looking at the server of this machine from outside: nothing here ever starts one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from windlass.client.discovery import describe_server, named_endpoint, running_endpoint
from windlass.home import Home
from windlass.model.errors import WindlassError
from windlass.worker.identity import is_alive

if TYPE_CHECKING:
    from windlass.model.records import CheckpointRecord, TrialRecord
    from windlass.model.wire import ServerInfo

T = TypeVar("T")
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
    from windlass.model.wire import TrialPage

    page = _newest("/trials", TrialPage, limit=limit)
    return page.items if page is not None else ()


def recent_checkpoints(trial_id: int | None = None) -> Sequence[CheckpointRecord]:
    """The newest checkpoints, of a trial or of all, likewise."""
    from windlass.model.wire import CheckpointPage

    page = _newest("/checkpoints", CheckpointPage, limit=50, trial_id=trial_id)
    return page.items if page is not None else ()


def known_names(nouns: str) -> Sequence[str]:
    """The names of workspaces, projects, models or templates, for completion, likewise."""
    from windlass.model.names import join_place

    page = _newest(f"/{nouns}", dict[str, Any], limit=200)
    items = page["items"] if page is not None else ()
    return [join_place(each.get("workspace", "default"), each["name"]) for each in items]


def _newest(path: str, kind: type[T], **query: Any) -> T | None:
    """The first page of a list, newest first; none if no server runs, whatever the reason."""
    from windlass.client.transport import Transport

    try:
        endpoint = named_endpoint() or running_endpoint(Home.find())
        if endpoint is None:
            return None
        transport = Transport(endpoint.url, endpoint.token, timeout=_PATIENCE)
        return transport.ask("GET", path, kind, query={"sort": "-id", **query})
    except WindlassError:
        return None
