"""A dry run of a generator: it runs here and now, and what it adds is shown."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from windlass.authoring.adding import Wish, add
from windlass.client.dry import DryClient, DryTrial, NothingRan
from windlass.client.experiments import Experiment
from windlass.client.submission import Draft
from windlass.client.trials import Trial
from windlass.model.records import ExperimentRecord
from windlass.model.wire import CreateTrial


def look(
    client: DryClient,
    experiment: ExperimentRecord,
    request: CreateTrial,
    run: Callable[[Trial[Any]], Any],
    *,
    is_async: bool,
) -> Trial[Any]:
    """Run a generator as far as it needs nothing that ran."""
    trial = _DryParent(client, experiment, request)
    try:
        if is_async:
            _run_to_its_end(run, trial)
        else:
            run(trial)
    except NothingRan:
        if sys.stderr is not None:
            sys.stderr.write(
                f"{request.name} goes on with what comes of a trial: not in a dry run.\n"
            )
    return trial


class _DryParent(DryTrial[Any]):
    """The trial of a generator: what is added to it is shown."""

    def __init__(
        self, client: DryClient, experiment: ExperimentRecord, request: CreateTrial
    ) -> None:
        super().__init__(client.transport, Draft(request))
        self._client = client
        self._experiment = Experiment(client.transport, experiment)

    def add(
        self,
        what: Any,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        env: Mapping[str, Any] | None = None,
        name: str | None = None,
        labels: Sequence[str] = (),
        identity: str | None = None,
        auxiliary: bool = False,
    ) -> Trial[Any]:
        """Show what would run."""
        wish = Wish(args, env, name, labels, identity, auxiliary, inherited=self.params)
        return add(self._experiment, self._client, what, wish)


def _run_to_its_end(run: Callable[[Trial[Any]], Any], trial: Trial[Any]) -> None:
    """In a thread, since a loop may be running here."""
    import asyncio

    raised: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(run(trial))
        except BaseException as error:  # noqa: BLE001 -- raised below
            raised.append(error)

    thread = threading.Thread(target=work, name="windlass-dry-generator")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
