"""Translates a TFJob or PyTorchJob object into a job.

All functions are pure. If the object is invalid, a single error names the paths of all invalid
fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass.frameworks.problems import find_framework_problems
from windlass.kube.api.resource_kinds import Object, location_of, uid_of
from windlass.model.errors import InvalidArgument, shown
from windlass.model.job import (
    CleanPolicy,
    Job,
    JobSpec,
    ProcessCall,
    RestartPolicy,
    RestartScope,
    Role,
    SuccessPolicy,
)
from windlass.operator.job_kinds import BY_NAME, OUR_NAMES, JobKind
from windlass.operator.jobs.template_schema import ELASTIC, TEMPLATE, misshapen
from windlass.operator.names import address_of, name_problem, replica_name

DEFAULT_BACKOFF_LIMIT = 6
MOST_REPLICAS = 1000  # limited by the size of the annotation that stores their status
_MOST_DIGITS = 6  # the most digits in the number of processes per node
_LAST_PORT = 65535
_SERVICES = ("ps", "evaluator")
_LEADERS = ("chief", "master")
_WORKER = "worker"


class Elastic(msgspec.Struct, frozen=True, kw_only=True):
    """The rendezvous settings of an elastic PyTorchJob."""

    least: int
    most: int
    backend: str = "c10d"
    host: str = ""
    port: int = 0
    id: str = ""
    conf: str = ""
    max_restarts: int | None = None
    standalone: bool = False


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """A job together with its pods' templates and settings."""

    kind: JobKind
    job: Job
    namespace: str
    templates: dict[str, Object]  # by role
    ports: dict[str, int]  # by role
    priority_class: str = ""
    processes: str = ""  # per node, for PyTorchJob: a number, "auto", "gpu", "cpu"
    elastic: Elastic | None = None
    has_dynamic_workers: bool = False

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each replica, as a mapping from "role-index" to "host:port"."""
        return {
            f"{role.name}-{index}": address_of(
                self.job.name, self.namespace, role.name, index, self.ports[role.name]
            )
            for role in self.job.spec.roles
            for index in range(role.replicas)
        }

    @property
    def leader(self) -> str:
        """The role whose replica 0 determines the result of the job."""
        names = [role.name for role in self.job.spec.roles if role.replicas]
        return next((name for name in (*_LEADERS, _WORKER) if name in names), "")


def is_ours(obj: Object) -> bool:
    """Return whether this operator, rather than another one, manages an object.

    The object's field `managedBy` names its operator.
    """
    policy = (obj.get("spec") or {}).get("runPolicy")
    manager = policy.get("managedBy") if isinstance(policy, Mapping) else ""
    return (manager or "") in OUR_NAMES


def translate(obj: Object) -> Translation:
    """Translate an object. Raise an `InvalidArgument` that lists all invalid fields, if any."""
    kind = BY_NAME[obj["kind"]]
    namespace, name = location_of(obj)
    reader = _Reader()
    spec = reader.mapping(obj, "spec")
    policy = reader.mapping(spec, "runPolicy", "spec.")
    scheduling = reader.mapping(policy, "schedulingPolicy", "spec.runPolicy.")
    read = _read_roles(kind, spec, reader)
    roles = tuple(role for role, _, _ in read)
    elastic = _read_elastic(spec, roles, reader) if "elasticPolicy" in spec else None
    is_torch = kind.framework == "torch"
    processes = _processes(spec, reader) if is_torch else ""
    together = is_torch and elastic is None
    job_spec = JobSpec(
        roles=roles,
        framework=kind.framework,
        restart_scope=RestartScope.JOB if together else RestartScope.REPLICA,
        backoff_limit=reader.number(
            policy, "backoffLimit", "spec.runPolicy.", default=DEFAULT_BACKOFF_LIMIT
        ),
        active_deadline=_seconds(reader, policy, "activeDeadlineSeconds", least=1),
        ttl_after_finished=_seconds(reader, policy, "ttlSecondsAfterFinished", least=0),
        clean_policy=reader.choice(policy, "cleanPodPolicy", CleanPolicy, CleanPolicy.NONE),
        success_policy=_success_policy(kind, spec, roles, reader),
        suspend=policy.get("suspend") is True,
    )
    problems = [*reader.problems, *_problems(kind, name, job_spec)]
    if problems:
        raise InvalidArgument.of(problems)
    return Translation(
        kind=kind,
        job=Job(uid=uid_of(obj), trial_id=0, name=name, spec=job_spec),
        namespace=namespace,
        templates={role.name: template for role, template, _ in read},
        ports={role.name: port for role, _, port in read},
        priority_class=str(scheduling.get("priorityClass") or ""),
        processes=processes,
        elastic=elastic,
        has_dynamic_workers=spec.get("enableDynamicWorker") is True,
    )


def invalid_job(obj: Object) -> Job:
    """Return a placeholder job for an invalid object.

    The job has no replicas and keeps only the object's time to live.
    """
    reader = _Reader()  # the problems that it collects were already reported
    policy = reader.mapping(reader.mapping(obj, "spec"), "runPolicy")
    ttl = _seconds(reader, policy, "ttlSecondsAfterFinished", least=0)
    spec = JobSpec(roles=(), clean_policy=CleanPolicy.RUNNING, ttl_after_finished=ttl)
    return Job(uid=uid_of(obj), trial_id=0, name=location_of(obj)[1], spec=spec)


class _Reader:
    """Reads fields of an object and collects all problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def mapping(self, of: Mapping[str, Any], field: str, where: str = "") -> Mapping[str, Any]:
        value = of.get(field)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.problems.append(f"{where}{field}: must be an object, not {shown(value)}")
            return {}
        return value

    def shaped(
        self, of: Mapping[str, Any], field: str, shape: Any, where: str
    ) -> Mapping[str, Any] | None:
        """Return the value of a field, or None if the value does not match the schema."""
        value = of.get(field)
        problems = [] if value is None else list(misshapen(value, shape, f"{where}{field}"))
        self.problems += problems
        return None if problems else value or {}

    def number(
        self,
        of: Mapping[str, Any],
        field: str,
        where: str,
        *,
        default: int,
        least: int = 0,
        most: int | None = None,
    ) -> int:
        value = of.get(field)
        if value is None:
            return default
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or value < least or (most is not None and value > most):
            bounds = f"{least} or more" if most is None else f"from {least} to {most}"
            self.problems.append(f"{where}{field}: is {shown(value)}; it must be {bounds}")
            return default
        return int(value)

    def choice(self, of: Mapping[str, Any], field: str, kind: Any, default: Any) -> Any:
        value = of.get(field)
        if value in (None, ""):
            return default
        try:
            return kind(value)
        except ValueError:
            choices = ", ".join(member.value for member in kind)
            self.problems.append(f"spec.runPolicy.{field}: {shown(value)} is not one of {choices}")
            return default


