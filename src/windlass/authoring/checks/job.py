"""Finds all problems with a job or a job group, and names the field of each problem."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from windlass.authoring.checks.checkpoint_retention import check_retention
from windlass.authoring.checks.command_line import check_arguments
from windlass.authoring.checks.options import (
    Problem,
    check_env,
    check_framework,
    check_name,
    check_packages,
    check_replicas,
    check_restarts,
    check_secrets,
    check_type,
    check_volumes,
    format_key,
    nearest,
    parse_problems,
)
from windlass.authoring.checks.policies import read_policy
from windlass.authoring.prepare.draft import TO_COME
from windlass.authoring.prepare.options import (
    backend_of_executor,
    check_executor,
    unsupported_executor,
)
from windlass.authoring.prepare.programs import (
    argument_flaw,
    executable_flaw,
    find_call_site,
    own_arguments,
    path_flaw,
    unwrap,
)
from windlass.authoring.public.executables import Container, PythonFunction, Raw
from windlass.authoring.public.executors import Executor
from windlass.authoring.public.jobs import Job, JobBase, JobGroup
from windlass.authoring.public.packaged import Packaged
from windlass.frameworks import Framework, find_framework, find_framework_problems
from windlass.model.backends import LOCAL, capabilities_of
from windlass.model.errors import InvalidArgument, Unsupported, shown
from windlass.model.job import (
    CleanPolicy,
    JobSpec,
    RestartPolicy,
    RestartScope,
    Role,
    SuccessPolicy,
)
from windlass.model.text.quantities import parse_duration

WHOLE = tuple(field.name for field in fields(JobBase))
ROLE = tuple(field.name for field in fields(Job) if field.name not in WHOLE)
_DEFAULTS = {field.name: field.default for field in fields(JobBase)}
_ROLE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)
_HIGHEST_PRIORITY = 1_000_000
_MOST_ROLES = 64


def check_job(job: JobBase) -> None:
    """Raise one error that lists all problems with a job."""
    problems = job_problems(job)
    if problems:
        raise InvalidArgument.of([text for _, text in problems], where=_kind_of(job))


def refuse_unsupported(job: JobBase) -> None:
    """Raise one error that lists all of a job's options that Windlass does not support yet."""
    refused = [
        f"{name}: {flaw}" if isinstance(job, JobGroup) else flaw
        for name, role in roles_of(job).items()
        for flaw in _unsupported(role)
    ]
    if refused:
        raise Unsupported.of(refused, where=_kind_of(job))


def _unsupported(role: Job) -> list[str]:
    refused = unsupported_executor(role.executor)
    if isinstance(unwrap(role.executable), Container):
        refused.append(
            "executable: a server runs plain processes, not containers\n"
            "Run the program itself: wl.PythonScript, wl.PythonModule or wl.Command, with "
            "packages= for its dependencies. Or run it in an image: "
            "executor=wl.Kubernetes(container_image=...)"
        )
    return refused


def _kind_of(job: JobBase) -> str:
    return "wl.JobGroup" if isinstance(job, JobGroup) else "wl.Job"


def job_problems(job: JobBase) -> list[Problem]:
    """Return all problems with a job or a group, each with the key path of its field."""
    taken = [name for name in WHOLE if isinstance(getattr(job, name), JobBase)]
    problems: list[Problem] = [
        ((name,), f"{shown(name)} is the name of an option; choose another name for the role")
        for name in taken
    ]
    problems += [problem for problem in _whole_problems(job) if problem[0][0] not in taken]
    if isinstance(job, JobGroup):
        problems += _group_problems(job)
    elif isinstance(job, Job):
        problems += _role_problems(job, job)
    return [*problems, *_mixed_executors(job), *_place_problems(job), *_framework_problems(job)]


def unchecked_group(roles: Mapping[str, Any], whole: Mapping[str, Any]) -> JobGroup:
    """Build a job group without checking it.

    An invalid group raises no error here, so that `job_problems` can list all problems with it.
    """
    group = object.__new__(JobGroup)
    for name, value in {**_DEFAULTS, **whole, "roles": dict(roles)}.items():
        object.__setattr__(group, name, value)
    return group


def roles_of(job: JobBase) -> dict[str, Job]:
    """Return the roles of a job by name.

    A single job has one role, named after its framework's default role.
    """
    if isinstance(job, JobGroup):
        return dict(job.roles)
    assert isinstance(job, Job)  # noqa: S101 -- a job is a Job or a JobGroup
    return {framework_of(job).default_role: job}


def backend_of(job: JobBase) -> str:
    """Return a job's backend, which follows from its roles' executors."""
    named: dict[str, Any] = dict(roles_of(job))  # another check reports values that are not jobs
    roles = [role for role in named.values() if isinstance(role, Job)]
    backends = [backend_of_executor(role.executor) for role in roles]
    return next((backend for backend in backends if backend != LOCAL), LOCAL)


def framework_of(job: JobBase) -> Framework:
    try:
        return find_framework(job.framework or "")
    except (ValueError, TypeError, AttributeError):
        return find_framework("")  # another check reports an unknown framework


