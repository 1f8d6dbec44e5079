"""The options of `@wl.run`, checked all at once before anything is packaged.

A trial imports the module its function is from, and so decorates again: what only a submission
needs is imported there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from windlass.authoring.checks import (
    IS_AWAY,
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
    parsing,
    unknown_option,
)
from windlass.authoring.keeping import check_keeping, keeping
from windlass.model.accelerators import parse_accelerator
from windlass.model.errors import InvalidArgument, Unsupported, shown
from windlass.model.quantities import parse_duration, parse_size

if TYPE_CHECKING:
    from windlass.authoring.executors import Executor
    from windlass.authoring.jobs import Job
    from windlass.model.job import JobSpec, Volume
    from windlass.model.kubernetes import KubernetesOptions
    from windlass.model.resources import Resources

SHORTEST_SECRET = 4  # what is shorter is found in any text, and not masked anywhere either


@dataclass(frozen=True)
class Options:
    """How a function or command is to be run, as the user wrote it."""

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
        """The same options but for some, all of them checked."""
        known = [field.name for field in fields(self)]
        chosen = replace(self, **{name: changes[name] for name in changes if name in known})
        unknown = [
            chosen._no_priority() if name == "priority" else unknown_option(name, known)
            for name in changes
            if name not in known
        ]
        return chosen.check(where, unknown)

    def check(self, where: str, found: Sequence[Problem] = ()) -> Options:
        """Refuse what makes no sense, all of it in one error with what was found before."""
        problems = [text for _, text in (*found, *self._nonsense())]
        refused = self._unsupported()
        if problems:
            raise InvalidArgument.of([*problems, *refused], where=where)
        if refused:
            raise Unsupported.of(refused, where=where)
        return self

    # -- what the options come to -----------------------------------------------------

    @property
    def backend_name(self) -> str:
        if self.executor is not None:
            return backend_of_executor(self.executor)
        return self.backend or "local"

    def outline(self) -> JobSpec:
        """The job, but for what it runs and where: the same in every replica."""
        from windlass.authoring.drafting import TO_COME
        from windlass.model.job import LOCAL, JobSpec, RestartPolicy, RestartScope, Role

        is_local, chosen = self.backend_name == LOCAL, self._executor()
        name, scope = "main", RestartScope.REPLICA
        if self.framework:
            from windlass.frameworks import find_framework

            framework = find_framework(self.framework)
            name, scope = framework.default_role, framework.restart_scope
        role = Role(
            executable=TO_COME,
            name=name,
            replicas=1 if self.replicas is None else self.replicas,
            resources=resources_of(chosen.cpus, chosen.memory, chosen.accelerator),
            env=dict(self.env or {}),
            # A function runs once unless retries are asked for.
            restart_policy=RestartPolicy.ON_FAILURE if self.retries else RestartPolicy.NEVER,
            kubernetes=None if is_local else self._in_pods(),
        )
        return JobSpec(
            roles=(role,),
            backend=self.backend_name,
            volumes=mounted(self.volumes) if is_local else (),
            secret_names=tuple(dict.fromkeys(self.secrets or ())),
            framework=self.framework or "",
            restart_scope=scope,
            backoff_limit=self.retries or 0,
            active_deadline=None if self.timeout is None else parse_duration(self.timeout),
            keep=keeping(self.keep_last, self.keep_best),
        )

    def job(self, function: Any) -> Job:
        """A job that runs a function so."""
        from windlass.authoring.executables import PythonFunction
        from windlass.authoring.jobs import Job

        restarts: dict[str, Any] = {}
        if self.retries is not None or self.template is None:  # else the template says
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
        from windlass.authoring.executors import Kubernetes, Local

        if self.executor is not None:
            return self.executor
        asked: dict[str, Any] = {
            "cpus": self.cpus,
            "memory": self.memory,
            "accelerator": self.accelerator,
        }
        if self.backend_name == "kubernetes":
            return Kubernetes(container_image=self.container_image, **asked)
        return Local(**asked)

    def _in_pods(self) -> KubernetesOptions:
        from windlass.authoring.executors import Kubernetes
        from windlass.authoring.pods import options_of

        chosen = self._executor()
        assert isinstance(chosen, Kubernetes)  # noqa: S101 -- it is neither here nor refused
        return options_of(chosen, volumes=self.volumes)

    def secret_values(self) -> dict[str, str]:
        """The secrets, those given by name alone taken from this environment now."""
        return secret_values(self.secrets)

    def without_secret_values(self) -> Options:
        """The same options, secrets by name alone."""
        return replace(self, secrets=tuple(self.secrets)) if self.secrets else self

    # -- what can be wrong with them --------------------------------------------------

    def _nonsense(self) -> list[Problem]:
        return [
            *check_resources(self.cpus, self.memory, self.accelerator),
            *parsing("timeout", self.timeout, parse_duration),
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
            *check_keeping(self.keep_last, self.keep_best),
            *check_executor(self.executor),
            *self._beside_executor(),
        ]

    def _beside_executor(self) -> list[Problem]:
        """What an executor says, and is said another time."""
        if self.executor is None:
            return []
        names = ("backend", "accelerator", "cpus", "memory", "container_image")
        kind = f"wl.{type(self.executor).__name__}"
        return [
            (
                (name,),
                f"{name}: there is an executor, which says that\n"
                + (
                    f"Leave {name} out, or give another executor."
                    if name == "backend"
                    else f"Write it there: executor={kind}({name}={shown(given)})"
                ),
            )
            for name in names
            if (given := getattr(self, name)) is not None
        ]

    def _no_priority(self) -> Problem:
        """That a function has none, and what says instead who is let in first."""
        flaw = "there is no option 'priority'"
        if self.backend_name != "kubernetes":
            return ("priority",), (
                f"{flaw}: it is one of jobs, and of trials that wait\n"
                "Write wl.Job(wl.PythonFunction(...), priority=...).submit(), or afterwards "
                "trial.set_priority(...)"
            )
        flaw += ": the cluster's scheduler lets pods in, by their priority class"
        if self.executor is not None:
            return ("priority",), f"{flaw}\nWrite it there: wl.Kubernetes(priority_class=...)"
        names = ("accelerator", "cpus", "memory", "container_image")
        said = [f"{name}={shown(given)}, " for name in names if (given := getattr(self, name))]
        return ("priority",), (
            f"{flaw}\nWrite executor=wl.Kubernetes({''.join(said)}priority_class=...) in place of "
            'backend="kubernetes".'
        )

    def _unsupported(self) -> list[str]:
        refused = unsupported_executor(self.executor)
        where, is_local = f"backend {self.backend_name!r}", self.backend_name == "local"
        if self.container_image is not None and is_local:
            refused.append(
                f"container_image: {where} runs plain processes, not containers\n"
                "Use packages= for what the code needs, and leave container_image out."
            )
        if self.cluster is not None:
            why = "is this one machine and has no" if is_local else "has no standing"
            refused.append(f"cluster: {where} {why} clusters\nLeave cluster out.")
        if self.spot:
            why = "has no spot machines, nothing here is taken away\nLeave spot out."
            if not is_local:
                why = (
                    "takes any node\nName the nodes: wl.Kubernetes(node_selector=...) of a wl.Job."
                )
            refused.append(f"spot: {where} {why}")
        return refused


def backend_of_executor(executor: Any) -> str:
    """The backend that an executor is of.

    >>> from windlass.authoring.executors import Kubernetes
    >>> backend_of_executor(Kubernetes(queue="team-a"))
    'kubernetes'
    """
    return "kubernetes" if type(executor).__name__ == "Kubernetes" else "local"


def check_executor(executor: Any) -> list[Problem]:
    """What is wrong with where a replica is to run."""
    if executor is None:
        return []
    from windlass.authoring.executors import Executor, Kubernetes

    if not isinstance(executor, Executor):
        is_named = isinstance(executor, str) and executor == "kubernetes"
        in_pods = executor is Kubernetes or is_named
        meant = "wl.Kubernetes(cpus=2)" if in_pods else "wl.Local(cpus=2)"
        return [(("executor",), f"executor: {shown(executor)} is no executor; write {meant}")]
    found = check_resources(executor.cpus, executor.memory, executor.accelerator)
    if isinstance(executor, Kubernetes) and not IS_AWAY:
        from windlass.authoring.pods import check_pods

        found += check_pods(executor)
    return [(("executor", *keys), f"executor: {text}") for keys, text in found]


def unsupported_executor(executor: Any) -> list[str]:
    """Why a replica cannot run where it makes sense to run it."""
    if type(executor).__name__ != "Ray":
        return []
    return [
        "executor: no server runs jobs on wl.Ray yet\n"
        "Run it on the server's own machine: executor=wl.Local(cpus=..., memory=...)"
    ]


def check_resources(cpus: Any, memory: Any, accelerator: Any) -> list[Problem]:
    """What is wrong with what one replica asks for."""
    return [
        *parsing("accelerator", accelerator, parse_accelerator),
        *check_cpus(cpus),
        *parsing("memory", memory, parse_size),
    ]


def resources_of(
    cpus: float | None, memory: str | int | None, accelerator: str | None
) -> Resources:
    """What one replica asks for."""
    from windlass.model.resources import Accelerator, Resources

    asked = parse_accelerator(accelerator)
    return Resources(
        cpus=float(cpus) if cpus is not None else 1.0,
        memory=parse_size(memory) if memory is not None else 0,
        accelerator=Accelerator(kind=asked[0], count=asked[1]) if asked else None,
    )


def mounted(volumes: Mapping[str, str | os.PathLike[str]] | None) -> tuple[Volume, ...]:
    """The volumes, their sources made absolute."""
    from windlass.model.job import Volume

    return tuple(
        Volume(target=target, source=os.path.abspath(os.path.expanduser(source)))
        for target, source in (volumes or {}).items()
    )


def secret_values(secrets: Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    """The secrets, those given by name alone taken from this environment now."""
    if secrets is None:
        return {}
    if isinstance(secrets, Mapping):
        return dict(secrets)
    missing = [name for name in secrets if name not in os.environ]
    if missing:
        raise InvalidArgument.of(
            [
                f"secret {name!r} is not set in this environment\n"
                f'Set it first (export {name}=...), or give it: secrets={{"{name}": ...}}'
                for name in missing
            ]
        )
    return {name: os.environ[name] for name in secrets}


def keep_secrets(secrets: Mapping[str, str], recorded: Iterable[str], where: str) -> None:
    """Refuse a secret where it would be recorded."""
    texts = list(recorded) if secrets else []
    for name, value in secrets.items():
        if len(value) >= SHORTEST_SECRET and any(value in text for text in texts):
            raise InvalidArgument(
                f"The value of the secret {name} is {where} recorded.",
                hint=f"Let the program read it from its environment: it finds it in {name}.",
            )
