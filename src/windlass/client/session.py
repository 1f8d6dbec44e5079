"""The client: one server, and everything that can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.experiments import Experiment
from windlass.client.metadata import label_query
from windlass.client.transport import Transport, path_of
from windlass.client.trials import Trial, list_trials
from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.records import ExperimentRecord, TrialRecord
from windlass.model.wire import ExperimentPage, ServerInfo

if TYPE_CHECKING:
    from windlass.authoring.executables import Executable
    from windlass.authoring.packaged import Packaged
    from windlass.client.submission import Draft

_PAGE = 100
_NAMESAKES = 21  # experiments of one name that are looked for; one less is told of


class Client:
    """A connection to a server: the embedded one of this home, or the one that is named.

    ```python
    client = wl.Client()  # this machine
    client = wl.Client("http://lab:8000", token="...")
    ```
    """

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self.transport = Transport(server, token)

    @classmethod
    def over(cls, transport: Transport) -> Client:
        """A client of a connection that there is already."""
        client = cls.__new__(cls)
        client.transport = transport
        return client

    def create_experiment(
        self,
        name: str,
        project: str | None = None,
        labels: Sequence[str] = (),
        description: str = "",
        config: Mapping[str, Any] | None = None,
        *,
        exist_ok: bool = False,
        wait: bool = False,
    ) -> Experiment:
        """A new experiment, made at once; one of the same name may exist: their ids differ.

        With `exist_ok` the one of that name in the project, if there is one.
        """
        from windlass.authoring.founding import new_experiment

        request = new_experiment(name, project, labels, description, config, exist_ok=exist_ok)
        record = self.transport.ask("POST", "/experiments", ExperimentRecord, body=request)
        return Experiment(self.transport, record, waits=wait)

    def package(self, executables: Sequence[Executable | Packaged]) -> list[Packaged]:
        """Snapshot the code of executables now and upload it; they are returned in their order."""
        from windlass.authoring.packing import package

        return package(self, executables)

    def get_trial(self, trial_id: int) -> Trial[Any]:
        """The trial with that id."""
        if isinstance(trial_id, bool) or not isinstance(trial_id, int):
            raise InvalidArgument(
                f"{trial_id!r} is no trial id: it is a whole number.", hint="See: windlass ls"
            )
        path = path_of("trials", trial_id)
        return Trial(self.transport, self.transport.ask("GET", path, TrialRecord))

    def list_trials(
        self,
        *,
        experiment: str | None = None,
        project: str | None = None,
        state: str | list[str] | None = None,
        name: str | None = None,
        labels: str | Sequence[str] | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Iterator[Trial[Any]]:
        """Trials that match, lazily, a page at a time; `sort_by="-created"` is newest first.

        With `labels`, those that have all of them.
        """
        return list_trials(
            self.transport,
            experiment=experiment, project=project, state=state, name=name, labels=labels,
            sort_by=sort_by, limit=limit,
        )  # fmt: skip

    def get_experiment(self, id_or_name: int | str) -> Experiment:
        """The experiment of that id or name; a name that several have is refused with their ids."""
        if id_or_name == "":
            raise InvalidArgument(
                "An experiment has a name.", hint="See: windlass ls --experiments"
            )
        if isinstance(id_or_name, str):
            named = list(self.list_experiments(name=id_or_name, sort_by="-id", limit=_NAMESAKES))
            if len(named) > 1:
                raise _ambiguous(id_or_name, named)
            if named:
                return named[0]
        path = path_of("experiments", id_or_name)  # or the server says what there is instead
        return Experiment(self.transport, self.transport.ask("GET", path, ExperimentRecord))

    def list_experiments(
        self,
        *,
        project: str | None = None,
        name: str | None = None,
        labels: str | Sequence[str] | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Iterator[Experiment]:
        """Experiments that match, lazily, a page at a time; with `labels`, that have them all."""
        left, cursor = limit, None
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            query = {"project": project, "name": name, "labels": label_query(labels)}
            place = {"sort": sort_by, "cursor": cursor, "limit": size}
            page = self.transport.ask(
                "GET", "/experiments", ExperimentPage, query={**query, **place}
            )
            for record in page.items:
                yield Experiment(self.transport, record)
            left = None if left is None else left - len(page.items)
            cursor = page.next
            if cursor is None:
                return

    def server_info(self) -> ServerInfo:
        """The server itself: version, home, what the machine has and what is free."""
        return self.transport.ask("GET", "/server", ServerInfo)

    def submit(self, draft: Draft) -> Trial[Any]:
        """Send a draft; the trial, at once."""
        from windlass.client.submission import send  # with all of packaging: most ask nothing of it

        record = send(
            self.transport,
            draft,
            lambda request: self.transport.ask("POST", "/trials", TrialRecord, body=request),
        )
        return Trial(self.transport, record)


def _ambiguous(name: str, named: list[Experiment]) -> Conflict:
    """A name that several experiments have: which they are, the newest first."""
    import time

    from windlass.model.quantities import format_duration

    now = time.time()
    told = []
    for each in named[: _NAMESAKES - 1]:
        count = "1 trial" if each.trial_count == 1 else f"{each.trial_count} trials"
        age = format_duration(max(now - each.created, 0))
        told.append(f"{each.id}: {count}, made {age} ago")
    newest, lines = named[0].id, "\n".join(told)
    more = len(named) == _NAMESAKES
    number = f"more than {_NAMESAKES - 1}" if more else str(len(named))
    rest = "\nand others; see: windlass ls --experiments" if more else ""
    return Conflict(
        f"There are {number} experiments called {name!r}.",
        hint=f"Ask for one by its id, as in wl.get_experiment({newest}) or windlass ls -e {newest}:"
        f"\n{lines}{rest}",
    )


_default: tuple[tuple[str | None, ...], Client] | None = None


def default_client() -> Client:
    """The client that the module-level functions use: made once for a server."""
    global _default
    names = ("WINDLASS_SERVER", "WINDLASS_TOKEN", "WINDLASS_HOME")
    where = tuple(os.environ.get(name) for name in names)
    if _default is None or _default[0] != where:
        _default = (where, Client())
    return _default[1]