def is_service(name: str, role: Job, framework: Framework) -> bool:
    """Return whether a role is a service, which only supports the other roles.

    Unless the role sets `service`, the framework decides based on the role's name.
    """
    return name in framework.services if role.service is None else role.service is True


def _whole_problems(job: JobBase) -> list[Problem]:
    limit, ttl = job.backoff_limit, job.ttl_after_finished
    return [
        *check_framework(job.framework),
        *parse_problems("restart_scope", job.restart_scope, partial(read_policy, RestartScope)),
        *(check_restarts("backoff_limit", limit) if limit is not None else ()),
        *parse_problems("active_deadline", job.active_deadline, parse_duration),
        *(parse_problems("ttl_after_finished", ttl, parse_duration) if not is_zero(ttl) else ()),
        *parse_problems("clean_policy", job.clean_policy, partial(read_policy, CleanPolicy)),
        *parse_problems("success_policy", job.success_policy, partial(read_policy, SuccessPolicy)),
        *(_check_priority(job.priority, backend_of(job)) if job.priority is not None else ()),
        *check_retention(job.keep_last, job.keep_best),
        *check_type("suspend", job.suspend, bool, "True or False"),
        *(
            check_type("stop_on_repeat", job.stop_on_repeat, bool, "True or False")
            if job.stop_on_repeat is not None
            else ()
        ),
        *check_name("name", job.name),
        *check_name("experiment", job.experiment),
        *check_name("template", job.template),
        *check_packages(job.packages),
        *check_secrets(job.secrets),
        *check_volumes(job.volumes, backend_of(job)),
    ]


def _role_problems(role: Job, job: JobBase) -> list[Problem]:
    """Return the problems with a role's fields. `job` is the job or group with this role."""
    flaw = executable_flaw(
        role.executable,
        has_packages=job.packages is not None,
        is_elsewhere=not capabilities_of(backend_of(job)).runs_on_server,
    )
    return [
        *([(("executable",), f"executable: {flaw}")] if flaw else []),
        *_argument_problems(role, is_sound=not flaw),
        *check_env(role.env),
        *check_executor(role.executor),
        *(check_replicas(role.replicas) if role.replicas is not None else ()),
        *parse_problems("restart_policy", role.restart_policy, partial(read_policy, RestartPolicy)),
        *(
            check_type("service", role.service, bool, "True or False")
            if role.service is not None
            else ()
        ),
    ]


def _argument_problems(role: Job, *, is_sound: bool) -> list[Problem]:
    executable, args = unwrap(role.executable), role.args
    if not isinstance(executable, PythonFunction):
        return check_arguments(args, own_arguments(executable) if is_sound else ())
    if args is not None and not isinstance(args, Mapping):
        if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
            flaw = "is neither a mapping of arguments by name nor a list of arguments"
            return [(("args",), f"args: {shown(args)} {flaw}")]
    elif args is not None and not all(isinstance(name, str) for name in args):
        return [(("args",), "args: the names of function arguments must be strings")]
    values = args.values() if isinstance(args, Mapping) else args or ()
    if any(isinstance(value, Raw) for value in values):
        return [
            (
                ("args",),
                "args: wl.Raw works only on a command line; pass the value itself to a function",
            )
        ]
    flaw = argument_flaw(executable, args or ()) if is_sound else ""
    return [(("args",), f"args: {flaw}")] if flaw else []


def _mixed_executors(job: JobBase) -> list[Problem]:
    """Return a problem if the roles of a job have different executors or namespaces."""
    named: dict[str, Any] = dict(roles_of(job))
    executors = {
        name: role.executor
        for name, role in named.items()
        if isinstance(role, Job) and isinstance(role.executor, Executor)
    }
    kinds = {type(executor): name for name, executor in executors.items()}
    if len(kinds) > 1:
        summary = ", ".join(f"{name} on wl.{kind.__name__}" for kind, name in kinds.items())
        flaw = f"all roles of a job need the same executor; these differ: {summary}"
        return [(("roles", *list(kinds.values())[1:2], "executor"), flaw)]
    from windlass.authoring.checks.kubernetes import namespaces_of

    namespaces = namespaces_of(executors.values())
    if len(namespaces) > 1:
        flaw = f"all roles of a job need the same namespace; these differ: {', '.join(namespaces)}"
        odd = next(
            name
            for name, executor in executors.items()
            if getattr(executor, "namespace", "") == namespaces[1]
        )
        return [(("roles", odd, "executor", "namespace"), flaw)]
    return []


def _group_problems(group: JobGroup) -> list[Problem]:
    problems: list[Problem] = []
    if not group.roles:
        problems.append(
            (("roles",), "a group needs at least one role; add one: worker=wl.Job(...)")
        )
    if len(group.roles) > _MOST_ROLES:
        flaw = f"there are {len(group.roles)} roles; a job has at most {_MOST_ROLES}"
        problems.append((("roles",), flaw))
    for name, role in group.roles.items():
        keys = ("roles", format_key(name))
        problems += [(keys, flaw) for flaw in _group_flaws(name, role)]
        if isinstance(role, Job):
            role_problems = [*_misplaced_fields(role), *_role_problems(role, group)]
            problems += [
                ((*keys, *inner), f"{format_key(name)}: {text}") for inner, text in role_problems
            ]
    return problems


