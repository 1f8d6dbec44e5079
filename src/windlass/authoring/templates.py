"""Templates: fields that are checked as those of a job are, and laid beneath what a job says.

Of `env`, `volumes`, `secrets` and `labels` a job has the template's besides its own; of all else
the template's where it says none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from windlass.authoring.checks import OF_EXECUTOR, Problem, check_labels, unknown_option
from windlass.authoring.executables import Command
from windlass.authoring.executors import Kubernetes, Local
from windlass.authoring.jobs import Job, JobGroup, Whole
from windlass.authoring.laying import changed
from windlass.authoring.problems import ROLE, WHOLE, check_job, job_problems
from windlass.authoring.recording import NotExact, exact_json
from windlass.model.errors import InvalidArgument

if TYPE_CHECKING:
    from windlass.authoring.drafting import Plan
    from windlass.authoring.options import Options
    from windlass.authoring.surroundings import Surroundings
    from windlass.client.session import Client

# What is said of one job and no other.
_OWN = ("executable", "args", "executor", "service", "suspend", "name", "experiment", "template")
_OF_JOB = tuple(name for name in (*WHOLE, *ROLE) if name not in _OWN)
_OF_ROLE = ("env", "restart_policy")  # of each role of a group; its size is its own
FIELDS = (*OF_EXECUTOR, *_OF_JOB, "retries", "timeout", "labels")
_STAND_IN = Command(["true"])


@dataclass(frozen=True)
class Used:
    """A job that a template was laid beneath."""

    job: Any
    name: str = ""
    labels: tuple[str, ...] = ()


def checked_fields(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The fields of a template as they are kept; all that is wrong is told at once.

    >>> checked_fields({"cpus": 2, "timeout": "4h"}, "wl.create_template")
    {'cpus': 2, 'timeout': '4h'}
    >>> checked_fields({"cpu": 2}, "wl.create_template")
    Traceback (most recent call last):
    windlass.InvalidArgument: wl.create_template: there is no option 'cpu'; did you mean 'cpus'?
    """
    said = {name: value for name, value in given.items() if value is not None}
    problems = [unknown_option(name, FIELDS) for name in said if name not in FIELDS]
    known = {name: value for name, value in said.items() if name in FIELDS}
    problems += _contradictions(known)
    problems += check_labels(known.get("labels", ()))
    if isinstance(known.get("secrets"), Mapping):
        flaw = "secrets: a template is recorded, and holds no values; write a list of names"
        problems.append((("secrets",), flaw))
    problems += _worded(job_problems(_laid(Job(_STAND_IN), known)), known)
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where=where)
    try:
        kept: dict[str, Any] = exact_json(_absolute(known))
    except NotExact as error:
        raise InvalidArgument(f"{where}: {error}, which cannot be recorded.") from None
    return kept


def used(job: Whole, client: Callable[[], Client]) -> Used:
    """A job with the template that it names, as it is now, beneath what it says itself."""
    if job.template is None:
        return Used(job)
    check_job(job)  # what is wrong with it is told before a server is asked for anything
    template = client().get_template(job.template)
    fields = template.fields
    return Used(_laid(job, fields), template.name, tuple(fields.get("labels", ())))


def plan_with_template(
    client: Client, options: Options, default_name: str, place: Surroundings
) -> Plan:
    """The plan of a function that is run with options and a template."""
    from windlass.authoring.drafting import Filing, Plan
    from windlass.authoring.options import secret_values
    from windlass.authoring.outlines import outline_of
    from windlass.model.records import Recipe

    found = used(changed(options.job(None), executable=_STAND_IN), lambda: client)
    job: Job = found.job
    if job.restart_policy is None and job.backoff_limit is None:
        job = changed(job, restart_policy="Never", backoff_limit=0)  # as without a template
    check_job(job)
    return Plan(
        client,
        outline_of(job),
        place,
        name=options.name or default_name,
        filing=Filing(
            experiment=options.experiment or default_name,
            labels=found.labels,
            recipe=Recipe(template=found.name),
        ),
        secrets=secret_values(job.secrets),
        packages=job.packages,
    )


