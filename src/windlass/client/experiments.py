"""Experiments as users hold them: fully filled in, refreshed on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.transport import Transport, path_of
from windlass.client.trials import Trial, list_trials
from windlass.model.records import ExperimentRecord

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from windlass.comparing.experiments import ExperimentDiff


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

    def diff(self, other: Experiment | str | int) -> ExperimentDiff:
        """What differs between this experiment and another (or that of a name or id).

        Configuration, labels, description, parameters tried, metrics; code and environment are
        those of the newest trial of each.

        ```python
        print(wl.get_experiment("cifar10").diff("cifar10-deeper"))
        ```
        """
        from windlass.client.comparison import diff_experiments
        from windlass.client.session import Client

        if not isinstance(other, Experiment):
            other = Client.over(self._transport).get_experiment(other)
        return diff_experiments(self, other)

    def table(self, metrics: Sequence[str] | str | None = None, sort_by: str | None = None) -> Any:
        """Its trials in a table: parameters that differ, summary metrics, state, duration.

        A data frame of pandas if that is installed, else of polars, else a `wl.Table`. Of a metric
        the last value is told; `metrics=["loss.min"]` chooses another (`max`, `mean`, `count`).
        `sort_by` is a column; with a `-` before it, the greatest come first.

        ```python
        print(wl.get_experiment("cifar10").table(sort_by="loss"))
        ```
        """
        from windlass.client.comparison import experiment_table

        return experiment_table(self, metrics, sort_by)

    def download_code(self, folder: str | os.PathLike[str]) -> Path:
        """Write the code of its trials to a folder, which is made if need be.

        If all trials ran the same, that is what is in it; else a sub-folder for each version, and
        `TRIALS.txt`, which says who ran which.

        ```python
        wl.get_experiment("cifar10").download_code("code-of-cifar10")
        ```
        """
        from windlass.client.comparison import ordinary_records
        from windlass.client.downloading import download_experiment

        return download_experiment(self._transport, self.name, ordinary_records(self), folder)

    def __repr__(self) -> str:
        return f"<Experiment {self.id} {self.name}: {self.trial_count} trials>"
