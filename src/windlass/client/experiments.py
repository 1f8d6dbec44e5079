"""Experiments as users hold them: fully filled in, refreshed on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from windlass.client.awaited import AwaitedExperiment
from windlass.client.calls import call_methods_after, users_call
from windlass.client.experiment_facts import ExperimentFacts
from windlass.client.listing import list_trials
from windlass.client.metadata import Described
from windlass.client.pages import Listing
from windlass.client.transport import path_of
from windlass.client.trials import Trial
from windlass.client.waits import seconds_of
from windlass.model.records import ExperimentRecord
from windlass.model.wire import Deleted, StopTrial

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from windlass.authoring.executables import Executable
    from windlass.authoring.function import Function
    from windlass.authoring.jobs import Job, JobGroup
    from windlass.authoring.packaged import Packaged
    from windlass.client.moments import Moment
    from windlass.client.session import Client
    from windlass.comparing.experiments import ExperimentDiff
    from windlass.search.result import SearchResult


class Experiment(AwaitedExperiment):
    """A named set of trials.

    ```python
    for trial in wl.get_experiment("train").list_trials(state="SUCCEEDED"):
        print(trial.params)
    ```
    """

    def package(self, executables: Sequence[Executable | Packaged]) -> list[Packaged]:
        """Snapshot the code of executables now and upload it: what jobs of them will run.

        ```python
        exp = wl.create_experiment("greetings")
        [echo] = exp.package([wl.Command(["echo", "hello"])])
        exp.add(wl.Job(echo), args=["world"])
        ```

        They are returned in their order. What is edited afterwards is not in them.
        """
        return self._client.package(executables)

    @users_call("exp.add")
    def add(
        self,
        what: Job | JobGroup | Function[..., Any] | Callable[..., Any],
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        env: Mapping[str, Any] | None = None,
        name: str | None = None,
        labels: Sequence[str] = (),
        identity: str | None = None,
        auxiliary: bool = False,
    ) -> Trial[Any]:
        """Start a trial of a job now, with arguments of its own; it is returned at once.

        ```python
        exp = wl.create_experiment("sweep")
        [echo] = exp.package([wl.Command(["echo"])])
        job = wl.Job(echo, args={"epochs": 3}, executor=wl.Local(cpus=0.5))
        for lr in (0.1, 0.01):
            exp.add(job, args={"lr": lr}, identity=f"lr={lr}")
        ```

        Args:
            what: a `wl.Job`, a `wl.JobGroup`, a function decorated with `wl.run`; or a generator,
                `def build(trial, **args)`, sync or async, which runs in this process and builds
                its trial of the jobs that it gives to `trial.add`.
            args: laid over the job's own: a mapping changes them by name, nested ones too; a
                list takes the place of a list; what is of the other kind comes behind. For a
                group by role: `{"learner": {"lr": 0.1}}`.
            env: variables, laid over the job's own; for a group by role.
            name: what the trial is called (as the job says).
            labels: texts to find it by.
            identity: a text that is unique in the experiment: added again, from wherever, the
                trial that exists is returned.
            auxiliary: whether it ends with the experiment and is no part of its success.
        """
        from windlass.authoring.adding import Wish, add

        wish = Wish(args, env, name, labels, identity, auxiliary)
        trial = add(self, self._client, what, wish)
        self._handed.append(ref(trial))
        self._outdated = self._record
        return trial

    @users_call("exp.search")
    def search(
        self,
        job: Job | JobGroup | Function[..., Any],
        *,
        space: Mapping[str, Any],
        metric: str,
        mode: str = "min",
        method: str = "tpe",
        trials: int | None = None,
        concurrent: int = 8,
        name: str = "search",
        seed: int | None = None,
        timeout: float | str | None = None,
        args: Mapping[str, Any] | Sequence[Any] | None = None,
        min_steps: int = 1,
        reduction: int = 4,
    ) -> SearchResult:
        """Search for the arguments that make a metric best: trials are run until all are done.

        ```python
        @wl.run(cpus=0.5)
        def train(lr, layers):
            for step in range(3):
                wl.report(step, loss=abs(lr - 0.01) * layers / (step + 1))


        exp = wl.create_experiment("tuning")
        space = {"lr": wl.loguniform(1e-5, 1e-1), "layers": wl.choice(2, 4, 8)}
        found = exp.search(train, space=space, metric="loss", trials=4, concurrent=2)
        print(found.best_params, found.best_value)
        ```

        What a trial comes to is the last value of the metric it reported; of a function that
        reported none, the number it returned, or has under that name in what it returned. A
        trial that fails is left out, and the others go on.

        Called again with the same settings, it goes on where it was, in whatever process and
        after whatever happened to the last one; with more `trials` it is extended.

        Args:
            job: a `wl.Job`, a `wl.JobGroup` or a function decorated with `wl.run`.
            space: what each argument may be: `wl.uniform`, `wl.loguniform`, `wl.randint` or
                `wl.choice`, by name; of a group by role and name: `"learner.lr"`.
            metric: what is looked for, as it is reported: `wl.report(step, val_loss=...)`.
            mode: `"min"` if less is better, or `"max"`.
            method: `"tpe"` learns from what was tried; `"random"` does not; `"grid"` tries every
                combination; `"asha"` tries at random, and ends early what does not keep up.
            trials: how many there are to be in all (50; of a grid, all combinations).
            concurrent: how many run at the same time.
            name: what the search is called: an experiment can have several.
            seed: what chance begins with, for the same suggestions again.
            timeout: how long new trials are begun: `"2h"`. Those that run then are let end.
            args: arguments that are the same in every trial.
            min_steps: of `"asha"`: the step at which trials are first compared.
            reduction: of `"asha"`: of how many trials one goes on, each time.
        """
        from windlass.search.beginning import search

        found = search(
            self._client, self._record, job,
            space=space, metric=metric, mode=mode, method=method, trials=trials,
            concurrent=concurrent, name=name, seed=seed, timeout=timeout, args=args,
            min_steps=min_steps, reduction=reduction,
        )  # fmt: skip
        self.refresh()
        return found

    def best(self, metric: str | None = None, mode: str | None = None) -> Trial[Any]:
        """The trial that came to the best value of a metric; after a search, of what it looked for.

        Only trials that succeeded count, and were not ended early by a search.

        ```python
        exp = wl.get_experiment("tuning")
        print(exp.best("loss", "min").params)
        ```
        """
        from windlass.search.choosing import best

        return best(self, metric, mode)

    def list_trials(
        self,
        *,
        state: str | Sequence[str] | None = None,
        name: str | None = None,
        labels: str | Sequence[str] | None = None,
        user: str | None = None,
        kind: str | Sequence[str] | None = None,
        created_after: Moment | None = None,
        created_before: Moment | None = None,
        where: str | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Trial[Any]]:
        """Its trials, lazily, a page at a time; filtered and sorted as `wl.list_trials` does.

        ```python
        sweep = wl.get_experiment("train")
        for trial in sweep.list_trials(where="hparams.lr >= 0.2", sort_by="-hparams.lr", limit=5):
            print(trial.id, trial.hparams)
        ```
        """
        return list_trials(
            self._transport,
            experiment=self.id, state=state, name=name, labels=labels, user=user, kind=kind,
            created_after=created_after, created_before=created_before, where=where,
            sort_by=sort_by, limit=limit,
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

        if not isinstance(other, Experiment):
            other = self._client.get_experiment(other)
        return diff_experiments(self, other)

    def table(self, metrics: Sequence[str] | str | None = None, sort_by: str | None = None) -> Any:
        """Its trials in a table: parameters that differ, summary metrics, state, duration.

        A data frame of pandas if that is installed, else of polars, else a `wl.Table`. Of a metric
        the last value is told; `metrics=["loss.min"]` chooses another (`max`, `mean`, `count`).
        `sort_by` is a column, or `metrics.loss`, `hparams.lr` and so on as in `wl.list_trials`;
        with a `-` before it, the greatest come first.

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

    def delete(self) -> None:
        """Delete it with all its trials, which have to have ended.

        ```python
        wl.create_experiment("a-mistake").delete()
        ```
        """
        self._transport.ask("DELETE", path_of("experiments", self.id), Deleted)

    def stop(
        self, *, grace: float | str = 10.0, reason: str = "", force: bool = False
    ) -> Experiment:
        """Ask all its trials that go on to stop, auxiliary ones too; see `Trial.stop`.

        ```python
        wl.get_experiment("sweep").stop(reason="a better idea").wait()
        ```
        """
        path = path_of("experiments", self.id, "stop")
        body = StopTrial(grace=seconds_of(grace) or 0.0, reason=reason, force=force)
        self._record = self._transport.ask("POST", path, ExperimentRecord, body=body)
        return self

    @property
    def _client(self) -> Client:
        """What its trials are submitted with."""
        from windlass.client.session import Client

        return Client.over(self._transport)

    def __reduce__(self) -> tuple[Any, ...]:
        """It can be sent along: it arrives as it was, asking the server there."""
        return _revive, (self._record,)


call_methods_after(Experiment, AwaitedExperiment, ExperimentFacts, Described)


def _revive(record: ExperimentRecord) -> Experiment:
    from windlass.client.session import default_client

    return Experiment(default_client().transport, record)
