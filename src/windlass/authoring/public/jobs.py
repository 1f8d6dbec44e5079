"""Jobs and job groups, which describe what to run and submit it."""

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
    """The fields that apply to a whole job rather than to one of its roles."""

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
        """Start the job as a trial and return it without waiting. One error lists all problems.

        With `dry_run`, nothing is started, not even the server. Instead, the job's commands,
        environment, resources and code are printed, and an invalid job raises an error.

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
        """Run the job as a trial, show its output, and return the trial once it has ended.

        ```python
        job = wl.Job(wl.Command(["echo", "hello"]), replicas=2, executor=wl.Local(cpus=0.5))
        trial = job.run()
        print(trial.state)
        ```

        With several replicas, each line starts with its replica's name. Ctrl-C stops the trial. A
        failed trial raises `wl.TrialFailed`, or the exception of its function.
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
                view.stage(f"{ready.name}: looking for the server")
                client = default_client()
                _ = client.transport.endpoint
                view.stage(f"{ready.name}: packaging")
                trial, end = run_and_watch(client, ready.draft(client), view)
            failure = None
            if trial.state != "SUCCEEDED":
                failure = trial.outcome(end, view.has_shown).error
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
        """Return the fields to pickle. Secrets are pickled without their values."""
        return {**self.__dict__, "secrets": tuple(self.secrets) if self.secrets else self.secrets}


@suggest_fields
@dataclass(frozen=True, repr=False)
class Job(JobBase):
    """A program, with its arguments, resources, number of replicas and restart rules.

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
    trial = job.run()  # shows the output, and returns when the job has ended
    trial = job.submit()  # returns at once
    trial.wait()
    ```

    Creating a job starts nothing. The job is checked when you submit it or make it a role of a
    `wl.JobGroup`. A single error then lists all problems.

    Args:
        executable: the program that every replica runs. Use a `wl.PythonScript`, `wl.PythonModule`,
            `wl.PythonFunction` or `wl.Command`, or the result of `wl.package`.
        args: a list of words, or a mapping of flags. `{"lr": 0.1, "amp": True, "cache": False}`
            becomes `--lr=0.1 --amp --no-cache`. A list repeats its flag. A nested mapping joins
            the names with dots. A `wl.Raw` is split into words as in a shell. For a function,
            `args` contains the keyword or positional arguments.
        env: environment variables.
        executor: the backend and the resources of each replica, such as `wl.Local(cpus=2)`.
        replicas: the number of replicas that run at the same time (default: 1).
        framework: the framework that connects the replicas: `"torch"`, `"tensorflow"`, `"jax"`.
        restart_policy: when to restart an ended replica: `"Never"`, `"OnFailure"`, `"Always"` or
            `"ExitCode"`, which means exit codes of 128 and above. The default is `"Never"` for a
            single replica without a framework, and `"OnFailure"` otherwise.
        restart_scope: whether a restart affects only the one `"replica"` or the whole `"job"`
            (default for torch and jax).
        backoff_limit: the maximum number of restarts of the whole job (default: 6).
        stop_on_repeat: whether to stop restarting when an attempt fails within 10 s with the same
            Python exception as the previous attempt. The default is True if neither
            `restart_policy` nor `backoff_limit` is set.
        active_deadline: the longest time that the job can run, such as `"2h"`.
        ttl_after_finished: how long remaining replicas stay after the job has ended, such as
            `"10m"`.
        clean_policy: the replicas to stop when the job ends: `"Running"` (default), `"All"` or
            `"None"`.
        success_policy: only for tensorflow. With `"AllWorkers"`, the job succeeds when all workers
            are done. By default, it succeeds when worker 0 is done.
        priority: jobs with a higher priority start first (default: 0).
        suspend: create the job suspended. It starts when you resume it.
        service: True if the role only supports other roles. It is stopped when they are done.
        name: the name of the trial (default: the name of the script, module, function or program).
        experiment: the experiment to add the trial to (default: the trial's name).
        packages: packages to install in addition to the packages of this environment, such as
            `["scikit-learn", "pandas==2.2"]`, or the path of a requirements file.
        secrets: names of environment variables to copy from this process, or a mapping of names to
            values. Values are never recorded, and are masked in the log.
        volumes: other files and folders, by their path in the trial: `{"data": "/path/to/data"}`.
        template: the name of a template (`wl.create_template`), which fills in unset fields of this
            job.
        keep_last: the number of newest checkpoints to keep (default: all, or 1 with `keep_best`).
        keep_best: the number of best checkpoints to keep as well, and the metric that ranks them:
            `"min val_loss"`, `"3 max accuracy"`.
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
    """A job with several roles, which are admitted, stopped and recorded as a unit.

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

    Each role's `wl.Job` sets its executable, replicas, resources and restart policy. The group sets
    everything else. All roles share one interpreter. They also share one code snapshot, except that
    packaged roles run their own code. Creating an invalid group raises one error that lists all
    problems of the group and its roles.

    Args:
        roles: a mapping of names to roles, for names that are not Python identifiers. Pass all
            other roles as keyword arguments: `worker=wl.Job(...)`.
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
            if not IS_TRIAL:  # inside a trial, files that the check looks for may be missing
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
    """Merge roles passed as a mapping with roles passed as keyword arguments."""
    if roles is not None and not isinstance(roles, Mapping):
        raise InvalidArgument(
            f"wl.JobGroup: {shown(roles)} is not a mapping of roles.",
            hint="Pass each role by name: wl.JobGroup(chief=wl.Job(...), worker=wl.Job(...))",
        )
    twice = [name for name in named if name in (roles or {})]
    if twice:
        raise InvalidArgument.of([f"{name} is given twice" for name in twice], where="wl.JobGroup")
    return {**(roles or {}), **named}
