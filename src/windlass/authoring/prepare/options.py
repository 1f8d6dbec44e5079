"""The options of `@wl.run`, with checks of each option and of their combinations.

When a trial imports the user's module, the decorator `@wl.run` is applied again. To keep this
import fast, modules that only a submission needs are imported inside functions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from windlass.authoring.checks.checkpoint_retention import check_retention, retention_rule
from windlass.authoring.checks.options import (
    IS_AWAY,
    OF_EXECUTOR,
    Problem,
    check_backend,
    check_cpus,
    check_env,
    check_framework,
    check_name,
    check_packages,
    check_replicas,
    check_restarts,
    check_secrets,
    check_text,
    check_type,
    check_volumes,
    parse_problems,
    unknown_option,
)
from windlass.model.backends import BACKENDS, KUBERNETES, LOCAL, Capabilities
from windlass.model.errors import InvalidArgument, Unsupported, shown
from windlass.model.hardware.accelerators import parse_accelerator
from windlass.model.text.quantities import parse_duration, parse_size

if TYPE_CHECKING:
    from windlass.authoring.public.executors import Executor
    from windlass.authoring.public.jobs import Job
    from windlass.model.hardware.resources import Resources
    from windlass.model.job import JobSpec, Volume
    from windlass.model.kubernetes.job_options import KubernetesOptions


@dataclass(frozen=True)
class Options:
    """The user-supplied options of a `wl.run` function or a command."""

    accelerator: str | None = None
    cpus: float | None = None
    memory: str | int | None = None
    backend: str | None = None
    container_image: str | None = None
    env: Mapping[str, str] | None = None
    secrets: Sequence[str] | Mapping[str, str] | None = None
    packages: Sequence[str] | str | None = None
    retries: int | None = None
    timeout: str | float | None = None
    name: str | None = None
    experiment: str | None = None
    cluster: str | None = None
    volumes: Mapping[str, str | os.PathLike[str]] | None = None
    spot: bool = False
    replicas: int | None = None
    framework: str | None = None
    template: str | None = None
    keep_last: int | None = None
    keep_best: str | None = None
    executor: Executor | None = None

    def changed(self, changes: Mapping[str, Any], where: str) -> Options:
        """Return a copy of the options with changes, and check the copy."""
        names = [field.name for field in fields(self)]
        chosen = replace(self, **{name: changes[name] for name in changes if name in names})
        unknown = [
            chosen._no_priority() if name == "priority" else unknown_option(name, names)
            for name in changes
            if name not in names
        ]
        return chosen.check(where, unknown)

    def check(self, where: str, problems: Sequence[Problem] = ()) -> Options:
        """Raise one error that lists `problems` and all problems with the options."""
        texts = [text for _, text in (*problems, *self._problems())]
        refused = self._unsupported()
        if texts:
            raise InvalidArgument.of([*texts, *refused], where=where)
        if refused:
            raise Unsupported.of(refused, where=where)
        return self

    # -- what the options come to -----------------------------------------------------

    @property
    def backend_name(self) -> str:
        if self.executor is not None:
            return backend_of_executor(self.executor)
        return self.backend or LOCAL

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the backend, or of the local backend if the backend is unknown."""
        return BACKENDS.get(str(self.backend_name), BACKENDS[LOCAL])

    def outline(self) -> JobSpec:
        """Build the job's specification, without its code and executable."""
        from windlass.authoring.prepare.draft import TO_COME
        from windlass.model.job import JobSpec, RestartPolicy, RestartScope, Role

        is_here = self.capabilities.runs_on_server
        chosen = self._executor()
        name, scope = "main", RestartScope.REPLICA
        if self.framework:
            from windlass.frameworks import find_framework

            framework = find_framework(self.framework)
            name, scope = framework.default_role, framework.restart_scope
        role = Role(
            executable=TO_COME,
            name=name,
            replicas=1 if self.replicas is None else self.replicas,
            resources=build_resources(chosen.cpus, chosen.memory, chosen.accelerator),
            env=dict(self.env or {}),
            # By default, a function runs only once.
            restart_policy=RestartPolicy.ON_FAILURE if self.retries else RestartPolicy.NEVER,
            kubernetes=self._in_pods() if self.backend_name == KUBERNETES else None,
        )
        return JobSpec(
            roles=(role,),
            backend=self.backend_name,
            volumes=build_volumes(self.volumes) if is_here else (),
            secret_names=tuple(dict.fromkeys(self.secrets or ())),
            framework=self.framework or "",
            restart_scope=scope,
            backoff_limit=self.retries or 0,
            active_deadline=None if self.timeout is None else parse_duration(self.timeout),
            keep=retention_rule(self.keep_last, self.keep_best),
        )

    def job(self, function: Any) -> Job:
        """Return a `wl.Job` that runs a function with these options."""
        from windlass.authoring.public.executables import PythonFunction
        from windlass.authoring.public.jobs import Job

        restarts: dict[str, Any] = {}
        if self.retries is not None or self.template is None:  # if unset, the template decides
            restarts["restart_policy"] = "OnFailure" if self.retries else "Never"
            restarts["backoff_limit"] = self.retries or 0
        return Job(
            PythonFunction(function),
            env=self.env,
            executor=self._executor(),
            replicas=self.replicas,
            **restarts,
            active_deadline=self.timeout,
            framework=self.framework,
            name=self.name,
            template=self.template,
            packages=self.packages,
            secrets=self.secrets,
            volumes=self.volumes,
            keep_last=self.keep_last,
            keep_best=self.keep_best,
        )

    def _executor(self) -> Executor:
        from windlass.authoring.public.executors import EXECUTORS

        if self.executor is not None:
            return self.executor
        names = (*OF_EXECUTOR, *self.capabilities.executor_options)
        options = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return EXECUTORS[self.backend_name](**options)

    def _in_pods(self) -> KubernetesOptions:
        from windlass.authoring.checks.kubernetes import build_options
        from windlass.authoring.public.executors import Kubernetes

        chosen = self._executor()
        assert isinstance(chosen, Kubernetes)  # noqa: S101 -- the only other backend
        return build_options(chosen, volumes=self.volumes)

    def secret_values(self) -> dict[str, str]:
        """Return the secrets by name.

        If only names are set, this environment supplies the values.
        """
        return secret_values(self.secrets)

    def without_secret_values(self) -> Options:
        """Return the options with secrets' names but without their values."""
        return replace(self, secrets=tuple(self.secrets)) if self.secrets else self

    # -- what can be wrong with them --------------------------------------------------

    def _problems(self) -> list[Problem]:
        return [
            *check_resources(self.cpus, self.memory, self.accelerator),
            *parse_problems("timeout", self.timeout, parse_duration),
            *check_backend(self.backend),
            *(check_restarts("retries", self.retries) if self.retries is not None else ()),
            *(check_replicas(self.replicas) if self.replicas is not None else ()),
            *check_framework(self.framework),
            *check_name("name", self.name),
            *check_name("experiment", self.experiment),
            *check_name("template", self.template),
            *check_text("container_image", self.container_image),
            *check_text("cluster", self.cluster),
            *check_type("spot", self.spot, bool, "True or False"),
            *check_env(self.env),
            *check_secrets(self.secrets),
            *check_volumes(self.volumes, str(self.backend_name)),
            *check_packages(self.packages),
            *check_retention(self.keep_last, self.keep_best),
            *check_executor(self.executor),
            *self._beside_executor(),
        ]

    def _beside_executor(self) -> list[Problem]:
        """Return a problem for each option that must be set on the executor instead."""
        if self.executor is None:
            return []
        names = ("backend", "accelerator", "cpus", "memory", "container_image")
        kind = f"wl.{type(self.executor).__name__}"
        return [
            (
                (name,),
                f"{name}: the executor already sets this\n"
                + (
                    f"Remove {name}, or use another executor."
                    if name == "backend"
                    else f"Set it on the executor: executor={kind}({name}={shown(value)})"
                ),
            )
            for name in names
            if (value := getattr(self, name)) is not None
        ]

    def _no_priority(self) -> Problem:
        """Return a problem which says that functions have no `priority` option."""
        flaw = "there is no option 'priority'"
        if self.capabilities.has_priority:
            return ("priority",), (
                f"{flaw}: only jobs and pending trials have one\n"
                "Write wl.Job(wl.PythonFunction(...), priority=...).submit(), or call "
                "trial.set_priority(...) later"
            )
        flaw += ": the scheduler of the cluster orders pods by their priority class"
        if self.executor is not None:
            return (
                "priority",
            ), f"{flaw}\nSet it on the executor: wl.Kubernetes(priority_class=...)"
        names = ("accelerator", "cpus", "memory", "container_image")
        settings = [f"{name}={shown(value)}, " for name in names if (value := getattr(self, name))]
        return ("priority",), (
            f"{flaw}\nWrite executor=wl.Kubernetes({''.join(settings)}priority_class=...) "
            'in place of backend="kubernetes".'
        )

    def _unsupported(self) -> list[str]:
        refused = unsupported_executor(self.executor)
        reasons = self.capabilities.refused_options
        refused += [
            f"{name}: backend {self.backend_name!r} {reason}"
            for name, reason in reasons.items()
            if getattr(self, name) not in (None, False)
        ]
        return refused