def _read_roles(
    kind: JobKind, spec: Mapping[str, Any], reader: _Reader
) -> list[tuple[Role, Object, int]]:
    """Return each role, its pod template and its port. Leaders come first."""
    path = f"spec.{kind.replica_specs}"
    replica_specs = reader.mapping(spec, kind.replica_specs, "spec.")
    if not replica_specs:
        reader.problems.append(f"{path}: it is empty; add at least a Worker")
    by_type: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for written in sorted(replica_specs):
        wanted = next((type_ for type_ in kind.types if type_.lower() == written.lower()), "")
        if not wanted:
            types = ", ".join(kind.types)
            reader.problems.append(f"{path}: a {kind.name} has no {written!r}; it has: {types}")
        elif wanted in by_type:
            reader.problems.append(f"{path}: {by_type[wanted][0]!r} and {written!r} are the same")
        else:
            by_type[wanted] = (written, reader.mapping(replica_specs, written, f"{path}."))
    roles = []
    for type_ in kind.types:
        if type_ in by_type:
            written, fields = by_type[type_]
            roles.append(_read_role(kind, type_, fields, f"{path}.{written}", reader))
    return roles


def _read_role(
    kind: JobKind, type_: str, fields: Mapping[str, Any], path: str, reader: _Reader
) -> tuple[Role, Object, int]:
    name = type_.lower()
    template = reader.shaped(fields, "template", TEMPLATE, f"{path}.")
    position, container = (0, {}) if template is None else _container(kind, template, path, reader)
    port = kind.port
    for number, container_port in enumerate(container.get("ports") or ()):
        if container_port.get("name") == kind.port_name:
            where = f"{_containers(path)}[{position}].ports[{number}]."
            port = reader.number(
                container_port, "containerPort", where, default=kind.port, least=1, most=_LAST_PORT
            )
    policy = fields.get("restartPolicy") or kind.restart_policy.value
    policies = [member.value for member in RestartPolicy]
    if policy not in policies:
        reader.problems.append(
            f"{path}.restartPolicy: {shown(policy)} is not one of {', '.join(policies)}"
        )
        policy = kind.restart_policy.value
    argv = [*(container.get("command") or ()), *(container.get("args") or ())]
    role = Role(
        name=name,
        # This command line is only displayed. The template determines what runs.
        executable=ProcessCall(argv=tuple(map(str, argv)) or (str(container.get("image")),)),
        replicas=reader.number(fields, "replicas", f"{path}.", default=1),
        restart_policy=RestartPolicy(policy),
        service=kind.framework == "tensorflow" and name in _SERVICES,
    )
    return role, dict(template or {}), port


