"""The client: one server, and everything that can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.experiments import Experiment
from windlass.client.metadata import label_query
from windlass.client.transport import Transport, path_of
from windlass.client.trials import Trial, list_trials
from windlass.model.errors import InvalidArgument
from windlass.model.records import ExperimentRecord, TrialRecord
from windlass.model.wire import ExperimentPage, ServerInfo

if TYPE_CHECKING:
    from windlass.client.submission import Draft

_PAGE = 100


class Client:
    """A connection to a server: the embedded one of this home, or the one that is named.

    ```python
    client = wl.Client()  # this machine
    client = wl.Client("http://lab:8000", token="...")
    ```
    """

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self.transport = Transport(server, token)

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

    def get_experiment(self, name: str | int) -> Experiment:
        """The experiment of that name (the newest, if there are several) or id."""
        if name == "":
            raise InvalidArgument(
                "An experiment has a name.", hint="See: windlass ls --experiments"
            )
        if isinstance(name, str):
            for named in self.list_experiments(name=name, sort_by="-id", limit=1):
                return named
        path = path_of("experiments", name)  # an id, or the server says what there is instead
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


_default: tuple[tuple[str | None, ...], Client] | None = None


def default_client() -> Client:
    """The client that the module-level functions use: made once for a server."""
    global _default
    names = ("WINDLASS_SERVER", "WINDLASS_TOKEN", "WINDLASS_HOME")
    where = tuple(os.environ.get(name) for name in names)
    if _default is None or _default[0] != where:
        _default = (where, Client())
    return _default[1]