def _laid(job: Any, fields: Mapping[str, Any]) -> Any:
    """The job with fields beneath its own."""
    given = _in_words_of_jobs(fields)
    if isinstance(job, JobGroup):
        own = {name: value for name, value in given.items() if name in (*_OF_ROLE, *OF_EXECUTOR)}
        roles = {name: _role_laid(role, own) for name, role in job.roles.items()}
        whole = {name: value for name, value in given.items() if name in WHOLE}
        return changed(_filled(job, whole), roles=roles)
    return _role_laid(job, given)


def _role_laid(job: Job, given: Mapping[str, Any]) -> Job:
    resources = {name: given[name] for name in OF_EXECUTOR if name in given}
    others = {name: value for name, value in given.items() if name not in resources}
    if resources and isinstance(job.executor, (Local, Kubernetes, type(None))):
        executor = job.executor or Local()
        added = {name: each for name, each in resources.items() if getattr(executor, name) is None}
        job = changed(job, executor=replace(executor, **added))
    filled: Job = _filled(job, others)
    return filled


def _filled(job: Any, given: Mapping[str, Any]) -> Any:
    changes: dict[str, Any] = {}
    for name, value in given.items():
        own = getattr(job, name)
        if own is None:
            changes[name] = value
        elif name in ("env", "volumes") and isinstance(own, Mapping):
            changes[name] = {**value, **own}
        elif name == "secrets":
            changes[name] = _joined_secrets(own, value)
    # Both say when it starts again: whoever says one of them means both.
    if isinstance(job, Job) and job.restart_policy is not None:
        changes.pop("backoff_limit", None)
    if job.backoff_limit is not None:
        changes.pop("restart_policy", None)
    return changed(job, **changes)


def _joined_secrets(own: Any, more: Sequence[str]) -> Any:
    """The secrets of a job, and those of a template that it does not name itself."""
    added = [name for name in more if name not in own]
    if not isinstance(own, Mapping):
        return [*own, *added]
    from windlass.authoring.options import secret_values

    return {**own, **secret_values(added)}


def _in_words_of_jobs(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as `wl.Job` has them; those that are no fields of a job are left out."""
    given = {name: value for name, value in fields.items() if name in (*OF_EXECUTOR, *_OF_JOB)}
    retries = fields.get("retries")
    if retries is not None:
        given |= {"restart_policy": "OnFailure" if retries else "Never", "backoff_limit": retries}
    if fields.get("timeout") is not None:
        given["active_deadline"] = fields["timeout"]
    return given


def _contradictions(fields: Mapping[str, Any]) -> list[Problem]:
    pairs = {"retries": ("restart_policy", "backoff_limit"), "timeout": ("active_deadline",)}
    return [
        ((name,), f"{name} says the same as {rival}; leave one of them out")
        for name, rivals in pairs.items()
        for rival in rivals
        if name in fields and rival in fields
    ]


def _worded(problems: Sequence[Problem], fields: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a job, in the words that the template was written with."""
    told = []
    for keys, text in problems:
        text = text.removeprefix("executor: ")
        if "retries" in fields:
            text = text.replace("backoff_limit", "retries").replace("of restarts", "of retries")
        if "timeout" in fields:
            text = text.replace("active_deadline", "timeout")
        told.append((keys, text))
    return told


def _absolute(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, without what would be another thing elsewhere: relative paths, lists in files."""
    kept = dict(fields)
    if isinstance(kept.get("volumes"), Mapping):
        kept["volumes"] = {
            target: os.path.abspath(os.path.expanduser(os.fspath(source)))
            for target, source in kept["volumes"].items()
        }
    if "packages" in kept:
        from windlass.packaging.environments import check_requirements

        kept["packages"] = list(check_requirements(kept["packages"]))
    for name in ("labels", "secrets"):
        if name in kept:
            kept[name] = list(dict.fromkeys(kept[name]))
    return kept
