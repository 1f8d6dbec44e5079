"""Asking for trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.listing import list_trials, trial_ids
from windlass.client.moments import Moment
from windlass.client.pages import Listing
from windlass.client.questions.asker import Asker
from windlass.client.scopes import whole_number
from windlass.client.transport import path_of
from windlass.client.trials import Trial
from windlass.model.errors import InvalidArgument
from windlass.model.records import TrialRecord

if TYPE_CHECKING:
    from windlass.client.experiments import Experiment
    from windlass.client.metrics import Metrics
    from windlass.client.places import Project


class TrialQuestions(Asker):
    """Trials: one, many, side by side."""

    def get_trial(self, trial_id: int | str) -> Trial[Any]:
        """The trial with that id.

        ```python
        print(wl.get_trial(3).result())
        ```
        """
        number = whole_number(trial_id)
        if number is None:
            raise InvalidArgument(
                f"{trial_id!r} is no trial id: it is a whole number.", hint="See: windlass ls"
            )
        path = path_of("trials", number)
        return Trial(self.transport, self.transport.ask("GET", path, TrialRecord))

    def list_trials(
        self,
        *,
        experiment: Experiment | str | int | None = None,
        project: Project | str | int | None = None,
        state: str | Sequence[str] | None = None,
        name: str | None = None,
        labels: str | Sequence[str] | None = None,
        user: str | None = None,
        kind: str | Sequence[str] | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        where: str | None = None,
        archived: bool | None = False,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Trial[Any]]:
        """Trials that match, lazily, a page at a time; `sort_by="-created"` is newest first.

        ```python
        for trial in wl.list_trials(where="hparams.lr < 0.3 and state = 'SUCCEEDED'"):
            print(trial.id, trial.hparams)

        best_first = wl.list_trials(experiment="train", sort_by="metrics.loss.min", limit=10)
        print([trial.id for trial in best_first])
        ```

        It is walked once, in constant memory; `list(...)` has all of them, and `async for` walks
        it in asynchronous code.

        Args:
            experiment: the experiment they are of, its id or its name, also `"vision/train"`; of
                several of that name, all are meant.
            project: the project they are of, its id or its name: `"vision"`, or `"lab/vision"`.
            state: one state, or several.
            name: what they are called.
            labels: labels all of which they have.
            user: who submitted them.
            kind: one kind, or several: `"job"` and `"external"` are listed unless others, as
                `"command"` and `"shell"`, are asked for.
            created_after: when they were submitted at the earliest: `"2026-11-16"`, a `datetime`,
                seconds since the epoch, or `"2h"` for so long ago.
            created_before: when at the latest, likewise.
            where: what they fulfil: comparisons (`=`, `!=`, `<`, `<=`, `>`, `>=`, `in`,
                `contains`, `like`) of `hparams.NAME`, `metrics.NAME` (the last value, or `.min`,
                `.max`, `.mean`, `.count`), `id`, `name`, `state`, `kind`, `experiment`,
                `project`, `user`, `labels`, `created`, `started`, `ended` and `duration`, joined
                with `and`, `or`, `not` and parentheses.
            archived: whether those of archived experiments are meant: `True` for only them, `None`
                for all; those of an experiment that is named come in any case.
            sort_by: `id`, `name`, `state`, `user`, `created`, `started`, `ended`, `duration`,
                `hparams.NAME` or `metrics.NAME` (also `NAME` alone); with a `-` before it,
                downwards. Those that have no such value come last; what no trial has is refused.
            limit: how many at most.
        """
        return list_trials(
            self.transport,
            experiment=experiment, project=project, state=state, name=name, labels=labels,
            user=user, kind=kind, created_after=created_after, created_before=created_before,
            where=where, archived=archived if experiment is None else None, sort_by=sort_by,
            limit=limit,
        )  # fmt: skip

    def get_metrics(
        self,
        trials: Iterable[Trial[Any] | int] | Trial[Any] | int,
        names: Sequence[str] | str | None = None,
        *,
        group: str | None = None,
        max_points: int | None = None,
    ) -> Metrics:
        """The points that some trials (or ids) reported, of some metrics or of all, in one request.

        `max_points` is the most that come of each metric of each trial, spikes among them. Trials
        that lack one of the names are left out of it; a name that none of them has is
        `wl.NotFound`, unless one goes on and may yet report it.

        ```python
        curves = wl.get_metrics([1, 2, 3], "loss", max_points=500).to_pandas()
        print(curves.groupby("trial")["value"].min())
        ```
        """
        from windlass.client.metrics import metrics_of

        ids = trial_ids([trials] if isinstance(trials, (Trial, int)) else trials)
        if not 0 < len(ids) <= 1000:
            raise InvalidArgument(
                f"{len(ids)} trials are asked for: it is from 1 to 1000 of them.",
                hint="See: windlass ls",
            )
        return metrics_of(self.transport, ids, names, group=group, max_points=max_points)

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
