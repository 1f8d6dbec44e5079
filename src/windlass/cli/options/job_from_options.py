"""Builds a job from the arguments and options of `windlass run`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from windlass.authoring.checks.job import job_problems
from windlass.authoring.checks.options import OF_EXECUTOR, Problem, check_labels
from windlass.authoring.prepare.draft import Filing
from windlass.authoring.prepare.job_spec import PreparedJob, prepare_job
from windlass.authoring.prepare.options import Options, refuse_recorded_secrets, secret_values
from windlass.authoring.public.executables import Command, PythonScript
from windlass.authoring.public.executors import EXECUTORS, Executor, Local
from windlass.authoring.public.jobs import Job
from windlass.cli.options.run_target import find_executable
from windlass.model.backends import BACKENDS, LOCAL, Capabilities
from windlass.model.errors import InvalidArgument

if TYPE_CHECKING:
    from windlass.client.client import Client

WHERE = "windlass run"
# Options that work with --file, because they name the trial or affect only its submission.
_GOES_WITH_FILE = {"file", "words", "detach", "dry_run", "as_json", "name", "experiment", "labels"}
_OF_JOB = (
    "framework", "restart_policy", "restart_scope", "backoff_limit", "stop_on_repeat",
    "ttl_after_finished", "clean_policy", "success_policy", "name", "experiment", "template",
    "keep_last", "keep_best",
)  # fmt: skip


def compose_job(
    words: Sequence[str], options: Mapping[str, Any], *, dry_run: bool = False
) -> PreparedJob:
    """Build the job that runs a script or command, and prepare it for submission."""
    job = build_job(words, options)
    ready = prepare_job(job, _template_client(dry_run=dry_run))
    return _add_labels(ready, options["labels"])


def build_job(words: Sequence[str], options: Mapping[str, Any]) -> Job:
    """Build the job that runs a script or command. One error lists all problems.

    `options` maps command-line options to their values.
    """
    is_elsewhere = not _capabilities(options).runs_on_server
    executable, arguments, flaw = _executable(words, is_elsewhere=is_elsewhere)
    retries = options["retries"]
    chosen = {name: options[name] for name in _OF_JOB}
    if retries is not None and not _retry_problems(options):
        chosen |= {"restart_policy": "OnFailure" if retries else "Never"}
        chosen |= {"backoff_limit": max(retries, 0)}
    job = Job(
        executable,
        args=list(arguments),
        env=read_pairs("env", options["env"], "NAME=VALUE"),
        executor=_executor(options),
        replicas=options["replicas"],
        active_deadline=options["timeout"],
        priority=options["priority"],
        suspend=options["suspend"],
        packages=_packages(options["package"], options["requirements"]),
        secrets=list(options["secret"]) or None,
        volumes=read_pairs("volume", options["volume"], "TARGET=SOURCE"),
        **chosen,
    )
    others = Options(
        backend=options["backend"],
        container_image=options["container_image"],
        cluster=options["cluster"],
        spot=options["spot"],
        retries=retries,
    )
    problems = [*_contradictions(options), *job_problems(job), *check_labels(options["labels"])]
    if flaw is not None:
        if not problems:
            raise flaw
        problems.insert(0, (("words",), f"{flaw.message}\n{flaw.hint or ''}".rstrip()))
    others.check(WHERE, problems)
    recorded = [*words, *(job.env or {}).values()]
    refuse_recorded_secrets(secret_values(job.secrets), recorded, "on the command line, which is")
    return job


def _add_labels(ready: PreparedJob, labels: Sequence[str]) -> PreparedJob:
    """Add labels to a prepared job, in addition to any labels from its template."""
    return replace(ready, labels=tuple(dict.fromkeys((*ready.labels, *labels))))


def _capabilities(options: Mapping[str, Any]) -> Capabilities:
    """Return the backend's capabilities.

    An unknown backend counts as the local backend.
    """
    return BACKENDS.get(options["backend"], BACKENDS[LOCAL])


def _executor(options: Mapping[str, Any]) -> Executor:
    names = (*OF_EXECUTOR, *_capabilities(options).executor_options)
    settings = {name: options[name] for name in names if name in options}
    return EXECUTORS.get(options["backend"], Local)(**settings)


def _executable(
    words: Sequence[str], *, is_elsewhere: bool
) -> tuple[PythonScript | Command, Sequence[str], InvalidArgument | None]:
    """Find the script or command named by the words, and its arguments.

    Any error is returned instead of raised, so that it can be reported together with others.
    """
    try:
        return *find_executable(words, is_elsewhere=is_elsewhere), None
    except InvalidArgument as error:
        return Command(["true"]), (), error  # a placeholder; the options can still be checked


def read_file(
    ctx: click.Context, path: str, words: Sequence[str], *, dry_run: bool = False
) -> PreparedJob:
    """Read a job from a file. Raise an error for options that could contradict the file."""
    from windlass.authoring.public.job_file import read_job

    unfit = [
        max(param.opts, key=len)
        for param in ctx.command.params
        if isinstance(param, click.Option)
        and param.name not in _GOES_WITH_FILE
        and ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    ]
    if words:
        unfit.append(f"the words {' '.join(words)!r}")
    if unfit:
        raise click.UsageError(
            f"With --file, {path} describes the whole job. Remove "
            f"{', '.join(unfit)}.\nWrite these settings into the file, or remove --file.",
            ctx,
        )
    called = {"name": ctx.params["name"], "experiment": ctx.params["experiment"]}
    Options(**called).check(WHERE, check_labels(ctx.params["labels"]))
    ready = prepare_job(read_job(path), _template_client(dry_run=dry_run))
    if called["name"] is not None:
        ready = replace(ready, name=called["name"])
    if called["experiment"] is not None:
        ready = replace(ready, where=Filing(experiment=called["experiment"]))
    return _add_labels(ready, ctx.params["labels"])


def _template_client(*, dry_run: bool) -> Callable[[], Client] | None:
    """Return a function that creates a client for reading templates.

    For a dry run, the client does not start a server. Otherwise, return None, which stands for the
    default client.
    """
    if not dry_run:
        return None
    from windlass.client.dry_run.client import DryClient

    return DryClient


def _contradictions(options: Mapping[str, Any]) -> list[Problem]:
    """Return problems with options that exclude each other or belong to another backend."""
    return [*_retry_problems(options), *_other_backend_problems(options)]


def _other_backend_problems(options: Mapping[str, Any]) -> list[Problem]:
    own = _capabilities(options)
    return [
        ((name,), f'{name}: it is an option of a cluster; add backend="{backend}"')
        for backend, other in BACKENDS.items()
        for name in options
        if name in other.executor_options and options[name] is not None
        if name not in own.executor_options and name not in own.refused_options
    ]


def _retry_problems(options: Mapping[str, Any]) -> list[Problem]:
    rivals = [name for name in ("restart_policy", "backoff_limit") if options[name] is not None]
    retries = options["retries"]
    if retries is None or not rivals:
        return []
    meaning = f"OnFailure, and at most {retries} restarts" if retries else "Never"
    names = " and ".join(f"{name}=" for name in rivals)
    return [(("retries",), f"retries: it means {meaning}; remove it, or remove {names}")]


def _packages(packages: Sequence[str], requirements: str | None) -> list[str] | None:
    if requirements is None:
        return list(packages) or None
    from windlass.packaging.environments import read_requirements

    return [*read_requirements(Path(requirements)), *packages] or None


def read_pairs(option: str, texts: Sequence[str], form: str) -> dict[str, str] | None:
    """Parse options of the form `name=value` into a mapping."""
    for text in texts:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not {form}.", param_hint=f"'--{option}'")
    return dict(text.split("=", 1) for text in texts) or None
