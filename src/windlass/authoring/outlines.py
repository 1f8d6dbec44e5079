"""What a job comes to: its outline, what its roles run, and so a draft."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from windlass.authoring.arguments import nothing_said
from windlass.authoring.checks import callers_level
from windlass.authoring.drafting import TO_COME, Call, Filing, Plan
from windlass.authoring.executables import PythonFunction
from windlass.authoring.executors import Executor, Kubernetes, Local
from windlass.authoring.jobs import Job, Whole
from windlass.authoring.keeping import keeping
from windlass.authoring.options import keep_secrets, mounted, resources_of, secret_values
from windlass.authoring.packaged import Packaged
from windlass.authoring.policies import read_policy
from windlass.authoring.problems import (
    backend_of,
    check_job,
    framework_of,
    is_service,
    is_zero,
    refuse_unsupported,
    roles_of,
)
from windlass.authoring.programs import (
    executable_name,
    params_of,
    place_of,
    program_of,
    unpacked,
)
from windlass.authoring.recording import call_as_json, words_as_json
from windlass.authoring.surroundings import Surroundings
from windlass.frameworks import Framework
from windlass.model.job import (
    KUBERNETES,
    CleanPolicy,
    JobSpec,
    ProcessCall,
    RestartPolicy,
    RestartScope,
    Role,
    SuccessPolicy,
)
from windlass.model.kubernetes import KubernetesOptions
from windlass.model.quantities import parse_duration
from windlass.model.resources import Resources
from windlass.packaging.params import describe_params

if TYPE_CHECKING:
    from windlass.client.session import Client
    from windlass.client.submission import Draft

_BACKOFF_LIMIT = 6

E = TypeVar("E", bound=Enum)


@dataclass(frozen=True)
class Ready:
    """A job that makes sense: all that is needed to package it and send it."""

    name: str
    experiment: str
    outline: JobSpec
    place: Surroundings | None  # none: all of it is packaged
    packaged: Mapping[str, Packaged]  # the roles that are, by name
    programs: Sequence[Call | ProcessCall]
    params: Mapping[str, Any]
    arguments: Mapping[str, Any]  # by role, as far as they can be given again
    secrets: Mapping[str, str] = field(repr=False)
    packages: Sequence[str] | str | None
    template: str = ""  # the name of the one it was given fields of
    labels: tuple[str, ...] = ()  # those of its template, and what else it is given

    def draft(self, client: Client, filing: Filing | None = None) -> Draft:
        """Package it: the draft is sent with `client.submit`, or run and watched."""
        where = filing or Filing(experiment=self.experiment)
        recipe = replace(where.recipe, arguments=dict(self.arguments), template=self.template)
        labels = tuple(dict.fromkeys((*self.labels, *where.labels)))
        plan = Plan(
            client,
            self.outline,
            self.place,
            name=self.name,
            filing=replace(where, recipe=recipe, labels=labels),
            secrets=self.secrets,
            packages=self.packages,
            packaged=self.packaged,
        )
        return plan.draft(self.programs, self.params)


def prepare_job(job: Whole, client: Callable[[], Client] | None = None) -> Ready:
    """What a job or a group comes to; what makes no sense is refused before anything is done.

    `client` is whom to ask for its template, if it names one: the default one if none is given.
    """
    template = ""
    labels: tuple[str, ...] = ()
    if job.template is not None:
        from windlass.authoring.templates import used
        from windlass.client.session import default_client

        found = used(job, client or default_client)
        job, template, labels = found.job, found.name, found.labels
    check_job(job)
    refuse_unsupported(job)
    roles = roles_of(job)
    secrets = secret_values(job.secrets)
    what = {name: role.executable for name, role in roles.items()}
    packaged = {name: each for name, each in what.items() if isinstance(each, Packaged)}
    others = [each for each in what.values() if not isinstance(each, Packaged)]
    place = place_of(others) if others else None
    programs = [program_of(role.executable, role.args or (), place) for role in roles.values()]
    recorded = [value for role in roles.values() for value in (role.env or {}).values()]
    recorded += [word for each in programs if isinstance(each, ProcessCall) for word in each.argv]
    keep_secrets(secrets, recorded, "in args= or env=, which are")
    _warn_of_nothing_said(roles)
    name = _default_name(job)
    return Ready(
        name=job.name or name,
        experiment=job.experiment or name,
        outline=outline_of(job),
        place=place,
        packaged=packaged,
        programs=programs,
        params=_params_of(roles, framework_of(job)),
        arguments=_arguments_of(roles),
        secrets=secrets,
        packages=job.packages,
        template=template,
        labels=labels,
    )


def outline_of(job: Whole) -> JobSpec:
    """The job, but for what it runs and where. It has been checked."""
    framework = framework_of(job)
    named = roles_of(job)
    is_alone = not job.framework and [_replicas(role) for role in named.values()] == [1]
    policy = RestartPolicy.NEVER if is_alone else RestartPolicy.ON_FAILURE
    backend = backend_of(job)
    in_pods = _in_pods(job) if backend == KUBERNETES else {}
    roles = tuple(
        Role(
            executable=TO_COME,
            name=name,
            replicas=_replicas(role),
            resources=_resources_of(role.executor),
            env=dict(role.env or {}),
            restart_policy=_policy(RestartPolicy, role.restart_policy, policy),
            service=is_service(name, role, framework),
            kubernetes=in_pods.get(name),
        )
        for name, role in named.items()
    )
    limit = job.backoff_limit
    return JobSpec(
        roles=roles,
        backend=backend,
        volumes=() if in_pods else mounted(job.volumes),
        secret_names=tuple(dict.fromkeys(job.secrets or ())),
        framework=job.framework or "",
        restart_scope=_policy(RestartScope, job.restart_scope, framework.restart_scope),
        backoff_limit=_BACKOFF_LIMIT if limit is None else limit,
        active_deadline=_seconds(job.active_deadline),
        ttl_after_finished=_seconds(job.ttl_after_finished),
        clean_policy=_policy(CleanPolicy, job.clean_policy, CleanPolicy.RUNNING),
        success_policy=_policy(SuccessPolicy, job.success_policy, SuccessPolicy.DEFAULT),
        suspend=job.suspend,
        priority=job.priority or 0,
        keep=keeping(job.keep_last, job.keep_best),
    )


def _replicas(role: Job) -> int:
    return 1 if role.replicas is None else role.replicas


def _resources_of(executor: Executor | None) -> Resources:
    chosen = executor or Local()
    return resources_of(chosen.cpus, chosen.memory, chosen.accelerator)


def _in_pods(job: Whole) -> dict[str, KubernetesOptions]:
    """What each role says of the cluster; one that says nothing runs where the others do."""
    from windlass.authoring.pods import namespaces_of, options_of

    executors = {
        name: role.executor if isinstance(role.executor, Kubernetes) else None
        for name, role in roles_of(job).items()
    }
    namespace = next(iter(namespaces_of(executors.values())), "")
    return {
        name: options_of(each, namespace=namespace, volumes=job.volumes)
        for name, each in executors.items()
    }


def _policy(kind: type[E], value: Any, default: E) -> E:
    return default if value is None else read_policy(kind, value)


def _seconds(duration: str | float | None) -> float | None:
    if duration is None or is_zero(duration):
        return None if duration is None else 0.0
    return parse_duration(duration)


def _default_name(job: Whole) -> str:
    """Named for what it runs: of a group, what the first role does that is no service."""
    framework, roles = framework_of(job), roles_of(job)
    serving = [name for name, role in roles.items() if is_service(name, role, framework)]
    first = next((name for name in roles if name not in serving), *serving[:1])
    return executable_name(roles[first].executable)


def _params_of(roles: Mapping[str, Job], framework: Framework) -> dict[str, Any]:
    """What is recorded of the arguments: by role, unless all that are no services have the same.

    Those of services are then left out: they are not what the trial was about.
    """
    by_role = {
        name: describe_params(params_of(unpacked(role.executable), role.args or ()))
        for name, role in roles.items()
    }
    return joined_params(
        by_role, [name for name, role in roles.items() if is_service(name, role, framework)]
    )


def joined_params(by_role: Mapping[str, dict[str, Any]], services: Sequence[str]) -> dict[str, Any]:
    """The parameters of a trial, of those of its roles.

    >>> joined_params({"worker": {"lr": 0.1}, "ps": {}}, ["ps"])
    {'lr': 0.1}
    """
    training = [by_role[name] for name in by_role if name not in services] or [*by_role.values()]
    if training[0] and all(params == training[0] for params in training):
        return training[0]
    return {name: params for name, params in by_role.items() if params}


def _arguments_of(roles: Mapping[str, Job]) -> dict[str, Any]:
    """The arguments themselves, by role, as far as they can be given again just so."""
    found = {}
    for name, role in roles.items():
        is_function = isinstance(unpacked(role.executable), PythonFunction)
        said = (call_as_json if is_function else words_as_json)(role.args or {})
        if said is not None:
            found[name] = said  # none at all, too: one without says nothing of what it was given
    return found


def _warn_of_nothing_said(roles: Mapping[str, Job]) -> None:
    for role in roles.values():
        if isinstance(unpacked(role.executable), PythonFunction):
            continue  # None is a value like any other there
        for name in nothing_said(role.args or ()):
            warnings.warn(f"args: {name} is None and was left out", stacklevel=callers_level())
