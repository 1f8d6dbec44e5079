"""Jobs and job groups: plain values that users build and submit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from windlass.authoring.checks.options import IS_TRIAL, suggest_fields
from windlass.model.errors import InvalidArgument, WindlassError, shown

if TYPE_CHECKING:
    from windlass.authoring.public.executables import Arguments, Executable
    from windlass.authoring.public.executors import Executor
    from windlass.authoring.public.packaged import Packaged
    from windlass.client.client import Client
    from windlass.client.resources.trial.trial import Trial


@dataclass(frozen=True, kw_only=True, repr=False)
class JobBase:
    """The fields that a job has once, however many roles it has."""

    framework: str | None = None
    restart_scope: str | None = None
    backoff_limit: int | None = None
    stop_on_repeat: bool | None = None
    active_deadline: str | float | None = None
    ttl_after_finished: str | float | None = None
    clean_policy: str | None = None
    success_policy: str | None = None
    priority: int | None = None
    suspend: bool = False
    name: str | None = None
    experiment: str | None = None
    packages: Sequence[str] | str | None = None
    secrets: Sequence[str] | Mapping[str, str] | None = field(default=None, repr=False)
    volumes: Mapping[str, str | os.PathLike[str]] | None = None
    template: str | None = None
    keep_last: int | None = None
    keep_best: str | None = None

    def submit(self, *, dry_run: bool = False) -> Trial[Any]:
        """Start the job as a trial and return the trial at once. One error reports all problems.

        With `dry_run` nothing starts, not even the server: it prints the commands, environment,
        resources and code of the job, and refuses invalid jobs.

        ```python
        wl.Job(wl.Command(["echo", "hello"]), replicas=2).submit(dry_run=True)
        ```
        """
        from windlass.client.connection.in_pod import check_asking

        check_asking()
        from windlass.authoring.prepare.job_spec import prepare_job

        try:
            ready = prepare_job(self, lambda: _client(dry_run=dry_run))
            client = _client(dry_run=dry_run)
            return client.submit(ready.draft(client))
        except WindlassError as error:
            failure = error.with_traceback(None)  # internal frames do not help users
        raise failure

    def run(self) -> Trial[Any]:
        """Run the job as a trial, show the output, and return the trial at its end.

        ```python
        job = wl.Job(wl.Command(["echo", "hello"]), replicas=2, executor=wl.Local(cpus=0.5))
        trial = job.run()
        print(trial.state)
        ```

        If there are several replicas, each line starts with the name of its replica. Ctrl-C stops
        the trial. A failed trial raises `wl.TrialFailed`, or the exception of its function.
        """
        from windlass.client.connection.in_pod import check_asking

        check_asking()
        from windlass.authoring.prepare.job_spec import prepare_job
        from windlass.client.client import default_client
        from windlass.client.terminal.view import View
        from windlass.client.terminal.watch_trial import run_and_watch

        try:
            ready = prepare_job(self)
            with View() as view:
                view.status(f"{ready.name}: looking for the server")
                client = default_client()
                _ = client.transport.endpoint
                view.status(f"{ready.name}: packaging")
                trial, end = run_and_watch(client, ready.draft(client), view)
            failure = None if trial.state == "SUCCEEDED" else trial.outcome(end).error
        except (WindlassError, KeyboardInterrupt) as error:
            failure = error.with_traceback(None)
        if failure is not None:
            raise failure
        return trial

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.repr}
        defaults = {field.name: field.default for field in fields(self)}
        shown = {name: value for name, value in values.items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields without the values of secrets."""
        return {**self.__dict__, "secrets": tuple(self.secrets) if self.secrets else self.secrets}


