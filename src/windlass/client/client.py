"""`wl.Client`: the connection to one server, with everything that can be requested from it.

Each method is a short call of a function in `resources`, which takes the connection. The functions
of the module `windlass` are these methods, of the default client (windlass/api.py): a docstring
here serves both, and its examples call the functions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windlass.client.arguments.user_calls import users_call
from windlass.client.connection.transport import Transport

if TYPE_CHECKING:
    from windlass.authoring.public.executables import Executable
    from windlass.authoring.public.packaged import Packaged
    from windlass.client.arguments.times import Moment
    from windlass.client.connection.pages import Listing
    from windlass.client.resources.checkpoint import Checkpoint
    from windlass.client.resources.command import CommandRun
    from windlass.client.resources.experiment.experiment import Experiment
    from windlass.client.resources.model import Model
    from windlass.client.resources.shell import Shell
    from windlass.client.resources.template import Template
    from windlass.client.resources.trial.external import ExternalTrial
    from windlass.client.resources.trial.logs.lines import LogLines
    from windlass.client.resources.trial.metrics import Metrics
    from windlass.client.resources.trial.queue import QueueEntry
    from windlass.client.resources.trial.trial import Trial
    from windlass.client.resources.workspace import Project, Workspace
    from windlass.model.requests import GarbageReport, ServerInfo
    from windlass.packaging.draft import Draft


class Client:
    """A connection to a server: the embedded server of this home, or the one at a URL.

    ```python
    client = wl.Client()  # this machine
    client = wl.Client("http://lab:8000", token="...")
    ```

    The functions of the module (`wl.get_trial`, ...) are the methods of a client of this home.
    """

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self.transport = Transport(server, token)

    @classmethod
    def over(cls, transport: Transport) -> Client:
        """A client on an existing connection."""
        client = cls.__new__(cls)
        client.transport = transport
        return client

    # -- trials -------------------------------------------------------------------------

    def get_trial(self, trial_id: int | str) -> Trial[Any]:
        """The trial with that id.

        ```python
        print(wl.get_trial(3).result())
        ```
        """
        from windlass.client.resources.trial.list_query import find_trial

        return find_trial(self.transport, trial_id)

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

        The list can be iterated once, in constant memory. `list(...)` fetches all trials, and
        `async for` iterates in asynchronous code.

        Args:
            experiment: the experiment, its id or its name, also `"vision/train"`; if several have
                that name, the trials of all of them.
            project: the project, its id or its name: `"vision"`, or `"lab/vision"`.
            state: one state, or several.
            name: the name of the trials.
            labels: labels, all of which the trials have.
            user: the user who submitted them.
            kind: one kind, or several. By default the list has `"job"` and `"external"`; others
                are `"command"` and `"shell"`.
            created_after: the earliest time of submission: `"2026-11-16"`, a `datetime`, seconds
                since the epoch, or `"2h"` for so long ago.
            created_before: the latest time of submission, likewise.
            where: a condition: comparisons (`=`, `!=`, `<`, `<=`, `>`, `>=`, `in`,
                `contains`, `like`) of `hparams.NAME`, `metrics.NAME` (the last value, or `.min`,
                `.max`, `.mean`, `.count`), `id`, `name`, `state`, `kind`, `experiment`,
                `project`, `user`, `labels`, `created`, `started`, `ended` and `duration`, joined
                with `and`, `or`, `not` and parentheses.
            archived: whether to list trials of archived experiments: `True` for only these,
                `None` for all. With `experiment` it does not matter.
            sort_by: `id`, `name`, `state`, `user`, `created`, `started`, `ended`, `duration`,
                `hparams.NAME` or `metrics.NAME` (also `NAME` alone); with a `-` before it,
                downwards. Trials without a value come last; a name that no trial has is refused.
            limit: the maximum number of trials.
        """
        from windlass.client.resources.trial.list_query import list_trials

        return list_trials(
            self.transport,
            experiment=experiment, project=project, state=state, name=name, labels=labels,
            user=user, kind=kind, created_after=created_after, created_before=created_before,
            where=where, archived=archived if experiment is None else None, sort_by=sort_by,
            limit=limit,
        )  # fmt: skip

    @users_call("wl.start_trial")
    def start_trial(
        self,
        name: str,
        *,
        experiment: str | Experiment | None = None,
        params: Mapping[str, Any] | None = None,
        labels: Sequence[str] = (),
    ) -> ExternalTrial:
        """Record this process as a trial: a notebook, or a program that another tool started.

        Until it is finished, `wl.report`, `wl.save_checkpoint`, `wl.should_stop` and all else that
        works inside a trial works here. At the end of the block it has succeeded; an exception
        fails it, Ctrl-C stops it, and if the process dies, the trial is marked as lost.

        ```python
        with wl.start_trial("notebook", experiment="try-outs", params={"lr": 0.1}) as trial:
            for step in range(3):
                wl.report(step, loss=1 / (step + 1))
        print(trial.state)
        ```

        Args:
            name: the name of the trial.
            experiment: the experiment it belongs to, or its name; by default one with the name of
                the trial.
            params: its parameters, to be recorded.
            labels: texts to find it by.
        """
        from windlass.client.resources.trial.external import start

        return start(self.transport, name, experiment, params, labels)

    def get_metrics(
        self,
        trials: Iterable[Trial[Any] | int] | Trial[Any] | int,
        names: Sequence[str] | str | None = None,
        *,
        group: str | None = None,
        max_points: int | None = None,
    ) -> Metrics:
        """The points that some trials (or ids) reported, of some metrics or of all, in one request.

        `max_points` limits the points of each metric of each trial, and keeps spikes. A trial that
        lacks one of the names is left out of it; if all trials have ended and none has the name,
        iterating raises `wl.NotFound`.

        ```python
        curves = wl.get_metrics([1, 2, 3], "loss", max_points=500).to_pandas()
        print(curves.groupby("trial")["value"].min())
        ```
        """
        from windlass.client.resources.trial.metrics import metrics_of_trials

        return metrics_of_trials(self.transport, trials, names, group=group, max_points=max_points)

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
        from windlass.client.resources.comparison import compare

        return compare(self.transport, trials, metrics=metrics, sort_by=sort_by)

    def search_logs(
        self,
        text: str,
        *,
        regex: bool = False,
        trials: Iterable[Trial[Any] | int] | None = None,
        experiment: Experiment | str | int | None = None,
        project: Project | str | int | None = None,
        state: str | list[str] | None = None,
        name: str | None = None,
        labels: str | Sequence[str] | None = None,
        where: str | None = None,
        role: str | None = None,
        index: int | None = None,
        attempt: int | None = None,
        stream: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> LogLines:
        """Lines that contain a text, of all trials or of some, lazily, a page at a time.

        With `regex=True`, lines that match an expression. They come by trial, each with its
        `trial_id`, `trial_name`, `role`, `replica_index`, `attempt` and `time`. `trials` lists the
        trials to search, or filters select them as in `wl.list_trials`, also with `where`; `since`
        and `until` are datetimes, seconds since the epoch, or `"10m"` (ago).

        ```python
        for line in wl.search_logs("CUDA out of memory", state="FAILED", since="1d"):
            print(line.trial_id, line.role, line.time, line)
        print(wl.search_logs("loss=(nan|inf)", regex=True, where="hparams.lr > 0.1").count())
        ```
        """
        from windlass.client.arguments.filters import filter_query
        from windlass.client.resources.trial.logs.pages import filters
        from windlass.client.resources.trial.logs.read_log import check_search_text, search_logs

        lines = filters(
            search=check_search_text(text), regex=regex, stream=stream, role=role, index=index,
            attempt=attempt, since=since, until=until,
        )  # fmt: skip
        selected = filter_query(
            experiment=experiment, project=project, state=state, name=name, labels=labels,
            where=where,
        )  # fmt: skip
        return search_logs(self.transport, {**lines, **selected}, trials, limit)

    def list_queue(self, *, limit: int | None = None) -> Listing[QueueEntry]:
        """The queued trials, the next to start first; lazily, a page at a time.

        Running trials that wait for capacity to grow are among them.

        ```python
        for entry in wl.list_queue():
            print(entry.position, entry.trial.id, entry.why)
        ```
        """
        from windlass.client.resources.trial.queue import list_queue

        return list_queue(self.transport, limit)

    # -- experiments --------------------------------------------------------------------

    @users_call("wl.create_experiment")
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
        dry_run: bool = False,
    ) -> Experiment:
        """Create an experiment. Another of the same name may exist: their ids differ.

        ```python
        exp = wl.create_experiment("sweep", labels=["paper"], config={"seed": 7})
        exp.add(wl.Job(wl.Command(["echo"])), args={"lr": 0.1})
        ```

        Args:
            name: the name of the experiment.
            project: the project it belongs to ("default").
            labels: texts to find it by.
            description: a text that says what it is about.
            config: its settings, to be recorded: any JSON.
            exist_ok: whether to return the experiment of that name in the project, if there is
                one: a script that is started again continues it.
            wait: whether the end of a `with` block waits for its trials, too, with a progress
                table, and raises `wl.ExperimentFailed` if some did not succeed.
            dry_run: whether to show what would run, and start nothing, not even the server:
                `add` then returns trials that did not run.
        """
        from windlass.client.resources.experiment.queries import create_experiment

        return create_experiment(
            self.transport, name, project, labels, description, config,
            exist_ok=exist_ok, wait=wait, dry_run=dry_run,
        )  # fmt: skip

    def get_experiment(
        self, id_or_name: int | str, *, project: Project | str | int | None = None
    ) -> Experiment:
        """The experiment with that id or name; a name that several have is refused with their ids.

        A name can include the project, `"vision/train"`, and the workspace, `"lab/vision/train"`;
        or pass the `project`.

        ```python
        print(wl.get_experiment("train").states)
        ```
        """
        from windlass.client.resources.experiment.queries import get_experiment

        return get_experiment(self.transport, id_or_name, project)

    def list_experiments(
        self,
        *,
        project: Project | str | int | None = None,
        name: str | None = None,
        labels: str | Sequence[str] | None = None,
        state: str | Sequence[str] | None = None,
        user: str | None = None,
        archived: bool | None = False,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Experiment]:
        """Experiments that match, lazily, a page at a time; `sort_by="-created"` is newest first.

        ```python
        for experiment in wl.list_experiments(state="SUCCEEDED", sort_by="-created"):
            print(experiment.name, experiment.trial_count)
        ```

        Args:
            project: the project, its id or its name: `"vision"`, or `"lab/vision"`.
            name: the name of the experiments.
            labels: labels, all of which the experiments have.
            state: one state, or several: EMPTY, RUNNING, SUCCEEDED, FAILED, STOPPED.
            user: a user who submitted at least one of their trials.
            archived: whether to list archived experiments, and those of archived projects: `True`
                for only these, `None` for all.
            sort_by: `id`, `name` or `created`; with a `-` before it, downwards.
            limit: the maximum number of experiments.
        """
        from windlass.client.resources.experiment.queries import list_experiments

        return list_experiments(
            self.transport,
            project=project, name=name, labels=labels, state=state, user=user, archived=archived,
            sort_by=sort_by, limit=limit,
        )  # fmt: skip

    # -- workspaces and projects --------------------------------------------------------

    @users_call("wl.create_workspace")
    def create_workspace(
        self, name: str, description: str = "", *, exist_ok: bool = False
    ) -> Workspace:
        """Create a workspace; with `exist_ok`, return the one of that name if there is one.

        ```python
        lab = wl.create_workspace("lab", "The people in the basement.", exist_ok=True)
        wl.create_experiment("sweep", project="lab/vision")
        ```
        """
        from windlass.client.resources.workspace import create_workspace

        return create_workspace(self.transport, name, description, exist_ok=exist_ok)

    def get_workspace(self, id_or_name: int | str) -> Workspace:
        """The workspace with that name or id.

        ```python
        print(wl.get_workspace("default").project_count)
        ```
        """
        from windlass.client.resources.workspace import get_workspace

        return get_workspace(self.transport, id_or_name)

    def list_workspaces(
        self,
        *,
        name: str | None = None,
        archived: bool | None = False,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Workspace]:
        """Workspaces, lazily; without archived ones, unless `archived` is True or None.

        ```python
        print([workspace.name for workspace in wl.list_workspaces(sort_by="name")])
        ```
        """
        from windlass.client.resources.workspace import list_workspaces

        return list_workspaces(
            self.transport, name=name, archived=archived, sort_by=sort_by, limit=limit
        )

    def get_project(self, id_or_place: int | str) -> Project:
        """The project with that id or name: `vision`, or `lab/vision`.

        ```python
        print(wl.get_project("default").experiment_count)
        ```
        """
        from windlass.client.resources.workspace import get_project

        return get_project(self.transport, id_or_place)

    def list_projects(
        self,
        *,
        workspace: Workspace | str | int | None = None,
        name: str | None = None,
        archived: bool | None = False,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Project]:
        """Projects of one workspace or of all, lazily; `archived` as for workspaces.

        ```python
        for project in wl.list_projects(workspace="default"):
            print(project.place, project.experiment_count)
        ```
        """
        from windlass.client.resources.workspace import list_projects

        return list_projects(
            self.transport,
            workspace=workspace, name=name, archived=archived, sort_by=sort_by, limit=limit,
        )  # fmt: skip

    # -- checkpoints, models, templates -------------------------------------------------

    def get_checkpoint(self, checkpoint_id: int | str) -> Checkpoint:
        """The checkpoint with that id, or with the uid that `wl.save_checkpoint` returned.

        ```python
        print(wl.get_checkpoint(1).step)
        ```
        """
        from windlass.client.resources.checkpoint import get_checkpoint

        return get_checkpoint(self.transport, checkpoint_id)

    def list_checkpoints(
        self,
        *,
        trial: Trial[Any] | int | str | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Checkpoint]:
        """Checkpoints of one trial or of all, lazily; `sort_by="-created"` is newest first.

        The checkpoints of a trial can also be sorted by a metric: see `Trial.list_checkpoints`.

        ```python
        for checkpoint in wl.list_checkpoints(sort_by="-size", limit=5):
            print(checkpoint.trial_id, checkpoint.size)
        ```
        """
        from windlass.client.resources.checkpoint import list_checkpoints

        return list_checkpoints(self.transport, trial, sort_by, limit)

    @users_call("wl.create_model")
    def create_model(
        self,
        name: str,
        project: str | None = None,
        description: str = "",
        labels: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        *,
        exist_ok: bool = False,
    ) -> Model:
        """Create a model in the model registry, without versions. Its name is unique on a server.

        ```python
        model = wl.create_model("segmenter", project="vision", labels=["unet"], exist_ok=True)
        print(model.name, model.versions)
        ```

        Args:
            name: the name of the model.
            project: the project it belongs to ("default").
            description: a text that says what it is about.
            labels: texts to find it by.
            metadata: JSON values by name.
            exist_ok: whether to return the model of that name, if there is one.
        """
        from windlass.client.resources.model import create_model

        return create_model(
            self.transport, name, project, description, labels, metadata, exist_ok=exist_ok
        )

    def get_model(self, id_or_name: int | str) -> Model:
        """The model with that name or id.

        ```python
        wl.create_model("classifier", exist_ok=True)
        print(wl.get_model("classifier").latest)
        ```
        """
        from windlass.client.resources.model import get_model

        return get_model(self.transport, id_or_name)

    def list_models(
        self,
        *,
        project: Project | str | int | None = None,
        name: str | None = None,
        labels: str | Sequence[str] | None = None,
        archived: bool | None = False,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Model]:
        """Models that match, lazily, a page at a time; with `labels`, models that have them all.

        Archived models, and those of archived projects, are left out; `archived=True` lists only
        these, `None` all.

        ```python
        for model in wl.list_models(sort_by="name"):
            print(model.name, model.versions, model.aliases)
        ```
        """
        from windlass.client.resources.model import list_models

        return list_models(
            self.transport,
            project=project, name=name, labels=labels, archived=archived, sort_by=sort_by,
            limit=limit,
        )  # fmt: skip

    def create_template(self, /, name: str, *, description: str = "", **fields: Any) -> Template:
        """Create a template: a name for some fields of jobs. Invalid fields are refused now.

        The fields are those of `wl.Job` and `wl.run`: `cpus`, `memory`, `accelerator`, `env`,
        `packages`, `volumes`, `secrets` (names alone), `retries`, `timeout`, `replicas`,
        `framework`, `restart_policy`, `priority`, `labels` and so on.

        ```python
        big = wl.create_template("big", cpus=2, retries=1, labels=["big"])
        print(big.fields)
        big.delete()
        ```
        """
        from windlass.client.resources.template import create_template

        return create_template(self.transport, name, description, fields)

    def get_template(self, id_or_name: int | str) -> Template:
        """The template with that name or id.

        ```python
        wl.create_template("tiny", cpus=0.1)
        print(wl.get_template("tiny").fields)
        wl.get_template("tiny").delete()
        ```
        """
        from windlass.client.resources.template import get_template

        return get_template(self.transport, id_or_name)

    def list_templates(
        self, *, name: str | None = None, sort_by: str = "id", limit: int | None = None
    ) -> Listing[Template]:
        """Templates, lazily, a page at a time.

        ```python
        for template in wl.list_templates(sort_by="name"):
            print(template.name, template.fields)
        ```
        """
        from windlass.client.resources.template import list_templates

        return list_templates(self.transport, name=name, sort_by=sort_by, limit=limit)

    # -- commands and shells ------------------------------------------------------------

    @users_call("wl.run_command")
    def run_command(
        self,
        command: Sequence[str] | str,
        *,
        trial: Trial[Any] | int | None = None,
        experiment: Experiment | int | str | None = None,
        code: bool = False,
        role: str | None = None,
        cpus: float | None = None,
        memory: str | int | None = None,
        accelerator: str | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Sequence[str] | Mapping[str, str] | None = None,
        timeout: str | float | None = None,
        name: str | None = None,
        wait: bool = False,
    ) -> CommandRun:
        """Run a command on the server's machine, beside the trials; returns at once.

        ```python
        run = wl.run_command(["uname", "-s"], wait=True)
        print(run.exit_code, run.output())
        ```

        It runs in an empty folder, unless an argument selects some code. It is recorded like a
        trial, with its log and its exit code, but lists of trials and the state of an experiment
        leave it out: see `wl.list_commands`.

        Args:
            command: a list of words, or a text: a line for the shell.
            trial: the trial, or its id, in a fresh copy of whose code and environment it runs.
            experiment: the experiment, its id or name, in whose newest trial's code it runs.
            code: whether it runs in a snapshot of this project.
            role: for a trial with several roles: the role whose code and variables it uses (the
                first).
            cpus: CPUs to reserve for it. By default nothing is reserved, so that it starts at once.
            memory: memory to reserve for it: `"4GB"`.
            accelerator: accelerators to reserve for it: `"a100x2"`. It waits until they are free.
            env: variables for its environment.
            secrets: names of variables to take from here, or a mapping; never recorded.
            timeout: how long it may run: `"10m"`.
            name: its name (the program).
            wait: whether to return when it has ended. A failure is not raised: see `exit_code`.
        """
        from windlass.authoring.prepare.command_and_shell import CommandOptions
        from windlass.client.resources.command import run_command

        options = CommandOptions(
            trial, experiment, code, role, cpus, memory, accelerator, env, secrets, timeout, name
        )
        run = run_command(self, command, options)
        return run.wait() if wait else run

    def get_command(self, command_id: int | str) -> CommandRun:
        """The command with that id.

        ```python
        run = wl.run_command(["true"])
        print(wl.get_command(run.id).wait().exit_code)
        ```
        """
        from windlass.client.resources.command import CommandRun
        from windlass.client.resources.list_by_kind import get_by_kind

        return get_by_kind(self.transport, CommandRun, command_id)

    def list_commands(
        self,
        *,
        state: str | list[str] | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[CommandRun]:
        """Commands, finished ones too, lazily, a page at a time; `sort_by="-id"` is newest first.

        ```python
        for run in wl.list_commands(state="RUNNING"):
            run.stop()
        ```
        """
        from windlass.client.resources.command import CommandRun
        from windlass.client.resources.list_by_kind import list_by_kind

        return list_by_kind(self.transport, CommandRun, state, sort_by, limit)

    @users_call("wl.open_shell")
    def open_shell(
        self,
        command: Sequence[str] | str | None = None,
        *,
        trial: Trial[Any] | int | None = None,
        experiment: Experiment | int | str | None = None,
        code: bool = False,
        role: str | None = None,
        cpus: float | None = None,
        memory: str | int | None = None,
        accelerator: str | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Sequence[str] | Mapping[str, str] | None = None,
        timeout: str | float | None = None,
        name: str | None = None,
        terminal: bool = True,
    ) -> Shell:
        """Open a shell on the server's machine, in a trial's code and environment; returns at once.

        ```python
        shell = wl.open_shell(["/bin/sh"], timeout="1h")
        shell.send("pwd; exit\\n")
        print(shell.wait().exit_code)
        ```

        `shell.attach()` connects this terminal to it. It has a fresh copy of the code, the trial's
        interpreter, packages, variables and volumes. Without a trial it starts in an empty folder.
        Lists of trials and the state of an experiment leave it out: see `wl.list_shells`.

        Args:
            command: the program (`$SHELL`): a list of words, or a text: a line for the shell.
            trial: the trial, or its id, in whose code and environment it runs.
            experiment: the experiment, its id or name, in whose newest trial's code it runs.
            code: whether it runs in a snapshot of this project.
            role: for a trial with several roles: the role whose code and variables it uses (the
                first).
            cpus: CPUs to reserve for it. By default nothing is reserved, so that it starts at once.
            memory: memory to reserve for it: `"4GB"`.
            accelerator: accelerators to reserve for it: `"a100x2"`. It waits until they are free.
            env: variables for its environment.
            secrets: names of variables to take from here, or a mapping; never recorded.
            timeout: how long it may live: `"8h"`. Without, until it exits or is killed.
            name: its name.
            terminal: whether it has a terminal. Without, the text that is sent is its plain input.
        """
        from windlass.authoring.prepare.command_and_shell import CommandOptions
        from windlass.client.resources.shell import open_shell

        options = CommandOptions(
            trial, experiment, code, role, cpus, memory, accelerator, env, secrets, timeout, name
        )
        return open_shell(self, command, options, has_terminal=terminal)

    def get_shell(self, shell_id: int | str) -> Shell:
        """The shell with that id.

        ```python
        shell = wl.open_shell(["/bin/sh"])
        print(wl.get_shell(shell.id).kill().state)
        ```
        """
        from windlass.client.resources.list_by_kind import get_by_kind
        from windlass.client.resources.shell import Shell

        return get_by_kind(self.transport, Shell, shell_id)

    def list_shells(
        self,
        *,
        state: str | list[str] | None = None,
        sort_by: str = "id",
        limit: int | None = None,
    ) -> Listing[Shell]:
        """Shells, closed ones too, lazily, a page at a time; `sort_by="-id"` is newest first.

        ```python
        for shell in wl.list_shells(state="RUNNING"):
            print(shell.id, shell.command)
        ```
        """
        from windlass.client.resources.list_by_kind import list_by_kind
        from windlass.client.resources.shell import Shell

        return list_by_kind(self.transport, Shell, state, sort_by, limit)

    # -- code, and the server itself ----------------------------------------------------

    def package(self, executables: Sequence[Executable | Packaged]) -> list[Packaged]:
        """Snapshot the code of executables now and upload it; the result has their order.

        ```python
        [echo] = wl.package([wl.Command(["echo", "hello"])])
        wl.Job(echo).run()
        ```

        Later edits of the files are not part of it. A tree that the server has already is not sent
        again, and has the same hash (`tree`).
        """
        from windlass.authoring.prepare.package_code import package

        return package(self, executables)

    def submit(self, draft: Draft) -> Trial[Any]:
        """Send a draft and return its trial at once."""
        from windlass.client.connection.submit import submit  # with all of packaging
        from windlass.client.resources.trial.trial import Trial

        return Trial(self.transport, submit(self.transport, draft))

    def submit_all(self, drafts: Sequence[Draft]) -> list[Trial[Any]]:
        """Send drafts of one plan in one request, which creates all of their trials or none."""
        from windlass.client.connection.submit import submit_all
        from windlass.client.resources.trial.trial import Trial

        records = submit_all(self.transport, drafts)
        return [Trial(self.transport, record) for record in records]

    def server_info(self) -> ServerInfo:
        """The server: its version, home, the capacity of its machine and the free capacity.

        ```python
        print(wl.server_info().trials_running)
        ```
        """
        from windlass.model.requests import ServerInfo

        return self.transport.ask("GET", "/server", ServerInfo)

    def gc(
        self, *, older_than: float | str = "1h", dry_run: bool = False, set_aside: bool = False
    ) -> GarbageReport:
        """Free the space of unreferenced files: the contents of deleted trials and models.

        ```python
        print(wl.gc(dry_run=True).bytes, "bytes could be freed")
        ```

        Args:
            older_than: the minimum age of a file, since a program may have uploaded files that it
                is about to use. Use less than the default only while nobody else submits.
            dry_run: whether only to report what would be freed.
            set_aside: whether to move the folders of trials that the database does not know out
                of the way. They are never deleted: an older database that was restored does not
                know the newest trials.
        """
        from windlass.client.arguments.timeouts import parse_timeout
        from windlass.model.requests import CollectGarbage, GarbageReport

        age = parse_timeout(older_than) or 0.0
        body = CollectGarbage(older_than=age, dry_run=dry_run, set_aside=set_aside)
        return self.transport.ask("POST", "/gc", GarbageReport, body=body)


_default: tuple[tuple[str | None, ...], Client] | None = None


def default_client() -> Client:
    """The client that the functions of the module use: one per server."""
    global _default
    names = ("WINDLASS_SERVER", "WINDLASS_TOKEN", "WINDLASS_HOME")
    settings = tuple(os.environ.get(name) for name in names)
    if _default is None or _default[0] != settings:
        if _default is not None:
            _default[1].transport.drop_idle()  # they belong to another server, and would stay open
        _default = (settings, Client())
    return _default[1]
