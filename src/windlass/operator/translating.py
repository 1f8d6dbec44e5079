"""Translating: what a TFJob or PyTorchJob object asks for, as a job of ours.

Pure functions of the object. What makes no sense in it is told all at once, each with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass.frameworks.problems import problems_of
from windlass.kube.kinds import Object, place_of, uid_of
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
from windlass.operator.jobkinds import BY_NAME, OUR_NAMES, JobKind
from windlass.operator.names import address_of, name_problem, replica_name
from windlass.operator.shapes import ELASTIC, TEMPLATE, misshapen

DEFAULT_BACKOFF_LIMIT = 6
MOST_REPLICAS = 1000  # what is remembered of them must fit into an annotation
_MOST_DIGITS = 6  # of the number of processes on each node
_LAST_PORT = 65535
_SERVICES = ("ps", "evaluator")
_LEADERS = ("chief", "master")
_WORKER = "worker"


class Elastic(msgspec.Struct, frozen=True, kw_only=True):
    """How the workers of a PyTorchJob meet that may be more or fewer."""

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
    """A job, and what its pods are made from."""

    kind: JobKind
    job: Job
    namespace: str
    templates: dict[str, Object]  # by role
    ports: dict[str, int]  # by role
    priority_class: str = ""
    processes: str = ""  # of a PyTorchJob, on each node: a number, "auto", "gpu", "cpu"
    elastic: Elastic | None = None
    has_dynamic_workers: bool = False

    @property
    def addresses(self) -> dict[str, str]:
        """Where each replica is reached: "role-index" -> "host:port"."""
        return {
            f"{role.name}-{index}": address_of(
                self.job.name, self.namespace, role.name, index, self.ports[role.name]
            )
            for role in self.job.spec.roles
            for index in range(role.replicas)
        }

    @property
    def leader(self) -> str:
        """The role whose replica 0 speaks for the job."""
        names = [role.name for role in self.job.spec.roles if role.replicas]
        return next((name for name in (*_LEADERS, _WORKER) if name in names), "")


def is_ours(thing: Object) -> bool:
    """Whether an object is for this operator, not for one that it names."""
    policy = (thing.get("spec") or {}).get("runPolicy")
    manager = policy.get("managedBy") if isinstance(policy, Mapping) else ""
    return (manager or "") in OUR_NAMES


def translate(thing: Object) -> Translation:
    """The job that an object asks for; `InvalidArgument` with all that makes no sense in it."""
    kind = BY_NAME[thing["kind"]]
    namespace, name = place_of(thing)
    reader = _Reader()
    spec = reader.mapping(thing, "spec")
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
        job=Job(uid=uid_of(thing), trial_id=0, name=name, spec=job_spec),
        namespace=namespace,
        templates={role.name: template for role, template, _ in read},
        ports={role.name: port for role, _, port in read},
        priority_class=str(scheduling.get("priorityClass") or ""),
        processes=processes,
        elastic=elastic,
        has_dynamic_workers=spec.get("enableDynamicWorker") is True,
    )


def remnant(thing: Object) -> Job:
    """The job of an object that makes no sense: nothing of it runs, and it goes in its time."""
    reader = _Reader()  # what is wrong was told
    policy = reader.mapping(reader.mapping(thing, "spec"), "runPolicy")
    ttl = _seconds(reader, policy, "ttlSecondsAfterFinished", least=0)
    spec = JobSpec(roles=(), clean_policy=CleanPolicy.RUNNING, ttl_after_finished=ttl)
    return Job(uid=uid_of(thing), trial_id=0, name=place_of(thing)[1], spec=spec)


class _Reader:
    """Reads fields, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def mapping(self, of: Mapping[str, Any], field: str, where: str = "") -> Mapping[str, Any]:
        found = of.get(field)
        if found is None:
            return {}
        if not isinstance(found, Mapping):
            self.problems.append(f"{where}{field}: must be an object, not {shown(found)}")
            return {}
        return found

    def shaped(
        self, of: Mapping[str, Any], field: str, shape: Any, where: str
    ) -> Mapping[str, Any] | None:
        """What is there; none if a part of it is not what it must be."""
        found = of.get(field)
        problems = [] if found is None else list(misshapen(found, shape, f"{where}{field}"))
        self.problems += problems
        return None if problems else found or {}

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
        found = of.get(field)
        if found is None:
            return default
        is_number = isinstance(found, int) and not isinstance(found, bool)
        if not is_number or found < least or (most is not None and found > most):
            bounds = f"{least} or more" if most is None else f"from {least} to {most}"
            self.problems.append(f"{where}{field}: is {shown(found)}; it must be {bounds}")
            return default
        return int(found)

    def choice(self, of: Mapping[str, Any], field: str, kind: Any, default: Any) -> Any:
        found = of.get(field)
        if found in (None, ""):
            return default
        try:
            return kind(found)
        except ValueError:
            known = ", ".join(each.value for each in kind)
            self.problems.append(f"spec.runPolicy.{field}: {shown(found)} is none of {known}")
            return default


