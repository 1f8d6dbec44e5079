"""From what was typed after `windlass run` to the job it describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from windlass.authoring.checks import OF_EXECUTOR, Problem, check_labels
from windlass.authoring.executables import Command, PythonScript
from windlass.authoring.executors import Kubernetes, Local
from windlass.authoring.jobs import Job
from windlass.authoring.options import Options, keep_secrets, secret_values
from windlass.authoring.outlines import Ready, prepare_job
from windlass.authoring.problems import job_problems
from windlass.cli.targets import find_executable
from windlass.model.errors import InvalidArgument

if TYPE_CHECKING:
    from windlass.client.session import Client

WHERE = "windlass run"
# What goes with a file that describes the job: how it is submitted, and what it is called.
_GOES_WITH_FILE = {"file", "words", "detach", "dry_run", "as_json", "name", "experiment", "labels"}
_OF_JOB = (
    "framework", "restart_policy", "restart_scope", "backoff_limit", "ttl_after_finished",
    "clean_policy", "success_policy", "name", "experiment", "template", "keep_last", "keep_best",
)  # fmt: skip
_OF_CLUSTER = ("namespace", "queue", "priority_class", "service_account")


def compose_job(words: Sequence[str], given: Mapping[str, Any], *, dry_run: bool = False) -> Ready:
    """The job that a script or command with options describes; all that is wrong is told at once.

    `given` are the options by the names of their parameters.
    """
    in_pods = given["backend"] == "kubernetes"
    executable, arguments, flaw = _executable(words, is_elsewhere=in_pods)
    retries = given["retries"]
    chosen = {name: given[name] for name in _OF_JOB}
    if retries is not None and not _retried_twice(given):
        chosen |= {"restart_policy": "OnFailure" if retries else "Never"}
        chosen |= {"backoff_limit": max(retries, 0)}
    job = Job(
        executable,
        args=list(arguments),
        env=pairs("env", given["env"], "NAME=VALUE"),
        executor=_executor(given),
        replicas=given["replicas"],
        active_deadline=given["timeout"],
        priority=given["priority"],
        suspend=given["suspend"],
        packages=_packages(given["package"], given["requirements"]),
        secrets=list(given["secret"]) or None,
        volumes=pairs("volume", given["volume"], "TARGET=SOURCE"),
        **chosen,
    )
    others = Options(
        backend=given["backend"],
        container_image=given["container_image"],
        cluster=given["cluster"],
        spot=given["spot"],
        retries=retries,
    )
    problems = [*_contradictions(given), *job_problems(job), *check_labels(given["labels"])]
    if flaw is not None:
        if not problems:
            raise flaw
        problems.insert(0, (("words",), f"{flaw.message}\n{flaw.hint or ''}".rstrip()))
    others.check(WHERE, problems)
    recorded = [*words, *(job.env or {}).values()]
    keep_secrets(secret_values(job.secrets), recorded, "on the command line, which is")
    return _labelled(prepare_job(job, _asked(dry_run=dry_run)), given["labels"])


def _labelled(ready: Ready, labels: Sequence[str]) -> Ready:
    """The job with labels besides those of its template."""
    return replace(ready, labels=tuple(dict.fromkeys((*ready.labels, *labels))))


def _executor(given: Mapping[str, Any]) -> Local | Kubernetes:
    asked = {name: given[name] for name in OF_EXECUTOR}
    if given["backend"] == "kubernetes":
        asked |= {name: given[name] for name in _OF_CLUSTER}
        return Kubernetes(container_image=given["container_image"], **asked)
    return Local(**asked)


def _executable(
    words: Sequence[str], *, is_elsewhere: bool
) -> tuple[PythonScript | Command, Sequence[str], InvalidArgument | None]:
    """What the words name, or what is wrong with them: to be told with what else is."""
    try:
        return *find_executable(words, is_elsewhere=is_elsewhere), None
    except InvalidArgument as error:
        return Command(["true"]), (), error  # in its place, so that the rest can be checked


def read_file(
    ctx: click.Context, path: str, words: Sequence[str], *, dry_run: bool = False
) -> Ready:
    """The job that a file describes; options that would contradict it are refused."""
    from windlass.authoring.jobfile import read_job

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
            f"With --file the job is what {path} says. These do not go with it: "
            f"{', '.join(unfit)}.\nWrite them into the file, or leave --file out.",
            ctx,
        )
    called = {"name": ctx.params["name"], "experiment": ctx.params["experiment"]}
    Options(**called).check(WHERE, check_labels(ctx.params["labels"]))
    ready = prepare_job(read_job(path), _asked(dry_run=dry_run))
    ready = replace(ready, **{key: value for key, value in called.items() if value is not None})
    return _labelled(ready, ctx.params["labels"])


def _asked(*, dry_run: bool) -> Callable[[], Client] | None:
    """Whom to ask for a template: a dry run starts no server for that."""
    if not dry_run:
        return None
    from windlass.client.dry import DryClient

    return DryClient


def _contradictions(given: Mapping[str, Any]) -> list[Problem]:
    """Retries are a way to say what two other options say; and a machine has no namespaces."""
    return [*_retried_twice(given), *_of_no_cluster(given)]


def _of_no_cluster(given: Mapping[str, Any]) -> list[Problem]:
    if given["backend"] == "kubernetes":
        return []
    return [
        ((name,), f'{name}: it is said of a cluster; add backend="kubernetes"')
        for name in _OF_CLUSTER
        if given[name] is not None
    ]


def _retried_twice(given: Mapping[str, Any]) -> list[Problem]:
    rivals = [name for name in ("restart_policy", "backoff_limit") if given[name] is not None]
    retries = given["retries"]
    if retries is None or not rivals:
        return []
    said = f"OnFailure, and at most {retries} restarts" if retries else "Never"
    options = " and ".join(f"{name}=" for name in rivals)
    return [(("retries",), f"retries: it means {said}; leave it out, or {options}")]


def _packages(packages: Sequence[str], requirements: str | None) -> list[str] | None:
    if requirements is None:
        return list(packages) or None
    from windlass.packaging.environments import read_requirements

    return [*read_requirements(Path(requirements)), *packages] or None


def pairs(option: str, texts: Sequence[str], form: str) -> dict[str, str] | None:
    """Options of the form name=value, as a mapping."""
    for text in texts:
        if "=" not in text:
            raise click.BadParameter(f"{text!r} is not {form}.", param_hint=f"'--{option}'")
    return dict(text.split("=", 1) for text in texts) or None