def backend_of_executor(executor: Any) -> str:
    """Return an executor's backend, or "local" for an unsupported executor.

    >>> from windlass.authoring.public.executors import Kubernetes
    >>> backend_of_executor(Kubernetes(queue="team-a"))
    'kubernetes'
    """
    backend = getattr(type(executor), "backend", LOCAL)
    return backend if backend in BACKENDS else LOCAL


def check_executor(executor: Any) -> list[Problem]:
    """Return the problems with an executor."""
    if executor is None:
        return []
    from windlass.authoring.public.executors import EXECUTORS, Executor, Kubernetes, Local

    if not isinstance(executor, Executor):
        named = executor if isinstance(executor, str) else getattr(executor, "backend", LOCAL)
        kind = EXECUTORS.get(named, Local) if isinstance(named, str) else Local
        meant = f"wl.{kind.__name__}(cpus=2)"
        return [(("executor",), f"executor: {shown(executor)} is not an executor; write {meant}")]
    problems = check_resources(executor.cpus, executor.memory, executor.accelerator)
    if isinstance(executor, Kubernetes) and not IS_AWAY:
        from windlass.authoring.checks.kubernetes import check_pods

        problems += check_pods(executor)
    return [(("executor", *keys), f"executor: {text}") for keys, text in problems]


