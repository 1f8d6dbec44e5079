"""Experiments as users hold them: fully filled in, refreshed on demand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass.client.transport import Transport, path_of
from windlass.client.trials import Trial, list_trials
from windlass.model.records import ExperimentRecord


class Experiment:
    """A named set of trials.

    ```python
    for trial in wl.get_experiment("train").list_trials(state="SUCCEEDED"):
        print(trial.params)
    ```
    """

    def __init__(self, transport: Transport, record: ExperimentRecord) -> None:
        self._transport = transport
        self._record = record

    @property
    def id(self) -> int:
        """The number by which it can be asked for."""
        return self._record.id

    @property
    def name(self) -> str:
        """What it is called."""
        return self._record.name

    @property
    def project(self) -> str:
        """The project it belongs to."""
        return self._record.project

    @property
    def created(self) -> float:
        """When its first trial was submitted."""
        return self._record.created

    @property
    def trial_count(self) -> int:
        """How many trials it has."""
        return self._record.trials

    @property
    def states(self) -> dict[str, int]:
        """How many trials are in which state."""
        return self._record.states

    @property
    def record(self) -> ExperimentRecord:
        """Everything above, as one plain struct."""
        return self._record

    def refresh(self) -> Experiment:
        """Ask the server how it stands now."""
        path = path_of("experiments", self.id)
        self._record = self._transport.ask("GET", path, ExperimentRecord)
        return self

    def list_trials(
        self,
        *,
        state: str | list[str] | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Iterator[Trial[Any]]:
        """Its trials, lazily, a page at a time."""
        return list_trials(
            self._transport,
            experiment_id=self.id, state=state, sort_by=sort_by, limit=limit,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Experiment {self.id} {self.name}: {self.trial_count} trials>"