@suggest_fields
@dataclass(frozen=True, repr=False)
class Job(JobBase):
    """A program with its arguments, resources, number of replicas and restart rules.

    ```python
    job = wl.Job(
        wl.Command(["echo", "hello"]),
        args=["world"],
        executor=wl.Local(cpus=1),
        replicas=2,
        restart_policy="ExitCode",
        backoff_limit=3,
        active_deadline="2h",
    )
    trial = job.run()  # shows its output, and returns when it is done
    trial = job.submit()  # returns at once
    trial.wait()
    ```

    Creating a job starts nothing. One error reports all its problems when it is submitted, or when
    it becomes a role of a `wl.JobGroup`.

    Args:
        executable: the program of every replica: a `wl.PythonScript`, `wl.PythonModule`,
            `wl.PythonFunction` or `wl.Command`, or a packaged executable (`wl.package`).
        args: a mapping of flags (`{"lr": 0.1, "amp": True, "cache": False}` is
            `--lr=0.1 --amp --no-cache`; lists repeat a flag, mappings join names with dots, a
            `wl.Raw` is split into words as in a shell), or a list of words. For a function: its
            keyword or positional arguments.
        env: environment variables.
        executor: the backend and the resources of each replica: `wl.Local(cpus=2)`.
        replicas: the number of replicas that run at the same time (1).
        framework: the framework that connects the replicas: `"torch"`, `"tensorflow"`, `"jax"`.
        restart_policy: when to restart a replica that ended: `"Never"`, `"OnFailure"`, `"Always"`
            or `"ExitCode"` (exit codes from 128 on, as after signals). `"Never"` for one replica
            without a framework, else `"OnFailure"`.
        restart_scope: the replicas to restart when one restarts: `"replica"`, only this one, or
            `"job"`, all of them (`"job"` for torch and jax).
        backoff_limit: the maximum number of restarts of the whole job (6).
        stop_on_repeat: fail, without another restart, if an attempt fails within 10 s with the
            Python exception of the attempt before (only if neither `restart_policy` nor
            `backoff_limit` is set).
        active_deadline: the longest time that the job may run: `"2h"`.
        ttl_after_finished: how long remaining replicas stay after the end of the job: `"10m"`.
        clean_policy: the replicas to stop at the end: `"Running"`, `"All"` or `"None"`
            (`"Running"`).
        success_policy: `"AllWorkers"` for tensorflow: the job succeeds when all workers are done,
            not when worker 0 is done.
        priority: jobs with a higher priority start first (0).
        suspend: create the job suspended; it starts when it is resumed.
        service: the role only serves the other roles, and stops when they are done.
        name: the name of the trial (the script, module, function or program).
        experiment: the experiment it belongs to (the same).
        packages: packages to install besides this environment: `["scikit-learn", "pandas==2.2"]`,
            or the path of a requirements file.
        secrets: names of environment variables to copy from here, or a mapping of names to values.
            They are never recorded, and masked in the log.
        volumes: files and folders besides the code, by path: `{"data": "/path/to/data"}`.
        template: the name of a template (`wl.create_template`) that supplies the fields which are
            not set here.
        keep_last: the number of newest checkpoints to keep (all; with `keep_best`, 1).
        keep_best: the checkpoints to keep besides, the best by a metric: `"min val_loss"`,
            `"3 max accuracy"`.
    """

    executable: Executable | Packaged
    args: Arguments | None = field(default=None, kw_only=True)
    env: Mapping[str, str] | None = field(default=None, kw_only=True)
    executor: Executor | None = field(default=None, kw_only=True)
    replicas: int | None = field(default=None, kw_only=True)
    restart_policy: str | None = field(default=None, kw_only=True)
    service: bool | None = field(default=None, kw_only=True)


@dataclass(frozen=True, init=False, repr=False)
class JobGroup(JobBase):
    """Several roles that are one job: admitted, run, ended and recorded together.

    ```python
    half = wl.Local(cpus=0.5)
    group = wl.JobGroup(
        chief=wl.Job(wl.Command(["echo", "I lead"]), executor=half),
        worker=wl.Job(wl.Command(["echo", "I follow"]), executor=half, replicas=2),
        framework="tensorflow",
        clean_policy="All",
    )
    group.submit().wait()
    ```

    The job of a role sets its executable, replicas, resources and restart policy; the group sets
    everything else. All roles share one interpreter, and one snapshot of the code except packaged
    roles, which run their own. One error reports all problems of the group and its roles when the
    group is created.

    Args:
        roles: the roles by name, for names that are not Python identifiers; else write them as
            keywords: `worker=wl.Job(...)`.
        framework: the framework that connects the replicas: `"torch"`, `"tensorflow"`, `"jax"`.

    The other arguments are the same as in `wl.Job`.
    """

    roles: Mapping[str, Job]

    def __init__(
        self,
        roles: Mapping[str, Job] | None = None,
        /,
        *,
        framework: str | None = None,
        restart_scope: str | None = None,
        backoff_limit: int | None = None,
        stop_on_repeat: bool | None = None,
        active_deadline: str | float | None = None,
        ttl_after_finished: str | float | None = None,
        clean_policy: str | None = None,
        success_policy: str | None = None,
        priority: int | None = None,
        suspend: bool = False,
        name: str | None = None,
        experiment: str | None = None,
        packages: Sequence[str] | str | None = None,
        secrets: Sequence[str] | Mapping[str, str] | None = None,
        volumes: Mapping[str, str | os.PathLike[str]] | None = None,
        template: str | None = None,
        keep_last: int | None = None,
        keep_best: str | None = None,
        **role_jobs: Job,
    ) -> None:
        arguments = locals()
        for attribute in fields(JobBase):
            object.__setattr__(self, attribute.name, arguments[attribute.name])
        failure = None
        try:
            object.__setattr__(self, "roles", _merged(roles, role_jobs))
            if not IS_TRIAL:  # a trial imports this module on a machine that may lack the files
                from windlass.authoring.checks.job import check_job

                check_job(self)
        except WindlassError as error:
            failure = error.with_traceback(None)  # internal frames do not help users
        if failure is not None:
            raise failure


def _client(*, dry_run: bool) -> Client:
    if dry_run:
        from windlass.client.dry_run.client import DryClient

        return DryClient()
    from windlass.client.client import default_client

    return default_client()


def _merged(roles: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the roles of a group from a mapping and from keywords."""
    if roles is not None and not isinstance(roles, Mapping):
        raise InvalidArgument(
            f"wl.JobGroup: {shown(roles)} is not a mapping of roles.",
            hint="Pass each role by name: wl.JobGroup(chief=wl.Job(...), worker=wl.Job(...))",
        )
    twice = [name for name in named if name in (roles or {})]
    if twice:
        raise InvalidArgument.of([f"{name} is given twice" for name in twice], where="wl.JobGroup")
    return {**(roles or {}), **named}