def unsupported_executor(executor: Any) -> list[str]:
    """Return why Windlass cannot run jobs on an executor, as a list, or [] if it can."""
    kind = type(executor)
    if getattr(kind, "backend", LOCAL) in BACKENDS:
        return []
    return [
        f"executor: Windlass does not run jobs on wl.{kind.__name__} yet\n"
        "Run the job on the machine of the server: executor=wl.Local(cpus=..., memory=...)"
    ]


def check_resources(cpus: Any, memory: Any, accelerator: Any) -> list[Problem]:
    """Return the problems with the options `cpus`, `memory` and `accelerator`."""
    return [
        *parse_problems("accelerator", accelerator, parse_accelerator),
        *check_cpus(cpus),
        *parse_problems("memory", memory, parse_size),
    ]


def build_resources(
    cpus: float | None, memory: str | int | None, accelerator: str | None
) -> Resources:
    """Build a replica's resources.

    If `cpus` is set, numeric libraries use that many threads.
    """
    from windlass.model.hardware.resources import Accelerator, Resources

    kind, count = parse_accelerator(accelerator) or ("", 0)
    return Resources(
        cpus=float(cpus) if cpus is not None else 1.0,
        threads=max(int(cpus), 1) if cpus is not None else 0,
        memory=parse_size(memory) if memory is not None else 0,
        accelerator=Accelerator(kind=kind, count=count) if count else None,
    )


def build_volumes(volumes: Mapping[str, str | os.PathLike[str]] | None) -> tuple[Volume, ...]:
    """Convert a job's volumes to structs with absolute source paths."""
    from windlass.model.job import Volume

    return tuple(
        Volume(target=target, source=os.path.abspath(os.path.expanduser(source)))
        for target, source in (volumes or {}).items()
    )


def secret_values(secrets: Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    """Return the secrets by name. If only names are given, this environment supplies the values."""
    if secrets is None:
        return {}
    if isinstance(secrets, Mapping):
        return dict(secrets)
    missing = [name for name in secrets if name not in os.environ]
    if missing:
        raise InvalidArgument.of(
            [
                f"secret {name!r} is not set in this environment\n"
                f'Set it first (export {name}=...), or pass the value: secrets={{"{name}": ...}}'
                for name in missing
            ]
        )
    return {name: os.environ[name] for name in secrets}


def refuse_recorded_secrets(
    secrets: Mapping[str, str], recorded: Iterable[str], where: str
) -> None:
    """Raise an error if a secret occurs in text that will be recorded."""
    from windlass.packaging.draft import SHORTEST_SECRET

    texts = list(recorded) if secrets else []
    for name, value in secrets.items():
        if len(value) >= SHORTEST_SECRET and any(value in text for text in texts):
            raise InvalidArgument(
                f"The value of the secret {name} is {where} recorded.",
                hint=f"Read the secret in the program, from the environment variable {name}.",
            )
