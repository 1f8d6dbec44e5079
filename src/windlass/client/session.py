"""The client: one server, and everything that can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.calls import call_methods_after
from windlass.client.questions.checkpoints import CheckpointQuestions
from windlass.client.questions.commands import CommandQuestions
from windlass.client.questions.experiments import ExperimentQuestions
from windlass.client.questions.external import ExternalQuestions
from windlass.client.questions.logs import LogQuestions
from windlass.client.questions.models import ModelQuestions
from windlass.client.questions.places import PlaceQuestions
from windlass.client.questions.queue import QueueQuestions
from windlass.client.questions.shells import ShellQuestions
from windlass.client.questions.templates import TemplateQuestions
from windlass.client.questions.trials import TrialQuestions
from windlass.client.transport import Transport
from windlass.client.trials import Trial
from windlass.model.records import TrialRecord
from windlass.model.wire import ServerInfo

if TYPE_CHECKING:
    from windlass.authoring.executables import Executable
    from windlass.authoring.packaged import Packaged
    from windlass.client.submission import Draft
    from windlass.model.wire import GarbageReport


class Client(
    TrialQuestions,
    ExperimentQuestions,
    CheckpointQuestions,
    QueueQuestions,
    ExternalQuestions,
    PlaceQuestions,
    ModelQuestions,
    TemplateQuestions,
    CommandQuestions,
    ShellQuestions,
    LogQuestions,
):
    """A connection to a server: the embedded one of this home, or the one that is named.

    ```python
    client = wl.Client()  # this machine
    client = wl.Client("http://lab:8000", token="...")
    ```

    The functions of the module (`wl.get_trial`, ...) are the methods of a client of this home.
    """

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self.transport = Transport(server, token)

    @classmethod
    def over(cls, transport: Transport) -> Client:
        """A client of a connection that there is already."""
        client = cls.__new__(cls)
        client.transport = transport
        return client

    def package(self, executables: Sequence[Executable | Packaged]) -> list[Packaged]:
        """Snapshot the code of executables now and upload it; they are returned in their order.

        ```python
        [echo] = wl.package([wl.Command(["echo", "hello"])])
        wl.Job(echo).run()
        ```

        What is edited afterwards is not in them. A tree that the server has already is not sent
        again, and has the same hash (`tree`).
        """
        from windlass.authoring.packing import package

        return package(self, executables)

    def server_info(self) -> ServerInfo:
        """The server itself: version, home, what the machine has and what is free.

        ```python
        print(wl.server_info().trials_running)
        ```
        """
        return self.transport.ask("GET", "/server", ServerInfo)

    def gc(self, *, older_than: float | str = "1h", dry_run: bool = False) -> GarbageReport:
        """Free what nothing points to any more: the contents of what was deleted.

        ```python
        print(wl.gc(dry_run=True).bytes, "bytes could be freed")
        ```

        Args:
            older_than: how long it has to have been there, since a program that is about to use
                something may have sent it already. Less than the default is for when nobody else
                is at work.
            dry_run: whether only to tell what would be freed.
        """
        from windlass.client.waits import seconds_of
        from windlass.model.wire import CollectGarbage, GarbageReport

        body = CollectGarbage(older_than=seconds_of(older_than) or 0.0, dry_run=dry_run)
        return self.transport.ask("POST", "/gc", GarbageReport, body=body)

    def submit(self, draft: Draft) -> Trial[Any]:
        """Send a draft; the trial, at once."""
        from windlass.client.submission import send  # with all of packaging: most ask nothing of it

        record = send(
            self.transport,
            draft,
            lambda request: self.transport.ask("POST", "/trials", TrialRecord, body=request),
        )
        return Trial(self.transport, record)


call_methods_after(Client, *Client.__bases__)

_default: tuple[tuple[str | None, ...], Client] | None = None


def default_client() -> Client:
    """The client that the module-level functions use: made once for a server."""
    global _default
    names = ("WINDLASS_SERVER", "WINDLASS_TOKEN", "WINDLASS_HOME")
    where = tuple(os.environ.get(name) for name in names)
    if _default is None or _default[0] != where:
        if _default is not None:
            _default[1].transport.drop_idle()  # of another server: nobody would close them
        _default = (where, Client())
    return _default[1]
