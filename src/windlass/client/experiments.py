"""Experiments as users hold them: fully filled in, refreshed on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.client.metadata import Described
from windlass.client.transport import Transport
from windlass.client.trials import Trial, list_trials
from windlass.model.records import ExperimentRecord


class Experiment(Described):
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
        self._now()
        return self

    def list_trials(
        self,
        *,
        state: str | list[str] | None = None,
        labels: str | Sequence[str] | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Iterator[Trial[Any]]:
        """Its trials, lazily, a page at a time; with `labels`, those that have all of them."""
        return list_trials(
            self._transport,
            experiment_id=self.id, state=state, labels=labels, sort_by=sort_by, limit=limit,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Experiment {self.id} {self.name}: {self.trial_count} trials>"
