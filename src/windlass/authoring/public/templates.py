"""Templates, which fill in fields that a job leaves unset.

A template's fields are checked when the template is created. `env`, `volumes`, `secrets` and
`labels` are merged from the job and its template. For every other field, the job's own value wins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.authoring.checks.job import ROLE, WHOLE, check_job, job_problems
from windlass.authoring.checks.options import OF_EXECUTOR, Problem, check_labels, unknown_option
from windlass.authoring.prepare.exact_json import NotExact, exact_json
from windlass.authoring.prepare.overrides import replace_fields
from windlass.authoring.public.executables import Command
from windlass.authoring.public.executors import Executor, Local
from windlass.authoring.public.jobs import Job, JobBase, JobGroup
from windlass.model.errors import InvalidArgument

if TYPE_CHECKING:
    from windlass.authoring.prepare.call_site import CallSite
    from windlass.authoring.prepare.draft import Plan
    from windlass.authoring.prepare.options import Options
    from windlass.client.client import Client

# Job fields that no template may set.
_OWN = ("executable", "args", "executor", "service", "suspend", "name", "experiment", "template")
_OF_JOB = tuple(name for name in (*WHOLE, *ROLE) if name not in _OWN)
_OF_ROLE = ("env", "restart_policy")  # set on each role of a group
FIELDS = (*OF_EXECUTOR, *_OF_JOB, "retries", "timeout", "labels")
_STAND_IN = Command(["true"])


@dataclass(frozen=True)
class TemplateUse:
    """A job after its template was applied, and the name and labels of that template.

    The template has filled the fields that the job left unset.
    """

    job: Any
    name: str = ""
    labels: tuple[str, ...] = ()


def check_fields(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check a template's fields and convert them to JSON. One error lists all problems.

    >>> check_fields({"cpus": 2, "timeout": "4h"}, "wl.create_template")
    {'cpus': 2, 'timeout': '4h'}
    >>> check_fields({"cpu": 2}, "wl.create_template")
    Traceback (most recent call last):
    windlass.InvalidArgument: wl.create_template: there is no option 'cpu'; did you mean 'cpus'?
    """
    set_fields = {name: value for name, value in fields.items() if value is not None}
    problems = [unknown_option(name, FIELDS) for name in set_fields if name not in FIELDS]
    valid = {name: value for name, value in set_fields.items() if name in FIELDS}
    problems += _contradictions(valid)
    problems += check_labels(valid.get("labels", ()))
    if isinstance(valid.get("secrets"), Mapping):
        flaw = "secrets: a template stores no secret values; write a list of names"
        problems.append((("secrets",), flaw))
    problems += _reword(job_problems(_fill_job(Job(_STAND_IN), valid)), valid)
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where=where)
    try:
        kept: dict[str, Any] = exact_json(_absolute(valid))
    except NotExact as error:
        raise InvalidArgument(f"{where}: {error}, which cannot be recorded.") from None
    return kept


def apply_template(job: JobBase, client: Callable[[], Client]) -> TemplateUse:
    """Return a copy of the job whose unset fields are filled from its template."""
    if job.template is None:
        return TemplateUse(job)
    check_job(job)  # report the job's problems before contacting the server
    template = client().get_template(job.template)
    fields = template.fields
    return TemplateUse(_fill_job(job, fields), template.name, tuple(fields.get("labels", ())))


def plan_with_template(
    client: Client, options: Options, default_name: str, call_site: CallSite
) -> Plan:
    """Build the plan for a `wl.run` function whose options name a template."""
    from windlass.authoring.prepare.draft import Plan, default_filing
    from windlass.authoring.prepare.job_spec import build_outline
    from windlass.authoring.prepare.options import secret_values
    from windlass.model.records import Recipe

    template_use = apply_template(
        replace_fields(options.job(None), executable=_STAND_IN), lambda: client
    )
    job: Job = template_use.job
    if job.restart_policy is None and job.backoff_limit is None:
        job = replace_fields(job, restart_policy="Never", backoff_limit=0)  # as without a template
    check_job(job)
    return Plan(
        client,
        build_outline(job),
        call_site,
        name=options.name or default_name,
        filing=msgspec.structs.replace(
            default_filing(options.experiment, default_name, call_site),
            labels=template_use.labels,
            recipe=Recipe(template=template_use.name),
        ),
        secrets=secret_values(job.secrets),
        packages=job.packages,
    )


