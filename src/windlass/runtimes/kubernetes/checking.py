"""Checking a job before it is taken: what of it makes no sense in pods, and what is not there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from functools import partial

import msgspec

from windlass.kube.access import check_access, check_namespace
from windlass.kube.connecting import Connection
from windlass.kube.nodes import Node, Placement, placement
from windlass.kube.queues import check_queue
from windlass.kube.seeing import list_nodes
from windlass.kube.sizes import check_size, is_worth_asking
from windlass.machine.honouring import code_problems
from windlass.model.job import ExternalCall, JobSpec, Role, ShellCall
from windlass.model.kubernetes import KubernetesOptions, problems_of_options
from windlass.runtimes.kubernetes.building import image_problems
from windlass.runtimes.kubernetes.trying import check_pod, needs_try

_FRESH = 60.0  # seconds that an answer of the cluster is taken to hold
_MOST_PASSED = 1000


class Checks:
    """What is checked of jobs; what the cluster said is remembered for a while."""

    def __init__(self, image: str = "") -> None:
        self._image = image
        self._lock = threading.Lock()
        self._passed: dict[Hashable, float] = {}  # what was found to be right, and when
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
        """Refuse what the cluster would, or would wait for in vain, or would drop in silence."""
        options = spec.roles[0].kubernetes or KubernetesOptions()
        namespace = options.namespace or connection.namespace
        self._check_allowed(connection, namespace)
        for role in spec.roles:
            where = self.placement(connection, role)
            self._check_size(connection, role)
            said = role.kubernetes or KubernetesOptions()
            if said.queue:
                check = partial(check_queue, connection, namespace, said.queue)
                self._once(("queue", connection.server, namespace, said.queue), check)
            if needs_try(said):
                check = partial(
                    check_pod, connection, spec, role,
                    namespace=namespace, placement=where, image=self._image,
                )  # fmt: skip
                named = (said.service_account, said.priority_class)
                patch = msgspec.json.encode(said.pod_patch)
                self._once(("pod", connection.server, namespace, named, patch), check)

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

    def _check_size(self, connection: Connection, role: Role) -> None:
        options = role.kubernetes or KubernetesOptions()
        if not is_worth_asking(role.resources) or options.pod_patch:  # which may say otherwise
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
        """Do a check that raises, unless it passed a moment ago: many jobs may come at once."""
        with self._lock:
            since = self._passed.get(key)
        if since is not None and time.monotonic() - since < _FRESH:
            return
        check()
        with self._lock:
            if len(self._passed) >= _MOST_PASSED:
                self._passed.clear()
            self._passed[key] = time.monotonic()

    def _seen_nodes(self, connection: Connection) -> list[Node] | None:
        with self._lock:
            known = self._nodes
        if known and known[1] == connection.server and time.monotonic() - known[0] < _FRESH:
            return known[2]
        nodes = list_nodes(connection)
        with self._lock:
            self._nodes = (time.monotonic(), connection.server, nodes)
        return nodes
