"""Defines `wl.Client`, whose methods send all requests to one server.

Each method calls a function in `resources`. The functions of the module `windlass`, such as
`wl.get_trial`, are the methods of a default client (windlass/api.py). They share the methods'
docstrings, so the examples in these docstrings call the functions.
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
    """A connection to this machine's embedded server, or to the server at a URL.

    ```python
    client = wl.Client()  # this machine
    client = wl.Client("http://lab:8000", token="...")
    ```

    The functions in the module `windlass`, such as `wl.get_trial`, use a default client.
    """

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        self.transport = Transport(server, token)

    @classmethod
    def over(cls, transport: Transport) -> Client:
        """Return a client that uses an existing connection."""
        client = cls.__new__(cls)
        client.transport = transport
        return client

    # -- trials -------------------------------------------------------------------------

    def get_trial(self, trial_id: int | str) -> Trial[Any]:
        """Return the trial with the given id.

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
        """List the trials that match all filters. Pass `sort_by="-created"` for newest first.

        ```python
        for trial in wl.list_trials(where="hparams.lr < 0.3 and state = 'SUCCEEDED'"):
            print(trial.id, trial.hparams)

        best_first = wl.list_trials(experiment="train", sort_by="metrics.loss.min", limit=10)
        print([trial.id for trial in best_first])
        ```

        The result is an iterator that fetches one page at a time, so it needs little memory. It can
        be iterated once. `list(...)` fetches all trials, and `async for` iterates in asynchronous
        code.

        Args:
            experiment: the experiment, its id or its name. The name may include the project:
                `"vision/train"`. If several experiments have this name, the list contains the
                trials of all of them.
            project: the project, its id or its name, such as `"vision"` or `"lab/vision"`.
            state: one state, or a list of states.
            name: the name of the trials.
            labels: a label or a list of labels. Each listed trial has all of them.
            user: the user who submitted the trials.
            kind: one kind, or a list of kinds: `"job"`, `"external"`, `"command"` or `"shell"`. The
                default is `["job", "external"]`.
            created_after: the earliest time of submission: `"2026-11-16"`, a `datetime`, seconds
                since the epoch, or `"2h"` for two hours ago.
            created_before: the latest time of submission, in the same forms.
            where: a condition such as `"hparams.lr < 0.1 and state = 'FAILED'"`. Compare fields
                with values (`=`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `contains`, `like`), and combine
                comparisons with `and`, `or`, `not` and parentheses. The fields are `hparams.NAME`,
                `metrics.NAME` (the last value, or `.min`, `.max`, `.mean`, `.count`), `id`, `name`,
                `state`, `kind`, `experiment`, `project`, `user`, `labels`, `created`, `started`,
                `ended` and `duration`.
            archived: `False` omits trials of archived experiments, `True` lists only those, and
                `None` lists all trials. With `experiment`, this argument has no effect.
            sort_by: `id`, `name`, `state`, `user`, `created`, `started`, `ended`, `duration`,
                `hparams.NAME` or `metrics.NAME` (`NAME` alone also works). A leading `-` sorts in
                descending order. Trials without the value come last. Naming a value that no trial
                has raises an error.
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
        """Record this process, for example a notebook or another tool's job, as a trial.

        Inside the `with` block, `wl.report`, `wl.save_checkpoint`, `wl.should_stop` and all other
        functions for trials work. The trial succeeds when the block ends, fails if the block raises
        an exception, and stops on Ctrl-C. If the process dies, the trial is marked as lost.

        ```python
        with wl.start_trial("notebook", experiment="try-outs", params={"lr": 0.1}) as trial:
            for step in range(3):
                wl.report(step, loss=1 / (step + 1))
        print(trial.state)
        ```

        Args:
            name: the name of the trial.
            experiment: the trial's experiment, or the experiment's name (default: the trial's
                name).
            params: the parameters to record.
            labels: texts for finding the trial later.
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
        """Return the points that trials reported, for some or all metrics.

        `trials` contains trials or ids. All points are fetched in one request.

        `max_points` limits the number of points per metric and trial, but keeps spikes visible. If
        only some trials have a metric with a given name, the result has no points for the others.
        If all trials have ended and none has reported the name, iterating raises `wl.NotFound`.

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
        """Return a table that compares trials by parameters, metrics, state and duration.

        `trials` contains trials or ids. Parameters that are the same in all trials are left out.
        The table is a pandas data frame, or else a polars data frame, or else a `wl.Table`,
        depending on which package is installed. `metrics`, `sort_by` and the columns are as in
        `Experiment.table`.

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
        """Search the logs of all or some trials for lines that contain a text.

        With `regex=True`, `text` is a regular expression. The result is an iterator that fetches
        one page of lines at a time, ordered by trial. Each line has the attributes `trial_id`,
        `trial_name`, `role`, `replica_index`, `attempt` and `time`.

        `trials` lists the trials to search. Alternatively, filters select them, as in
        `wl.list_trials`. `since` and `until` limit the time of the lines: a datetime, seconds since
        the epoch, or `"10m"` for ten minutes ago.

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
        """List the queued trials in the order in which they will start.

        The list includes running trials that are waiting for capacity to add replicas.

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
        """Create an experiment. Experiments may share a name, but have different ids.

        ```python
        exp = wl.create_experiment("sweep", labels=["paper"], config={"seed": 7})
        exp.add(wl.Job(wl.Command(["echo"])), args={"lr": 0.1})
        ```

        Args:
            name: the name of the experiment.
            project: the experiment's project (default: the project "default").
            labels: texts for finding the experiment later.
            description: a text that describes the experiment.
            config: settings to record, as any JSON object.
            exist_ok: if the project already has an experiment with this name, return that
                experiment. This lets a restarted script continue its experiment.
            wait: if true, the end of a `with` block shows a progress table, waits for all trials,
                and raises `wl.ExperimentFailed` if any of them did not succeed.
            dry_run: if true, only show what would run. Nothing is started, not even the server, and
                `add` returns trials that did not run.
        """
        from windlass.client.resources.experiment.queries import create_experiment

        return create_experiment(
            self.transport, name, project, labels, description, config,
            exist_ok=exist_ok, wait=wait, dry_run=dry_run,
        )  # fmt: skip

    def get_experiment(
        self, id_or_name: int | str, *, project: Project | str | int | None = None
    ) -> Experiment:
        """Return the experiment with the given id or name.

        If several experiments have this name, an error lists their ids.

        The name may include the project (`"vision/train"`) and the workspace
        (`"lab/vision/train"`). Alternatively, pass the project as `project`.

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
        """List the experiments that match all filters. Pass `sort_by="-created"` for newest first.

        ```python
        for experiment in wl.list_experiments(state="SUCCEEDED", sort_by="-created"):
            print(experiment.name, experiment.trial_count)
        ```

        Args:
            project: the project, its id or its name, such as `"vision"` or `"lab/vision"`.
            name: the name of the experiments.
            labels: a label or a list of labels. Each listed experiment has all of them.
            state: one state or a list of states: EMPTY, RUNNING, SUCCEEDED, FAILED, STOPPED.
            user: a user who submitted at least one trial of each listed experiment.
            archived: `False` omits archived experiments and the contents of archived projects.
                `True` lists only those, and `None` lists all experiments.
            sort_by: `id`, `name` or `created`. A leading `-` sorts in descending order.
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
        """Create a workspace. With `exist_ok`, return an existing workspace with this name.

        ```python
        lab = wl.create_workspace("lab", "The people in the basement.", exist_ok=True)
        wl.create_experiment("sweep", project="lab/vision")
        ```
        """
        from windlass.client.resources.workspace import create_workspace

        return create_workspace(self.transport, name, description, exist_ok=exist_ok)

    def get_workspace(self, id_or_name: int | str) -> Workspace:
        """Return the workspace with the given name or id.

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
        """List the workspaces.

        By default, archived workspaces are omitted. `archived=True` lists only those, and
        `archived=None` lists all workspaces.

        ```python
        print([workspace.name for workspace in wl.list_workspaces(sort_by="name")])
        ```
        """
        from windlass.client.resources.workspace import list_workspaces

        return list_workspaces(
            self.transport, name=name, archived=archived, sort_by=sort_by, limit=limit
        )

    def get_project(self, id_or_place: int | str) -> Project:
        """Return the project with the given id or name, such as `vision` or `lab/vision`.

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
        """List the projects of one or all workspaces.

        By default, archived projects are omitted. `archived=True` lists only those, and
        `archived=None` lists all projects.

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
        """Return the checkpoint with this id, or with the uid from `wl.save_checkpoint`.

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
        """List the checkpoints of one or all trials.

        Pass `sort_by="-created"` for newest first. To sort by a metric, use
        `Trial.list_checkpoints`.

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
        """Create a model in the model registry. It has no versions yet.

        Model names are unique on a server.

        ```python
        model = wl.create_model("segmenter", project="vision", labels=["unet"], exist_ok=True)
        print(model.name, model.versions)
        ```

        Args:
            name: the name of the model.
            project: the model's project (default: the project "default").
            description: a text that describes the model.
            labels: texts for finding the model later.
            metadata: a mapping from names to JSON values.
            exist_ok: if a model with this name already exists, return that model.
        """
        from windlass.client.resources.model import create_model

        return create_model(
            self.transport, name, project, description, labels, metadata, exist_ok=exist_ok
        )

    def get_model(self, id_or_name: int | str) -> Model:
        """Return the model with the given name or id.

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
        """List the models that match all filters. With `labels`, list models that have all of them.

        Archived models and the contents of archived projects are omitted. `archived=True` lists
        only those, and `archived=None` lists all models.

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
        """Create a template, a named set of job fields. Invalid fields raise an error.

        The fields are the arguments of `wl.Job` and `wl.run`, such as `cpus`, `memory`,
        `accelerator`, `env`, `packages`, `volumes`, `secrets` (only names), `retries`, `timeout`,
        `replicas`, `framework`, `restart_policy`, `priority` and `labels`.

        ```python
        big = wl.create_template("big", cpus=2, retries=1, labels=["big"])
        print(big.fields)
        big.delete()
        ```
        """
        from windlass.client.resources.template import create_template

        return create_template(self.transport, name, description, fields)

    def get_template(self, id_or_name: int | str) -> Template:
        """Return the template with the given name or id.

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
        """List the templates, one page at a time.

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
        """Run a command on the server's machine, without waiting unless `wait` is true.

        ```python
        run = wl.run_command(["uname", "-s"], wait=True)
        print(run.exit_code, run.output())
        ```

        The command runs in an empty folder, unless an argument selects the code of a trial, an
        experiment or this project. Windlass records the command with its log and exit code, like a
        trial. However, commands appear neither in lists of trials nor in an experiment's state. Use
        `wl.list_commands` to list them.

        Args:
            command: a list of words, or a string that a shell interprets.
            trial: a trial or its id. The command runs in a new copy of the trial's code, with the
                trial's environment.
            experiment: an experiment, its id or its name. Its newest trial takes the place of
                `trial`.
            code: if true, the command runs in a snapshot of this project.
            role: the role whose code and variables to use, if the trial has several roles (default:
                the first role).
            cpus: CPUs to reserve. By default, nothing is reserved, so the command never waits.
            memory: memory to reserve, such as `"4GB"`.
            accelerator: accelerators to reserve, such as `"a100x2"`. The command waits until they
                are free.
            env: environment variables to set.
            secrets: names of this process's environment variables to pass to the command, or a
                mapping from names to values. The values are never recorded.
            timeout: the longest time that the command can run, such as `"10m"`.
            name: the command's name (default: the program's name).
            wait: if true, wait until the command has ended. A failed command raises no error, so
                check `exit_code`.
        """
        from windlass.authoring.prepare.command_and_shell import CommandOptions
        from windlass.client.resources.command import run_command

        options = CommandOptions(
            trial, experiment, code, role, cpus, memory, accelerator, env, secrets, timeout, name
        )
        run = run_command(self, command, options)
        return run.wait() if wait else run

    def get_command(self, command_id: int | str) -> CommandRun:
        """Return the command with the given id.

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
        """List the commands, including finished ones. Pass `sort_by="-id"` for newest first.

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
        """Open a shell on the server's machine, in a trial's code and environment.

        ```python
        shell = wl.open_shell(["/bin/sh"], timeout="1h")
        shell.send("pwd; exit\\n")
        print(shell.wait().exit_code)
        ```

        The call returns without waiting. `shell.attach()` connects this terminal to the shell. The
        shell has a new copy of the trial's code, and the trial's interpreter, packages, variables
        and volumes. Without a trial, the shell starts in an empty folder. Shells appear neither in
        lists of trials nor in an experiment's state. Use `wl.list_shells` to list them.

        Args:
            command: the program to run, as a list of words, or as a string that a shell interprets.
                The default is the user's shell (`$SHELL`).
            trial: a trial or its id. The shell runs in a new copy of the trial's code, with the
                trial's environment.
            experiment: an experiment, its id or its name. Its newest trial takes the place of
                `trial`.
            code: if true, the shell runs in a snapshot of this project.
            role: the role whose code and variables to use, if the trial has several roles (default:
                the first role).
            cpus: CPUs to reserve. By default, nothing is reserved, so the shell never waits.
            memory: memory to reserve, such as `"4GB"`.
            accelerator: accelerators to reserve, such as `"a100x2"`. The shell waits until they are
                free.
            env: environment variables to set.
            secrets: names of this process's environment variables to pass to the shell, or a
                mapping from names to values. The values are never recorded.
            timeout: the longest time that the shell can run, such as `"8h"`. By default there is no
                limit.
            name: the name of the shell.
            terminal: whether the shell has a terminal. Without one, the text that you send becomes
                the shell's standard input.
        """
        from windlass.authoring.prepare.command_and_shell import CommandOptions
        from windlass.client.resources.shell import open_shell

        options = CommandOptions(
            trial, experiment, code, role, cpus, memory, accelerator, env, secrets, timeout, name
        )
        return open_shell(self, command, options, has_terminal=terminal)

    def get_shell(self, shell_id: int | str) -> Shell:
        """Return the shell with the given id.

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
        """List the shells, including closed ones. Pass `sort_by="-id"` for newest first.

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
        """Take a snapshot of the executables' current code and upload it.

        ```python
        [echo] = wl.package([wl.Command(["echo", "hello"])])
        wl.Job(echo).run()
        ```

        Return the packaged executables in the same order. Later edits to the files do not affect
        them. If the server already has the same files, nothing is uploaded, and the snapshot's hash
        (`tree`) is the same.
        """
        from windlass.authoring.prepare.package_code import package

        return package(self, executables)

    def submit(self, draft: Draft) -> Trial[Any]:
        """Submit a prepared trial and return the trial without waiting for it."""
        from windlass.client.connection.submit import submit  # imports all of `packaging`
        from windlass.client.resources.trial.trial import Trial

        return Trial(self.transport, submit(self.transport, draft))

    def submit_all(self, drafts: Sequence[Draft]) -> list[Trial[Any]]:
        """Submit several prepared trials in one request, which creates either all or none."""
        from windlass.client.connection.submit import submit_all
        from windlass.client.resources.trial.trial import Trial

        records = submit_all(self.transport, drafts)
        return [Trial(self.transport, record) for record in records]

    def server_info(self) -> ServerInfo:
        """Return the server's version, home, total capacity and free capacity.

        ```python
        print(wl.server_info().trials_running)
        ```
        """
        from windlass.model.requests import ServerInfo

        return self.transport.ask("GET", "/server", ServerInfo)

    def gc(
        self, *, older_than: float | str = "1h", dry_run: bool = False, set_aside: bool = False
    ) -> GarbageReport:
        """Free disk space by deleting stored content that no record refers to.

        Such content is left over from deleted trials, checkpoints or models.

        ```python
        print(wl.gc(dry_run=True).bytes, "bytes could be freed")
        ```

        Args:
            older_than: the minimum age of the files to delete. Programs upload files shortly before
                they submit a trial, so set this below the default only while nobody submits trials.
            dry_run: if true, report how much could be deleted, but delete nothing.
            set_aside: if true, move folders of trials that are not in the database out of the way.
                Windlass never deletes such folders, because a database restored from a backup does
                not contain the newest trials.
        """
        from windlass.client.arguments.timeouts import parse_timeout
        from windlass.model.requests import CollectGarbage, GarbageReport

        age = parse_timeout(older_than) or 0.0
        body = CollectGarbage(older_than=age, dry_run=dry_run, set_aside=set_aside)
        return self.transport.ask("POST", "/gc", GarbageReport, body=body)


_default: tuple[tuple[str | None, ...], Client] | None = None


def default_client() -> Client:
    """Return the default client, used by the functions of the module `windlass`."""
    global _default
    names = ("WINDLASS_SERVER", "WINDLASS_TOKEN", "WINDLASS_HOME")
    settings = tuple(os.environ.get(name) for name in names)
    if _default is None or _default[0] != settings:
        if _default is not None:
            _default[1].transport.drop_idle()  # idle connections to the previous default server
        _default = (settings, Client())
    return _default[1]
