"""Checks a new job for unsupported options and missing resources before it is accepted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeVar

import msgspec

from windlass.kube.api.connection import Connection
from windlass.kube.capacity.kueue import check_queue
from windlass.kube.capacity.list_nodes import list_nodes
from windlass.kube.capacity.machine_sizes import check_size, may_exceed_machines
from windlass.kube.capacity.nodes import Node, Placement, placement
from windlass.kube.permissions.check import check_access, check_namespace
from windlass.machine.unsupported import code_problems
from windlass.model.errors import ResourceError
from windlass.model.job import ExternalCall, JobSpec, Role, ShellCall
from windlass.model.kubernetes.job_options import KubernetesOptions, problems_of_options
from windlass.runtimes.kubernetes.dry_run_pod import check_pod, needs_try
from windlass.runtimes.kubernetes.objects.manifests import image_problems

_FRESH = 60.0  # seconds for which the result of a check is cached
_MOST_KEPT = 1000

Value = TypeVar("Value")


class SubmitChecks:
    """Checks submitted jobs. Responses from the cluster are cached for a minute."""

    def __init__(self, image: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._image = image
        self._clock = clock
        self._lock = threading.Lock()
        self._passed: dict[Hashable, float] = {}  # the time at which each check passed
        self._nodes: tuple[float, str, list[Node] | None] | None = None
        self._placed: dict[Hashable, Placement] = {}  # the last placements, by cache key

    def problems(self, spec: JobSpec) -> list[str]:
        """Return a sentence for each option of the job that cannot work in pods."""
        problems = [*code_problems(spec), *image_problems(spec, self._image)]
        if spec.volumes:
            problems.append(
                "pods cannot mount volumes of this machine; name volumes of the cluster: "
                'volumes={"/data": "claim:NAME"}.'
            )
        namespaces = {(role.kubernetes or KubernetesOptions()).namespace for role in spec.roles}
        if len(namespaces) > 1:
            problems.append("all roles of a job need the same namespace.")
        for role in spec.roles:
            before = f"{role.name}: " if len(spec.roles) > 1 else ""
            option_problems = problems_of_options(role.kubernetes) if role.kubernetes else []
            problems += [before + problem for problem in option_problems]
            if isinstance(role.executable, (ShellCall, ExternalCall)):
                problems.append(f"{before}a shell runs on the server's machine, not in a pod.")
        return problems

    def check(self, connection: Connection, spec: JobSpec) -> None:
        """Raise an error if the cluster would refuse, silently change, or never run the job."""
        options = spec.roles[0].kubernetes or KubernetesOptions()
        namespace = options.namespace or connection.namespace
        self._check_allowed(connection, namespace)
        self._check_resources(connection, spec)
        for role in spec.roles:
            where = self.placement(connection, role)
            role_options = role.kubernetes or KubernetesOptions()
            if role_options.queue:
                check = partial(check_queue, connection, namespace, role_options.queue)
                self._once(("queue", connection.server, namespace, role_options.queue), check)
            if needs_try(role_options):
                check = partial(
                    check_pod, connection, spec, role,
                    namespace=namespace, placement=where, image=self._image,
                )  # fmt: skip
                named = (role_options.service_account, role_options.priority_class)
                patch = msgspec.json.encode(role_options.pod_patch)
                self._once(("pod", connection.server, namespace, named, patch), check)

    def placement(self, connection: Connection, role: Role) -> Placement:
        """Return the pod fields that place a role's pods on nodes with the requested accelerator.

        Raise `ResourceError` if no node has this accelerator.
        """
        if role.resources.accelerator is None:
            return Placement()
        placement = _placement(role, self._seen_nodes(connection))
        with self._lock:
            _keep(self._placed, _cache_key(connection, role), placement)
        return placement

    def placement_of_attempt(
        self, connection: Connection, role: Role, before: Placement | None = None
    ) -> tuple[Placement, bool]:
        """Return the placement for an accepted job's role, and whether the placement is a guess.

        This method never refuses a role, even if all suitable nodes are gone. Autoscalers add nodes
        for a waiting pod, so the pod is built for nodes that existed earlier: those that this
        server last saw, or those of the previous attempt (`before`). If neither are known, the pod
        is built for common node labels, and the second value is true.
        """
        try:
            return self.placement(connection, role), False
        except ResourceError:
            with self._lock:
                cached = self._placed.get(_cache_key(connection, role)) or before
            return cached or _placement(role, None), cached is None

    def _check_resources(self, connection: Connection, spec: JobSpec) -> None:
        """Refuse roles that need more than any machine has. One error reports all such roles."""
        problems: list[tuple[str, ResourceError]] = []
        for role in spec.roles:
            for check in (self.placement, self._check_size):
                try:
                    check(connection, role)
                except ResourceError as error:
                    problems.append((role.name, error))
        if len(problems) == 1:
            raise problems[0][1]
        if problems:
            whose = len(spec.roles) > 1
            messages = [f"{name}: {error}" if whose else str(error) for name, error in problems]
            raise ResourceError.of(messages)

    def _check_size(self, connection: Connection, role: Role) -> None:
        options = role.kubernetes or KubernetesOptions()
        # Skip the check if a patch may change the resources.
        if not may_exceed_machines(role.resources) or options.pod_patch:
            return
        nodes = self._seen_nodes(connection)
        if nodes is not None:
            check_size(role.resources, nodes, options.node_selector)

    def _check_allowed(self, connection: Connection, namespace: str) -> None:
        def check() -> None:
            check_namespace(connection, namespace)
            check_access(connection, namespace)

        self._once(("allowed", connection.server, connection.account, namespace), check)

    def _once(self, key: Hashable, check: Callable[[], None]) -> None:
        """Run a check unless it passed recently, because many jobs may arrive at once."""
        with self._lock:
            since = self._passed.get(key)
        if since is not None and self._clock() - since < _FRESH:
            return
        check()
        with self._lock:
            _keep(self._passed, key, self._clock())

    def _seen_nodes(self, connection: Connection) -> list[Node] | None:
        with self._lock:
            cached = self._nodes
        if cached and cached[1] == connection.server and self._clock() - cached[0] < _FRESH:
            return cached[2]
        nodes = list_nodes(connection)
        with self._lock:
            self._nodes = (self._clock(), connection.server, nodes)
        return nodes


def _placement(role: Role, nodes: list[Node] | None) -> Placement:
    options = role.kubernetes or KubernetesOptions()
    return placement(
        role.resources.accelerator,
        role.replicas,
        nodes,
        tolerations=[msgspec.to_builtins(toleration) for toleration in options.tolerations],
        node_selector=options.node_selector or None,
    )


def _cache_key(connection: Connection, role: Role) -> Hashable:
    """Return a cache key for a role's placement: all inputs of the placement except the nodes."""
    options = role.kubernetes or KubernetesOptions()
    of_pods = (options.tolerations, options.node_selector)
    needs = msgspec.json.encode((role.resources.accelerator, role.replicas, of_pods))
    return connection.server, needs


def _keep(cache: dict[Hashable, Value], key: Hashable, value: Value) -> None:
    if len(cache) >= _MOST_KEPT:
        cache.clear()
    cache[key] = value