def _container(
    kind: JobKind, template: Mapping[str, Any], path: str, reader: _Reader
) -> tuple[int, Mapping[str, Any]]:
    """Return the position and spec of the main container, whose end is the replica's end."""
    where = _containers(path)
    containers = (template.get("spec") or {}).get("containers")
    if not containers:
        reader.problems.append(f"{where}: it is empty; add a container named {kind.container!r}")
        return 0, {}
    for position, container in enumerate(containers):
        if not container.get("image"):
            reader.problems.append(f"{where}[{position}].image: it is missing")
    for position, container in enumerate(containers):
        if container.get("name") == kind.container:
            return position, container
    names = ", ".join(repr(container.get("name")) for container in containers)
    reader.problems.append(
        f"{where}: no container is named {kind.container!r}; rename one of: {names}"
    )
    return 0, {}


def _containers(path: str) -> str:
    """Return the field path of a role's containers."""
    return f"{path}.template.spec.containers"


def _read_elastic(spec: Mapping[str, Any], roles: tuple[Role, ...], reader: _Reader) -> Elastic:
    where = "spec.elasticPolicy."
    policy = reader.shaped(spec, "elasticPolicy", ELASTIC, "spec.") or {}
    replicas = next((role.replicas for role in roles if role.name == _WORKER), 1)
    least = reader.number(policy, "minReplicas", where, default=0, least=1)
    most = reader.number(policy, "maxReplicas", where, default=0, least=1)
    least, most = least or most or replicas, most or least or replicas
    if least > most:
        reader.problems.append(f"{where}minReplicas: is {least}, above maxReplicas, {most}")
    if not any(role.name == _WORKER for role in roles):
        reader.problems.append("spec.elasticPolicy: is for workers, but the job has no workers")
    restarts = policy.get("maxRestarts")
    conf = [
        f"{setting.get('key', '')}={setting.get('value', '')}"
        for setting in policy.get("rdzvConf") or ()
    ]
    return Elastic(
        least=least,
        most=most,
        backend=str(policy.get("rdzvBackend") or "c10d"),
        host=str(policy.get("rdzvHost") or ""),
        port=reader.number(policy, "rdzvPort", where, default=0),
        id=str(policy.get("rdzvId") or ""),
        conf=",".join(conf),
        max_restarts=restarts if isinstance(restarts, int) else None,
        standalone=policy.get("standalone") is True,
    )


def _processes(spec: Mapping[str, Any], reader: _Reader) -> str:
    """Return the number of processes per node as the user wrote it, such as "auto"."""
    elastic = spec.get("elasticPolicy")
    older = elastic.get("nProcPerNode") if isinstance(elastic, Mapping) else None
    written = str(spec.get("nprocPerNode") or older or "auto")
    if written.isdigit() and len(written) > _MOST_DIGITS:
        count = shown(written)
        reader.problems.append(f"spec.nprocPerNode: {count} are too many processes for a node")
    return written


def _seconds(reader: _Reader, policy: Mapping[str, Any], field: str, *, least: int) -> float | None:
    if policy.get(field) is None:
        return None
    return float(reader.number(policy, field, "spec.runPolicy.", default=least, least=least))


def _success_policy(
    kind: JobKind, spec: Mapping[str, Any], roles: tuple[Role, ...], reader: _Reader
) -> SuccessPolicy:
    if kind.framework == "torch":
        has_leader = any(role.name in _LEADERS and role.replicas for role in roles)
        return SuccessPolicy.LEADER if has_leader else SuccessPolicy.DEFAULT
    written = spec.get("successPolicy") or ""
    if written in ("", "Default"):
        return SuccessPolicy.DEFAULT
    if written == SuccessPolicy.ALL_WORKERS.value:
        has_workers = any(role.name == _WORKER and role.replicas for role in roles)
        return SuccessPolicy.ALL_WORKERS if has_workers else SuccessPolicy.DEFAULT
    reader.problems.append(f"spec.successPolicy: {shown(written)} is not one of '', 'AllWorkers'")
    return SuccessPolicy.DEFAULT


def _problems(kind: JobKind, name: str, spec: JobSpec) -> Iterator[str]:
    """Yield problems that concern the whole job rather than one field."""
    if not spec.roles:
        return
    for problem in find_framework_problems(spec):
        yield f"spec.{kind.replica_specs}: {problem}"
    total = sum(role.replicas for role in spec.roles)
    if total > MOST_REPLICAS:
        most = f"{MOST_REPLICAS} is the limit"
        yield f"spec.{kind.replica_specs}: {total} replicas are too many; {most}"
    names = [replica_name(name, role.name, max(role.replicas - 1, 0)) for role in spec.roles]
    if problem := name_problem(name, max(names, key=len)):
        yield problem
