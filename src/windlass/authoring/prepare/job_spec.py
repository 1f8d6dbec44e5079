"""Prepares a job for submission: builds the job's spec, its programs and the request."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from windlass.authoring.checks.checkpoint_retention import retention_rule
from windlass.authoring.checks.command_line import dropped_names
from windlass.authoring.checks.job import (
    backend_of,
    check_job,
    framework_of,
    is_service,
    is_zero,
    refuse_unsupported,
    roles_of,
)
from windlass.authoring.checks.options import callers_level
from windlass.authoring.checks.policies import read_policy
from windlass.authoring.prepare.call_site import CallSite
from windlass.authoring.prepare.draft import TO_COME, Filing, Plan, default_filing
from windlass.authoring.prepare.exact_json import call_as_json, words_as_json
from windlass.authoring.prepare.options import (
    build_resources,
    build_volumes,
    refuse_recorded_secrets,
    secret_values,
)
from windlass.authoring.prepare.programs import (
    build_program,
    executable_name,
    find_call_site,
    record_params,
    unwrap,
)
from windlass.authoring.public.executables import PythonFunction
from windlass.authoring.public.executors import Executor, Kubernetes, Local
from windlass.authoring.public.jobs import Job, JobBase
from windlass.authoring.public.packaged import Packaged
from windlass.frameworks import Framework
from windlass.model.backends import KUBERNETES, capabilities_of
from windlass.model.hardware.resources import Resources
from windlass.model.job import (
    CleanPolicy,
    JobSpec,
    ProcessCall,
    RestartPolicy,
    RestartScope,
    Role,
    SuccessPolicy,
)
from windlass.model.kubernetes.job_options import KubernetesOptions
from windlass.model.text.quantities import parse_duration
from windlass.packaging.draft import Call
from windlass.packaging.params import describe_params

if TYPE_CHECKING:
    from windlass.client.client import Client
    from windlass.packaging.draft import Draft

_BACKOFF_LIMIT = 6

E = TypeVar("E", bound=Enum)


@dataclass(frozen=True)
class PreparedJob:
    """A checked job with everything needed to submit it."""

    name: str
    where: Filing
    outline: JobSpec
    call_site: CallSite | None  # None if all executables are packaged
    packaged: Mapping[str, Packaged]  # packaged executables, by role
    programs: Sequence[Call | ProcessCall]
    params: Mapping[str, Any]
    arguments: Mapping[str, Any]  # by role, only where JSON represents them exactly
    secrets: Mapping[str, str] = field(repr=False)
    packages: Sequence[str] | str | None
    template: str = ""  # name of the template
    labels: tuple[str, ...] = ()  # labels from the template and the options

    def draft(self, client: Client, filing: Filing | None = None) -> Draft:
        """Package the code and build the request that `client.submit` sends."""
        filing = self.filing(filing)
        return self.plan(client, filing).draft(self.programs, self.params)

    def filing(self, filing: Filing | None = None) -> Filing:
        """Return the trial's filing, including the job's recipe and labels."""
        where = filing or self.where
        recipe = replace(where.recipe, arguments=dict(self.arguments), template=self.template)
        labels = tuple(dict.fromkeys((*self.labels, *where.labels)))
        return replace(where, recipe=recipe, labels=labels)

    def plan(self, client: Client, filing: Filing) -> Plan:
        """Package the code and return a plan, which can be shared by jobs with other arguments."""
        return Plan(
            client,
            self.outline,
            self.call_site,
            name=self.name,
            filing=filing,
            secrets=self.secrets,
            packages=self.packages,
            packaged=self.packaged,
        )


def prepare_job(
    job: JobBase,
    client: Callable[[], Client] | None = None,
    *,
    similar: PreparedJob | None = None,
) -> PreparedJob:
    """Check a job or a group and prepare it for submission.

    `client` reads the job's template, if the job has one. By default, this is the default client.
    `similar` is the same job with other arguments, so its call site is reused.
    """
    template = ""
    labels: tuple[str, ...] = ()
    if job.template is not None:
        from windlass.authoring.public.templates import apply_template
        from windlass.client.client import default_client

        template_use = apply_template(job, client or default_client)
        job, template, labels = template_use.job, template_use.name, template_use.labels
    check_job(job)
    refuse_unsupported(job)
    roles = roles_of(job)
    secrets = secret_values(job.secrets)
    what = {name: role.executable for name, role in roles.items()}
    packaged = {name: item for name, item in what.items() if isinstance(item, Packaged)}
    others = [item for item in what.values() if not isinstance(item, Packaged)]
    if similar is not None:
        call_site = similar.call_site
    else:
        call_site = find_call_site(others) if others else None
    programs = [
        build_program(role.executable, role.args or (), call_site) for role in roles.values()
    ]
    recorded = [value for role in roles.values() for value in (role.env or {}).values()]
    recorded += [
        word for program in programs if isinstance(program, ProcessCall) for word in program.argv
    ]
    refuse_recorded_secrets(secrets, recorded, "in args= or env=, which are")
    _warn_of_dropped_arguments(roles)
    name = _default_name(job)
    packaged_call_site = next((item.call_site for item in packaged.values()), None)
    return PreparedJob(
        name=job.name or name,
        where=default_filing(job.experiment, name, call_site or packaged_call_site),
        outline=build_outline(job),
        call_site=call_site,
        packaged=packaged,
        programs=programs,
        params=_params_of(roles, framework_of(job)),
        arguments=_record_arguments(roles),
        secrets=secrets,
        packages=job.packages,
        template=template,
        labels=labels,
    )


def build_outline(job: JobBase) -> JobSpec:
    """Build the specification of a checked job, without its code and executables."""
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
        volumes=build_volumes(job.volumes) if capabilities_of(backend).runs_on_server else (),
        secret_names=tuple(dict.fromkeys(job.secrets or ())),
        framework=job.framework or "",
        restart_scope=_policy(RestartScope, job.restart_scope, framework.restart_scope),
        backoff_limit=_BACKOFF_LIMIT if limit is None else limit,
        stop_on_repeat=_stops_on_repeat(job),
        active_deadline=_seconds(job.active_deadline),
        ttl_after_finished=_seconds(job.ttl_after_finished),
        clean_policy=_policy(CleanPolicy, job.clean_policy, CleanPolicy.RUNNING),
        success_policy=_policy(SuccessPolicy, job.success_policy, SuccessPolicy.DEFAULT),
        suspend=job.suspend,
        priority=job.priority or 0,
        keep=retention_rule(job.keep_last, job.keep_best),
    )


def _stops_on_repeat(job: JobBase) -> bool:
    """Return whether a job fails as soon as a replica repeats an early failure.

    This is the default if neither `restart_policy` nor `backoff_limit` is set.
    """
    if job.stop_on_repeat is not None:
        return job.stop_on_repeat
    policies = [role.restart_policy for role in roles_of(job).values()]
    return job.backoff_limit is None and policies == [None] * len(policies)


def _replicas(role: Job) -> int:
    return 1 if role.replicas is None else role.replicas


def _resources_of(executor: Executor | None) -> Resources:
    chosen = executor or Local()
    return build_resources(chosen.cpus, chosen.memory, chosen.accelerator)


def _in_pods(job: JobBase) -> dict[str, KubernetesOptions]:
    """Return the Kubernetes options of each role.

    A role without Kubernetes options gets the other roles' namespace.
    """
    from windlass.authoring.checks.kubernetes import build_options, namespaces_of

    executors = {
        name: role.executor if isinstance(role.executor, Kubernetes) else None
        for name, role in roles_of(job).items()
    }
    namespace = next(iter(namespaces_of(executors.values())), "")
    return {
        name: build_options(executor, namespace=namespace, volumes=job.volumes)
        for name, executor in executors.items()
    }


def _policy(kind: type[E], value: Any, default: E) -> E:
    return default if value is None else read_policy(kind, value)


def _seconds(duration: str | float | None) -> float | None:
    if duration is None or is_zero(duration):
        return None if duration is None else 0.0
    return parse_duration(duration)


def _default_name(job: JobBase) -> str:
    """Return a job's default name, which is the program of its first role that is not a service."""
    framework, roles = framework_of(job), roles_of(job)
    serving = [name for name, role in roles.items() if is_service(name, role, framework)]
    first = next((name for name in roles if name not in serving), *serving[:1])
    return executable_name(roles[first].executable)