def _fill_job(job: Any, fields: Mapping[str, Any]) -> Any:
    """Return a copy of the job whose unset fields are filled from `fields`."""
    job_fields = _as_job_fields(fields)
    if isinstance(job, JobGroup):
        own = {
            name: value for name, value in job_fields.items() if name in (*_OF_ROLE, *OF_EXECUTOR)
        }
        roles = {name: _fill_role(role, own) for name, role in job.roles.items()}
        whole = {name: value for name, value in job_fields.items() if name in WHOLE}
        return replace_fields(_fill_fields(job, whole), roles=roles)
    return _fill_role(job, job_fields)


def _fill_role(job: Job, job_fields: Mapping[str, Any]) -> Job:
    resources = {name: job_fields[name] for name in OF_EXECUTOR if name in job_fields}
    others = {name: value for name, value in job_fields.items() if name not in resources}
    if resources and (job.executor is None or isinstance(job.executor, Executor)):
        executor = job.executor or Local()
        added = {
            name: value for name, value in resources.items() if getattr(executor, name) is None
        }
        job = replace_fields(job, executor=replace(executor, **added))
    filled: Job = _fill_fields(job, others)
    return filled


def _fill_fields(job: Any, fields: Mapping[str, Any]) -> Any:
    changes: dict[str, Any] = {}
    for name, value in fields.items():
        own = getattr(job, name)
        if own is None:
            changes[name] = value
        elif name in ("env", "volumes") and isinstance(own, Mapping):
            changes[name] = {**value, **own}
        elif name == "secrets":
            changes[name] = _joined_secrets(own, value)
    # Both fields control restarts. If the job sets either, the template sets neither.
    if isinstance(job, Job) and job.restart_policy is not None:
        changes.pop("backoff_limit", None)
    if job.backoff_limit is not None:
        changes.pop("restart_policy", None)
    return replace_fields(job, **changes)


def _joined_secrets(own: Any, more: Sequence[str]) -> Any:
    """Return the secrets of a job and its template combined.

    The result is a list of names, or a mapping if the job sets the secrets' values.
    """
    added = [name for name in more if name not in own]
    if not isinstance(own, Mapping):
        return [*own, *added]
    from windlass.authoring.prepare.options import secret_values

    return {**own, **secret_values(added)}


def _as_job_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a template's fields to `wl.Job` fields.

    Fields without a counterpart in `wl.Job` are left out.
    """
    job_fields = {name: value for name, value in fields.items() if name in (*OF_EXECUTOR, *_OF_JOB)}
    retries = fields.get("retries")
    if retries is not None:
        job_fields |= {
            "restart_policy": "OnFailure" if retries else "Never",
            "backoff_limit": retries,
        }
    if fields.get("timeout") is not None:
        job_fields["active_deadline"] = fields["timeout"]
    return job_fields


def _contradictions(fields: Mapping[str, Any]) -> list[Problem]:
    pairs = {"retries": ("restart_policy", "backoff_limit"), "timeout": ("active_deadline",)}
    return [
        ((name,), f"{name} is the same as {rival}; remove one of them")
        for name, rivals in pairs.items()
        for rival in rivals
        if name in fields and rival in fields
    ]


def _reword(problems: Sequence[Problem], fields: Mapping[str, Any]) -> list[Problem]:
    """Replace `wl.Job` field names in problems with the names that the user wrote."""
    reworded = []
    for keys, text in problems:
        text = text.removeprefix("executor: ")
        if "retries" in fields:
            text = text.replace("backoff_limit", "retries").replace("of restarts", "of retries")
        if "timeout" in fields:
            text = text.replace("active_deadline", "timeout")
        reworded.append((keys, text))
    return reworded


def _absolute(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Make paths absolute and read requirements files, so that a template works in any folder."""
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
