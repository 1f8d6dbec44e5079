"""Asking for trials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from windlass.client.questions.asker import Asker
from windlass.client.transport import path_of
from windlass.client.trials import Trial, list_trials
from windlass.model.errors import InvalidArgument
from windlass.model.records import TrialRecord


class TrialQuestions(Asker):
    """Trials: one, many, side by side."""

    def get_trial(self, trial_id: int) -> Trial[Any]:
        """The trial with that id.

        ```python
        print(wl.get_trial(3).result())
        ```
        """
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
        archived: bool | None = False,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Iterator[Trial[Any]]:
        """Trials that match, lazily, a page at a time; `sort_by="-created"` is newest first.

        With `labels`, those that have all of them. Those of archived experiments are left out,
        unless they are asked for: `archived=True` has only them, `None` all, and those of an
        experiment that is named come in any case.

        ```python
        for trial in wl.list_trials(state="FAILED", sort_by="-created"):
            print(trial.id, trial.message)
        ```
        """
        return list_trials(
            self.transport,
            experiment=experiment, project=project, state=state, name=name, labels=labels,
            archived=archived if experiment is None else None, sort_by=sort_by, limit=limit,
        )  # fmt: skip

    def compare(
        self,
        trials: Iterable[Trial[Any] | int],
        metrics: Sequence[str] | str | None = None,
        sort_by: str | None = None,
    ) -> Any:
        """Some trials (or ids) in a table: parameters that differ, metrics, state, duration.

        A data frame of pandas if that is installed, else of polars, else a `wl.Table`; `metrics`
        and `sort_by` as for `Experiment.table`.

        ```python
        print(wl.compare([1, 2, 3], sort_by="lr"))
        ```
        """
        from windlass.client import comparison

        return comparison.compare(self.transport, trials, metrics=metrics, sort_by=sort_by)