def _params_of(roles: Mapping[str, Job], framework: Framework) -> dict[str, Any]:
    """Return the parameters to record for the trial.

    If all roles except services have the same parameters, these are the trial's parameters.
    Otherwise, the parameters are recorded by role.
    """
    by_role = {
        name: describe_params(record_params(unwrap(role.executable), role.args or ()))
        for name, role in roles.items()
    }
    return join_params(
        by_role, [name for name, role in roles.items() if is_service(name, role, framework)]
    )


def join_params(by_role: Mapping[str, dict[str, Any]], services: Sequence[str]) -> dict[str, Any]:
    """Combine the parameters of all roles into the trial's parameters.

    If all roles except `services` have the same parameters, these are the trial's parameters.

    >>> join_params({"worker": {"lr": 0.1}, "ps": {}}, ["ps"])
    {'lr': 0.1}
    """
    training = [by_role[name] for name in by_role if name not in services] or [*by_role.values()]
    if training[0] and all(params == training[0] for params in training):
        return training[0]
    return {name: params for name, params in by_role.items() if params}


def _record_arguments(roles: Mapping[str, Job]) -> dict[str, Any]:
    """Return the arguments to record for each role.

    A role is left out if JSON cannot represent its arguments exactly.
    """
    by_role = {}
    for name, role in roles.items():
        is_function = isinstance(unwrap(role.executable), PythonFunction)
        arguments = (call_as_json if is_function else words_as_json)(role.args or {})
        if arguments is not None:
            # Record even empty arguments, because a missing entry would mean "not recorded".
            by_role[name] = arguments
    return by_role


def _warn_of_dropped_arguments(roles: Mapping[str, Job]) -> None:
    for role in roles.values():
        if isinstance(unwrap(role.executable), PythonFunction):
            continue  # a function may take None as a value
        for name in dropped_names(role.args or ()):
            warnings.warn(f"args: {name} is None and was omitted", stacklevel=callers_level())
