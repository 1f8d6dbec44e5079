"""Checking a job before it is taken: what of it makes no sense in pods, and what is not there."""

from __future__ import annotations

import threading
import time

import msgspec

from windlass.kube.access import check_access, check_namespace
from windlass.kube.connecting import Connection
from windlass.kube.nodes import Node, Placement, placement
from windlass.kube.seeing import list_nodes
from windlass.machine.honouring import code_problems
from windlass.model.job import ExternalCall, JobSpec, Role, ShellCall
from windlass.model.kubernetes import KubernetesOptions, problems_of_options
from windlass.runtimes.kubernetes.building import image_problems

_FRESH = 60.0  # seconds that an answer of the cluster is taken to hold


class Checks:
    """What is checked of jobs; what the cluster said is remembered for a while."""

    def __init__(self, image: str = "") -> None:
        self._image = image
        self._lock = threading.Lock()
        self._allowed: dict[tuple[str, str, str], float] = {}  # where we may work, and since when
        self._nodes: tuple[float, str, list[Node] | None] | None = None

    def problems(self, spec: JobSpec) -> list[str]:
        """Everything in a job that cannot work in pods, one sentence each."""
        problems = [*code_problems(spec), *image_problems(spec, self._image)]
        if spec.volumes:
            problems.append(
                "volumes of this machine are in no pod; name those of the cluster: "
                'volumes={"/data": "claim:NAME"}.'
            )
        namespaces = {(role.kubernetes or KubernetesOptions()).namespace for role in spec.roles}
        if len(namespaces) > 1:
            problems.append("all roles of a job are in one namespace.")
        for role in spec.roles:
            before = f"{role.name}: " if len(spec.roles) > 1 else ""
            found = problems_of_options(role.kubernetes) if role.kubernetes else []
            problems += [before + problem for problem in found]
            if isinstance(role.executable, (ShellCall, ExternalCall)):
                problems.append(f"{before}a shell runs on the server's machine, in no pod.")
        return problems

    def ask(self, connection: Connection, spec: JobSpec) -> None:
        """Refuse what the cluster would: no namespace, no right, no such accelerator."""
        options = spec.roles[0].kubernetes or KubernetesOptions()
        namespace = options.namespace or connection.namespace
        self._check_allowed(connection, namespace)
        for role in spec.roles:
            self.placement(connection, role)

    def placement(self, connection: Connection, role: Role) -> Placement:
        """What a role's accelerator comes to there; a `ResourceError` if none has it."""
        accelerator = role.resources.accelerator
        if accelerator is None:
            return Placement()
        options = role.kubernetes or KubernetesOptions()
        return placement(
            accelerator,
            role.replicas,
            self._seen_nodes(connection),
            tolerations=[msgspec.to_builtins(each) for each in options.tolerations],
            node_selector=options.node_selector or None,
        )

    def _check_allowed(self, connection: Connection, namespace: str) -> None:
        key = (connection.server, connection.account, namespace)
        with self._lock:
            since = self._allowed.get(key)
        if since is not None and time.monotonic() - since < _FRESH:
            return
        check_namespace(connection, namespace)
        check_access(connection, namespace)
        with self._lock:
            self._allowed[key] = time.monotonic()

    def _seen_nodes(self, connection: Connection) -> list[Node] | None:
        with self._lock:
            known = self._nodes
        if known and known[1] == connection.server and time.monotonic() - known[0] < _FRESH:
            return known[2]
        nodes = list_nodes(connection)
        with self._lock:
            self._nodes = (time.monotonic(), connection.server, nodes)
        return nodes