def _group_flaws(name: Any, role: Any) -> list[str]:
    """Return why a job group cannot contain a role with this name and value, or [] if it can."""
    if not isinstance(role, Job):
        return [_describe_non_job(name, role)]
    if name in (*WHOLE, *ROLE, "roles"):
        return [f"{shown(name)} is the name of an option; choose another name for the role"]
    if not isinstance(name, str) or not _ROLE_NAME.fullmatch(name):
        return [
            f"{shown(name)} is not a valid role name; use at most 40 lowercase letters, "
            "digits and dashes, with a letter first"
        ]
    return []


def _describe_non_job(name: Any, value: Any) -> str:
    if isinstance(value, JobGroup):
        called = format_key(name)
        return f"{called}: a role is a wl.Job, not a group; list the roles of that group here"
    if name in ROLE:
        return f"{name} is an option of a role, not of the group; write wl.Job(..., {name}=...)"
    near = nearest(format_key(name), WHOLE)
    if near:
        return f"there is no option {shown(name)}; did you mean {near!r}?"
    called = format_key(name)
    return f"{called}: {shown(value)} is not a job; write {called}=wl.Job(...)"


def _misplaced_fields(role: Job) -> list[Problem]:
    """Return a problem for each group-only field set on this role."""
    return [
        ((name,), f"{name} is an option of the whole group; write wl.JobGroup(..., {name}=...)")
        for name in WHOLE
        if getattr(role, name) != _DEFAULTS[name]
    ]


def _place_problems(job: JobBase) -> list[Problem]:
    """Return a problem for each role whose script is outside the job's project.

    This is an error because all roles share one snapshot of the project.
    """
    named: dict[str, Any] = dict(roles_of(job))
    sound = {
        name: role
        for name, role in named.items()
        if isinstance(role, Job) and not isinstance(role.executable, Packaged)
        if not executable_flaw(
            role.executable,
            has_packages=True,
            is_elsewhere=not capabilities_of(backend_of(job)).runs_on_server,
        )
    }
    if not sound:
        return []
    call_site = find_call_site(unwrap(role.executable) for role in sound.values())
    flaws = {name: path_flaw(role.executable, call_site) for name, role in sound.items()}
    if isinstance(job, Job):
        return [(("executable",), f"executable: {flaw}") for flaw in flaws.values() if flaw]
    return [
        (("roles", name, "executable"), f"{name}: executable: {flaw}")
        for name, flaw in flaws.items()
        if flaw
    ]


def _framework_problems(job: JobBase) -> list[Problem]:
    """Return the problems that the job's framework finds, such as a missing role."""
    if check_framework(job.framework):
        return []
    named: dict[str, Any] = dict(roles_of(job))
    framework = framework_of(job)
    roles = tuple(
        Role(
            executable=TO_COME,
            name=name,
            replicas=1 if role.replicas is None else role.replicas,
            service=is_service(name, role, framework),
        )
        for name, role in named.items()
        if isinstance(role, Job) and not _group_flaws(name, role)
        if role.replicas is None or not check_replicas(role.replicas)
    )
    if not roles:
        return []
    try:
        success = read_policy(SuccessPolicy, job.success_policy or SuccessPolicy.DEFAULT)
    except ValueError:
        success = SuccessPolicy.DEFAULT
    sketch = JobSpec(roles=roles, framework=job.framework or "", success_policy=success)
    return [(_subject(text, roles), text) for text in find_framework_problems(sketch)]


def _subject(text: str, roles: Sequence[Role]) -> tuple[str, ...]:
    """Return the key path of the field that a framework's problem refers to."""
    if text.startswith("success_policy"):
        return ("success_policy",)
    matches = {role.name: re.search(rf"\b{re.escape(role.name)}\b", text) for role in roles}
    named = {name: match.start() for name, match in matches.items() if match}
    return ("roles", min(named, key=lambda name: named[name])) if named else ("framework",)


def _check_priority(priority: Any, backend: str) -> list[Problem]:
    is_whole = isinstance(priority, int) and not isinstance(priority, bool)
    if is_whole and abs(priority) <= _HIGHEST_PRIORITY:
        if not priority or capabilities_of(backend).has_priority:
            return []
        flaw = (
            f"backend {backend!r} ignores priorities: the scheduler of the cluster "
            "orders pods\nName a priority class of the cluster: wl.Kubernetes(priority_class=...)"
        )
        return [(("priority",), f"priority: {flaw}")]
    highest = _HIGHEST_PRIORITY
    flaw = f"is not a valid priority; write a whole number from -{highest} to {highest}"
    return [(("priority",), f"priority: {shown(priority)} {flaw}")]


def is_zero(duration: Any) -> bool:
    """Return whether a duration is zero, which most duration options reject."""
    return isinstance(duration, (int, float)) and duration == 0 and duration is not False