def _read_roles(
    kind: JobKind, spec: Mapping[str, Any], reader: _Reader
) -> list[tuple[Role, Object, int]]:
    """The roles, leaders first, each with its template and its port."""
    path = f"spec.{kind.replica_specs}"
    asked = reader.mapping(spec, kind.replica_specs, "spec.")
    if not asked:
        reader.problems.append(f"{path}: there is no replica; name at least a Worker")
    by_type: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for written in sorted(asked):
        wanted = next((each for each in kind.types if each.lower() == written.lower()), "")
        if not wanted:
            known = ", ".join(kind.types)
            reader.problems.append(f"{path}: a {kind.name} has no {written!r}; it has: {known}")
        elif wanted in by_type:
            reader.problems.append(f"{path}: {by_type[wanted][0]!r} and {written!r} are the same")
        else:
            by_type[wanted] = (written, reader.mapping(asked, written, f"{path}."))
    found = []
    for each in kind.types:
        if each in by_type:
            written, fields = by_type[each]
            found.append(_read_role(kind, each, fields, f"{path}.{written}", reader))
    return found


def _read_role(
    kind: JobKind, type_: str, fields: Mapping[str, Any], path: str, reader: _Reader
) -> tuple[Role, Object, int]:
    name = type_.lower()
    template = reader.shaped(fields, "template", TEMPLATE, f"{path}.")
    place, container = (0, {}) if template is None else _container(kind, template, path, reader)
    port = kind.port
    for number, each in enumerate(container.get("ports") or ()):
        if each.get("name") == kind.port_name:
            where = f"{_containers(path)}[{place}].ports[{number}]."
            port = reader.number(
                each, "containerPort", where, default=kind.port, least=1, most=_LAST_PORT
            )
    policy = fields.get("restartPolicy") or kind.restart_policy.value
    known = [each.value for each in RestartPolicy]
    if policy not in known:
        reader.problems.append(
            f"{path}.restartPolicy: {shown(policy)} is none of {', '.join(known)}"
        )
        policy = kind.restart_policy.value
    argv = [*(container.get("command") or ()), *(container.get("args") or ())]
    role = Role(
        name=name,
        # What runs is said by the template; this is for people.
        executable=ProcessCall(argv=tuple(map(str, argv)) or (str(container.get("image")),)),
        replicas=reader.number(fields, "replicas", f"{path}.", default=1),
        restart_policy=RestartPolicy(policy),
        service=kind.framework == "tensorflow" and name in _SERVICES,
    )
    return role, dict(template or {}), port


def _container(
    kind: JobKind, template: Mapping[str, Any], path: str, reader: _Reader
) -> tuple[int, Mapping[str, Any]]:
    """The container that decides how a replica ended, and which of all it is."""
    where = _containers(path)
    containers = (template.get("spec") or {}).get("containers")
    if not containers:
        reader.problems.append(f"{where}: there is none; one must be named {kind.container!r}")
        return 0, {}
    for place, each in enumerate(containers):
        if not each.get("image"):
            reader.problems.append(f"{where}[{place}].image: there is none")
    for place, each in enumerate(containers):
        if each.get("name") == kind.container:
            return place, each
    names = ", ".join(repr(each.get("name")) for each in containers)
    reader.problems.append(f"{where}: none is named {kind.container!r}; there are: {names}")
    return 0, {}


def _containers(path: str) -> str:
    """Where the containers of a role are told of."""
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
        reader.problems.append("spec.elasticPolicy: is for workers, and there are none")
    restarts = policy.get("maxRestarts")
    conf = [
        f"{each.get('key', '')}={each.get('value', '')}" for each in policy.get("rdzvConf") or ()
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
    """How many processes are on each node, as it is written."""
    elastic = spec.get("elasticPolicy")
    older = elastic.get("nProcPerNode") if isinstance(elastic, Mapping) else None
    written = str(spec.get("nprocPerNode") or older or "auto")
    if written.isdigit() and len(written) > _MOST_DIGITS:
        told = shown(written)
        reader.problems.append(f"spec.nprocPerNode: {told} are too many processes for a node")
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
    reader.problems.append(f"spec.successPolicy: {shown(written)} is none of '', 'AllWorkers'")
    return SuccessPolicy.DEFAULT


def _problems(kind: JobKind, name: str, spec: JobSpec) -> Iterator[str]:
    """What is wrong with the job as a whole."""
    if not spec.roles:
        return
    for problem in problems_of(spec):
        yield f"spec.{kind.replica_specs}: {problem}"
    total = sum(role.replicas for role in spec.roles)
    if total > MOST_REPLICAS:
        most = f"{MOST_REPLICAS} are the most"
        yield f"spec.{kind.replica_specs}: {total} replicas are too many; {most}"
    names = [replica_name(name, role.name, max(role.replicas - 1, 0)) for role in spec.roles]
    if problem := name_problem(name, max(names, key=len)):
        yield problem
