"""Defines `wl.Experiment`, a named set of trials.

Most methods only delegate to another module of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

from windlass.client.arguments import metadata_checks as checks
from windlass.client.arguments.timeouts import parse_timeout
from windlass.client.arguments.user_calls import users_call
from windlass.client.connection.transport import request_path
from windlass.client.resources.metadata import Described
from windlass.client.resources.trial.list_query import list_trials
from windlass.client.resources.trial.trial import Trial
from windlass.model.errors import WindlassError
from windlass.model.records import ExperimentRecord, Link, count_states
from windlass.model.requests import ChangeExperiment, Deleted, StopTrial

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from typing_extensions import Self

    from windlass.authoring.prepare.add_to_experiment import AddOptions
    from windlass.authoring.public.executables import Executable
    from windlass.authoring.public.jobs import Job, JobGroup
    from windlass.authoring.public.packaged import Packaged
    from windlass.authoring.public.run_decorator import Function
    from windlass.client.arguments.times import Moment
    from windlass.client.client import Client
    from windlass.client.connection.pages import Listing
    from windlass.client.connection.transport import Transport
    from windlass.client.resources.experiment.context_manager import Block
    from windlass.client.resources.stored_files import StoredFile
    from windlass.client.resources.workspace import Project
    from windlass.client.terminal.experiment_progress import Progress
    from windlass.comparison.experiments import ExperimentDiff
    from windlass.model.records import Artifact
    from windlass.search.result import SearchResult

_SETTERS = {
    "name": "set_name(...)",
    "priority": "set_priority(...)",
    "archived": "archive(), or exp.unarchive()",
    "project": "move_to(...)",
    "labels": "set_labels([...]), or exp.add_label(...)",
    "description": "set_description(...)",
    "notes": "set_notes(...)",
    "config": "set_config({...})",
    "links": "add_link(name, url)",
    "artifacts": "add_artifact(name, path)",
}


class Experiment(Described[ExperimentRecord]):
    """A named set of trials.

    ```python
    for trial in wl.get_experiment("train").list_trials(state="SUCCEEDED"):
        print(trial.params)
    ```
    """

    _collection = "experiments"
    _record_type = ExperimentRecord
    _change_type = ChangeExperiment

    def __init__(
        self, transport: Transport, record: ExperimentRecord, *, waits: bool = False
    ) -> None:
        super().__init__(transport, record)
        self._waits = waits  # whether the end of a `with` block waits for all trials
        self._blocks: list[Block] = []
        self._added: list[ref[Trial[Any]]] = []  # the trials added through this object
        self._outdated: ExperimentRecord | None = None  # a record without the newest added trial

    def __setattr__(self, name: str, value: Any) -> None:
        if setter := _SETTERS.get(name):
            raise AttributeError(f"{name} cannot be assigned to. Write: exp.{setter}")
        super().__setattr__(name, value)

    # -- properties ---------------------------------------------------------------------

    @property
    def project(self) -> str:
        """The name of the project that contains the experiment."""
        return self._record.project

    @property
    def trial_count(self) -> int:
        """The number of trials in the experiment."""
        return self._current.trials

    @property
    def states(self) -> dict[str, int]:
        """The number of trials in each state."""
        return self._current.states

    @property
    def state(self) -> str:
        """The state: EMPTY, RUNNING, SUCCEEDED, FAILED or STOPPED.

        It is RUNNING if any trial has not ended, and FAILED if any trial ever failed. `states` has
        the number of trials in each state. Auxiliary trials are ignored.
        """
        return self._current.state.value

    @property
    def priority(self) -> int:
        """The default priority of jobs that are added. Jobs with a higher priority start first."""
        return self._record.priority

    @property
    def archived(self) -> bool:
        """Whether the experiment is archived. Lists omit archived experiments by default."""
        return self._record.archived

    @property
    def config(self) -> dict[str, Any]:
        """Settings that the trials share, or other JSON data about the experiment."""
        return self._record.config

    @property
    def links(self) -> tuple[Link, ...]:
        """The experiment's links, each with `name` and `url`."""
        return self._record.links

    @property
    def artifacts(self) -> tuple[StoredFile, ...]:
        """The experiment's files, each with `name`, `size`, `digest` and `created`."""
        from windlass.client.resources.stored_files import stored_file

        return tuple(map(stored_file, self._record.artifacts))

    # -- building it --------------------------------------------------------------------

    def package(self, executables: Sequence[Executable | Packaged]) -> list[Packaged]:
        """Take a snapshot of the executables' current code and upload it for later jobs.

        ```python
        exp = wl.create_experiment("greetings")
        [echo] = exp.package([wl.Command(["echo", "hello"])])
        exp.add(wl.Job(echo), args=["world"])
        ```

        Return the packaged executables in the same order. Later edits to the files do not affect
        them.
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
        """Start a job as a trial, with its own arguments. The call returns without waiting.

        ```python
        exp = wl.create_experiment("sweep")
        [echo] = exp.package([wl.Command(["echo"])])
        job = wl.Job(echo, args={"epochs": 3}, executor=wl.Local(cpus=0.5))
        for lr in (0.1, 0.01):
            exp.add(job, args={"lr": lr}, identity=f"lr={lr}")
        ```

        Args:
            what: a `wl.Job`, a `wl.JobGroup`, a function decorated with `wl.run`, or a generator. A
                generator is a function `def build(trial, **args)`, sync or async. It runs in this
                process, and adds child trials with `trial.add`.
            args: changes to the job's arguments. A mapping changes arguments by name. A list
                replaces the job's list. If only one of the two is a mapping, both are used. For a
                group, pass a mapping from roles to changes, such as `{"learner": {"lr": 0.1}}`.
            env: changes to the job's environment variables. For a group, pass a mapping from roles
                to changes.
            name: the trial's name (default: the job's name).
            labels: texts for finding the trial later.
            identity: a text that identifies the trial within the experiment. If a trial with the
                same identity exists, `add` returns that trial.
            auxiliary: if true, the trial is stopped when the experiment ends, and its outcome does
                not affect the experiment's state.
        """
        from windlass.authoring.prepare.add_to_experiment import AddOptions

        return self._add(what, AddOptions(args, env, name, labels, identity, auxiliary))

    def add_many(
        self,
        what: Job | JobGroup | Function[..., Any],
        args: Iterable[Mapping[str, Any] | Sequence[Any]],
        *,
        env: Mapping[str, Any] | None = None,
        name: str | None = None,
        labels: Sequence[str] = (),
        identities: Iterable[str] | None = None,
        auxiliary: bool = False,
    ) -> list[Trial[Any]]:
        """Start a job as several trials, each with its own arguments. Return the trials in order.

        The trials are sent in batches, which is many times faster than calling `add` in a loop. The
        server stores up to 500 trials at once, either all of them or none.

        ```python
        exp = wl.create_experiment("grid")
        job = wl.Job(wl.Command(["echo"]), executor=wl.Local(cpus=0.5))
        rates = [0.1, 0.03, 0.01]
        trials = exp.add_many(
            job, [{"lr": lr} for lr in rates], identities=[f"lr={lr}" for lr in rates]
        )
        ```

        Args:
            what: a `wl.Job`, a `wl.JobGroup`, or a function decorated with `wl.run`.
            args: for each trial, changes to the job's arguments, as for `add`.
            env: changes to the job's environment variables, the same for all trials.
            name: the trials' name (default: the job's name).
            labels: texts for finding the trials later.
            identities: for each trial, a text that identifies it within the experiment. If a trial
                with the same identity exists, `add_many` returns that trial.
            auxiliary: if true, the trials are stopped when the experiment ends, and their outcomes
                do not affect the experiment's state.
        """
        from windlass.authoring.prepare.add_to_experiment import AddOptions, add_options

        options = AddOptions(None, env, name, labels, None, auxiliary)
        return self._add_many(what, add_options(options, args, identities))

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
        """Search for the arguments that give the best value of a metric.

        The call returns when all trials have ended.

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

        A trial's value is the last reported value of the metric. If none was reported, the function
        must return the value, either as a number or in a mapping under the metric's name. The
        search ignores failed trials and continues.

        Calling `search` again with the same settings continues an earlier search, even in a new
        process after a crash. Pass a larger number of `trials` to extend a search.

        Args:
            job: a `wl.Job`, a `wl.JobGroup` or a function decorated with `wl.run`.
            space: a mapping from argument names to `wl.uniform`, `wl.loguniform`, `wl.randint` or
                `wl.choice`. For a group, a name includes the role: `"learner.lr"`.
            metric: the name of the metric, such as `"val_loss"` for `wl.report(step,
                val_loss=...)`.
            mode: `"min"` if lower values are better, or `"max"`.
            method: `"tpe"` learns from earlier trials. `"random"` chooses random arguments.
                `"grid"` tries every combination. `"asha"` chooses random arguments and stops weak
                trials early.
            trials: the total number of trials. The default is 50, or all combinations of a grid.
            concurrent: the number of trials that run at the same time.
            name: the name of the search. An experiment can have several searches.
            seed: the seed of the random choices, which makes the search repeatable.
            timeout: the time after which no new trials start, such as `"2h"`. Trials that are
                running by then may finish.
            args: arguments that are the same in every trial.
            min_steps: the step at which `"asha"` first compares trials.
            reduction: after each comparison, `"asha"` lets one in this many trials continue.
        """
        from windlass.search.start import search

        result = search(
            self._client, self._record, job,
            space=space, metric=metric, mode=mode, method=method, trials=trials,
            concurrent=concurrent, name=name, seed=seed, timeout=timeout, args=args,
            min_steps=min_steps, reduction=reduction,
        )  # fmt: skip
        self.refresh()
        return result

    def __enter__(self) -> Self:
        """Build the experiment in a `with` block.

        ```python
        with wl.create_experiment("sweep", wait=True) as exp:
            for lr in (0.1, 0.01):
                exp.add(wl.Job(wl.Command(["echo"])), args={"lr": lr})
        ```

        The end of the block waits for generators and, with `wait=True`, for all trials. It raises
        `wl.LaunchFailed` if a generator failed, or `wl.ExperimentFailed` if a trial did not
        succeed. Ctrl-C ends the block at once, and trials that were already added continue.
        """
        self._new_block().enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._blocks.pop().leave(raised)
            return
        except (WindlassError, KeyboardInterrupt) as error:
            failure = error.with_traceback(None)  # hide Windlass frames from users
        raise failure

    async def __aenter__(self) -> Self:
        """Build the experiment in an `async with` block.

        Async generators that the block adds run on its event loop.

        ```python
        async with wl.create_experiment("sweep") as exp:
            trials = [exp.add(job, args={"lr": lr}) for lr in (0.1, 0.01)]
            print(await asyncio.gather(*trials))
        ```
        """
        await self._new_block().enter_async()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._blocks.pop().leave_async(raised)
            return
        except WindlassError as error:
            failure = error.with_traceback(None)  # hide Windlass frames from users
        raise failure

    # -- waiting and stopping -----------------------------------------------------------

    def wait(self, timeout: float | str | None = None) -> Self:
        """Wait until all trials have ended, showing a progress table in a terminal.

        Auxiliary trials are not waited for. Failed trials raise no error, so check `state` or call
        `list_trials(state="FAILED")`. After `timeout`, `wl.WaitTimeout` is raised. Ctrl-C ends the
        wait, but the trials continue.

        ```python
        experiment = wl.get_experiment("sweep").wait()
        print(experiment.state, experiment.states)
        ```
        """
        from windlass.client.terminal.watch_experiment import ExperimentWait

        waiting = ExperimentWait(self._transport, self._record, parse_timeout(timeout))
        try:
            return self._take_over(waiting.run())
        except (WindlassError, KeyboardInterrupt) as error:
            failure = error.with_traceback(None)  # hide Windlass frames from users
        raise failure

    def __await__(self) -> Generator[Any, None, Self]:
        """Wait until all trials have ended, for `await experiment`."""
        return self._wait_async().__await__()

    async def _wait_async(self) -> Self:
        from windlass.client.connection.async_wait import in_thread
        from windlass.client.terminal.watch_experiment import ExperimentWait

        waiting = ExperimentWait(self._transport, self._record)
        name = f"windlass-wait-experiment-{self.id}"
        return self._take_over(await in_thread(waiting.run, waiting.cut, name))

    def stop(self, *, grace: float | str = 10.0, reason: str = "", force: bool = False) -> Self:
        """Stop all unfinished trials, including auxiliary ones, as `Trial.stop` does.

        ```python
        wl.get_experiment("sweep").stop(reason="a better idea").wait()
        ```
        """
        path = request_path("experiments", self.id, "stop")
        body = StopTrial(grace=parse_timeout(grace) or 0.0, reason=reason, force=force)
        return self._replace(self._transport.ask("POST", path, ExperimentRecord, body=body))

    def delete(self) -> None:
        """Delete the experiment and all its trials, which must have ended.

        ```python
        wl.create_experiment("a-mistake").delete()
        ```
        """
        self._transport.ask("DELETE", self._path, Deleted)

    # -- reading trials -----------------------------------------------------------------

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
        """List the experiment's trials. The arguments are the same as in `wl.list_trials`.

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

    def best(self, metric: str | None = None, mode: str | None = None) -> Trial[Any]:
        """Return the trial with the best value of a metric.

        By default, use the metric and mode of this experiment's search.

        Only successful trials that no search stopped early are considered.

        ```python
        exp = wl.get_experiment("tuning")
        print(exp.best("loss", "min").params)
        ```
        """
        from windlass.search.best_trial import best

        return best(self, metric, mode)

    def table(self, metrics: Sequence[str] | str | None = None, sort_by: str | None = None) -> Any:
        """Return a table of the trials, with differing parameters, metrics, state and duration.

        The table is a pandas data frame, or else a polars data frame, or else a `wl.Table`,
        depending on which package is installed. It contains each metric's last value. The column
        `outcome` has the return values, if they differ and no metric shows them.
        `metrics=["loss.min"]` selects another value (`min`, `max`, `mean` or `count`). `sort_by` is
        a column name, or a sort key of `wl.list_trials` such as `metrics.loss`. A leading `-` sorts
        in descending order.

        ```python
        print(wl.get_experiment("cifar10").table(sort_by="loss"))
        ```
        """
        from windlass.client.resources.comparison import experiment_table

        return experiment_table(self, metrics, sort_by)

    def diff(self, other: Experiment | str | int) -> ExperimentDiff:
        """Return the differences between this experiment and `other`.

        `other` is an experiment, its id or its name. The comparison covers configurations, labels,
        descriptions, parameters and metrics. For code and environment, it compares the newest
        trials of the two experiments.

        ```python
        print(wl.get_experiment("cifar10").diff("cifar10-deeper"))
        ```
        """
        from windlass.client.resources.comparison import diff_experiments

        if not isinstance(other, Experiment):
            other = self._client.get_experiment(other)
        return diff_experiments(self, other)

    def download_code(self, folder: str | os.PathLike[str]) -> Path:
        """Write the trials' code to a folder and return the folder's path.

        The folder is created if needed. If the trials ran different versions of the code, each
        version gets a sub-folder, and the file `TRIALS.txt` lists each version's trials.

        ```python
        wl.get_experiment("cifar10").download_code("code-of-cifar10")
        ```
        """
        from windlass.client.resources.comparison import ordinary_records
        from windlass.client.resources.download import download_experiment

        return download_experiment(self._transport, self.name, ordinary_records(self), folder)

    # -- changing settings --------------------------------------------------------------

    def set_priority(self, priority: int) -> Self:
        """Change the priority of queued trials and of jobs added later.

        A job with a priority of its own, other than 0, keeps it. The priority has no effect on
        trials in pods, for which Kubernetes uses `priority_class=` of `wl.Kubernetes`.

        ```python
        wl.get_experiment("train").set_priority(10)
        ```
        """
        return self._change(priority=checks.check_priority(priority))

    def archive(self) -> Self:
        """Archive the experiment, so that lists omit it and its trials by default.

        Running trials continue. A new trial with this experiment name creates a new experiment.

        ```python
        experiment = wl.get_experiment("train").archive()
        assert experiment.id in [archived.id for archived in wl.list_experiments(archived=True)]
        experiment.unarchive()
        ```
        """
        return self._change(archived=True)

    def unarchive(self) -> Self:
        """Undo `archive`, so that lists include the experiment again."""
        return self._change(archived=False)

    def move_to(self, project: Project | str) -> Self:
        """Move the experiment to another project, which is created if needed.

        ```python
        wl.get_experiment("train").move_to("vision")
        ```
        """
        return self._change(project=checks.check_place(project))

    def set_config(self, config: Mapping[str, Any]) -> Self:
        """Replace the settings in `config`. The new settings must be JSON data.

        ```python
        wl.get_experiment("train").set_config({"dataset": "v3", "layers": [64, 32]})
        ```
        """
        return self._change(config=checks.check_config(config))

    def add_link(self, name: str, url: str) -> Self:
        """Add a link to the experiment, or replace the link with the same name.

        ```python
        wl.get_experiment("train").add_link("paper", "https://arxiv.org/abs/1412.6980")
        ```
        """
        return self._change(put_links={checks.check_name("link", name): checks.check_url(url)})

    def remove_link(self, name: str) -> Self:
        """Remove a link from the experiment by name.

        ```python
        wl.get_experiment("train").remove_link("paper")
        ```
        """
        checks.find_named("link", name, self.refresh().links)
        return self._change(remove_links=(name,))

    def add_artifact(self, name: str, path: str | os.PathLike[str]) -> Self:
        """Store a copy of a file with the experiment.

        The copy replaces any older file with the same name.

        ```python
        from pathlib import Path

        Path("curve.csv").write_text("step,loss\\n1,0.5\\n")
        wl.get_experiment("train").add_artifact("curve.csv", "curve.csv")
        ```
        """
        from windlass.client.resources.experiment.files import keep_file

        checks.check_file_name(name)
        return keep_file(
            self._transport, path, lambda digest: self._change(put_artifacts={name: digest})
        )

    def download_artifact(self, name: str, directory: str | os.PathLike[str] = ".") -> Path:
        """Write a stored file to a folder and return the new file's path.

        The folder is created if needed.

        ```python
        experiment = wl.get_experiment("train").add_artifact("notes.md", __file__)
        print(experiment.download_artifact("notes.md", "downloads").stat().st_size)
        ```
        """
        from windlass.client.resources.experiment.files import fetch_file

        artifact: Artifact = checks.find_named("artifact", name, self.refresh().record.artifacts)
        checks.check_file_name(artifact.name)  # the name must not lead to another folder
        return fetch_file(self._transport, artifact, Path(directory))

    def remove_artifact(self, name: str) -> Self:
        """Remove a stored file from the experiment by name.

        ```python
        experiment = wl.get_experiment("train").add_artifact("notes.md", __file__)
        experiment.remove_artifact("notes.md")
        ```
        """
        checks.find_named("artifact", name, self.refresh().artifacts)
        return self._change(remove_artifacts=(name,))

    # -- internals ----------------------------------------------------------------------

    def _add(self, what: Any, wish: AddOptions) -> Trial[Any]:
        from windlass.authoring.prepare.add_to_experiment import add

        trial = add(self, self._client, what, wish)
        self._added.append(ref(trial))
        self._outdated = self._record
        return trial

    def _add_many(self, what: Any, options: Sequence[AddOptions]) -> list[Trial[Any]]:
        from windlass.authoring.prepare.add_to_experiment import add_jobs

        trials = add_jobs(self._client, self._record, what, options) if options else []
        self._added.extend(map(ref, trials))
        self._outdated = self._record
        return trials

    @property
    def _client(self) -> Client:
        """The client that submits trials to this experiment."""
        from windlass.client.client import Client

        return Client.over(self._transport)

    @property
    def _current(self) -> ExperimentRecord:
        """The experiment's record, including all trials added through this object.

        If the cached record lacks some of these trials, it is fetched again.
        """
        return self.refresh().record if self._record is self._outdated else self._record

    def _take_over(self, progress: Progress) -> Self:
        """Update the records of this experiment and its added trials from an event stream."""
        for reference in tuple(self._added):
            trial = reference()
            if trial is not None and trial.id in progress.trials and not trial.is_finished:
                trial._replace(progress.trials[trial.id])
        return self._replace(progress.experiment)

    def _new_block(self) -> Block:
        from windlass.client.resources.experiment.context_manager import Block

        self._blocks.append(Block(self, self._transport, waits=self._waits))
        return self._blocks[-1]

    def __repr__(self) -> str:
        if self._record is self._outdated:
            return f"<Experiment {self.id} {self.name}>"  # a repr must not send requests
        many = "1 trial" if self.trial_count == 1 else f"{self.trial_count} trials"
        counts = f" ({count_states(self.states)})" if self.trial_count else ""
        return f"<Experiment {self.id} {self.name}: {many}{counts}>"

    def _repr_html_(self) -> str | None:
        from windlass.client.resources.notebook_html import experiment_html

        is_outdated = self._record is self._outdated
        return experiment_html(self._transport, self._record, is_outdated=is_outdated)
