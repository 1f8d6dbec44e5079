"""The programs of the cluster: how to start, identify, check and stop each."""

from __future__ import annotations

import functools
import shutil
import signal
import ssl
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from on_kubernetes.cluster import enclosure, settings
from on_kubernetes.cluster.builds.kubernetes import BINARIES
from on_kubernetes.cluster.commands import ClusterError
from on_kubernetes.cluster.credentials import AUTHORITY, TOKENS, kubeconfig_of
from on_kubernetes.cluster.locations import (
    API_SERVER,
    KEYS,
    LOGS,
    NODE,
    NODE_ADDRESS,
    PAUSE_IMAGE,
    SERVICE_NETWORK,
    SOCKET,
    STATE,
)
from on_kubernetes.cluster.network import name_servers
from on_kubernetes.cluster.wait import NeverHappenedError, end_process, wait_until

_PYTHON = {"PYTHONPATH": str(Path(__file__).parent.parent.parent), "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Part:
    """One program of the cluster."""

    name: str
    command: tuple[str, ...]
    known_by: str
    """The word in the command that identifies the program."""
    is_answering: Callable[[], bool]
    env: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """The log file of the program."""
        return LOGS / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The process of the program, if it runs."""
        return enclosure.process_inside(self.known_by)

    def start(self) -> None:
        """Start the program, unless it runs. Use `wait` to wait for it."""
        if self.pid is None:
            enclosure.spawn_inside(self.command, self.log, self.env)

    def wait(self, timeout: float = 90.0) -> None:
        """Return when the program answers."""
        try:
            wait_until(self.is_answering, f"{self.name} answers", timeout=timeout)
        except NeverHappenedError as error:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise ClusterError(f"{error}\nThe end of {self.log}:\n{tail}") from None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop the program, if it runs, and return when it is gone. Its children continue."""
        if pid := self.pid:
            # The API server would wait a minute for watches to end, which no test needs.
            end_process(pid, how, patience=5)


def part_named(name: str) -> Part:
    """Return the part with this name: `etcd`, `apiserver`, ..."""
    for part in parts():
        if part.name == name:
            return part
    names = ", ".join(part.name for part in parts())
    raise ClusterError(f"The cluster has no part {name!r}. It has: {names}.")


def parts() -> tuple[Part, ...]:
    """Return all parts, in their start order."""
    return (
        _etcd(),
        _containerd(),
        _apiserver(),
        _controller_manager(),
        _scheduler(),
        _dns(),
        _proxy(),
        _pod_removal(),
        _kubelet(),
    )


def _etcd() -> Part:
    command = (
        _system("etcd"),
        f"--data-dir={STATE}/etcd",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--unsafe-no-fsync",
    )
    return Part("etcd", command, command[0], lambda: enclosure.listens(2379))


def _containerd() -> Part:
    command = (_system("containerd"), f"--config={settings.CONTAINERD}")
    return Part("containerd", command, command[0], lambda: enclosure.accepts(SOCKET))


def _apiserver() -> Part:
    command = (
        _built("kube-apiserver"),
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={NODE_ADDRESS}",
        f"--cert-dir={KEYS}/apiserver",
        f"--tls-cert-file={KEYS}/server.crt",
        f"--tls-private-key-file={KEYS}/server.key",
        f"--client-ca-file={AUTHORITY}",
        f"--token-auth-file={TOKENS}",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={KEYS}/accounts.pub",
        f"--service-account-signing-key-file={KEYS}/accounts.key",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        # The time that pods stay on a lost node.
        "--default-not-ready-toleration-seconds=20",
        "--default-unreachable-toleration-seconds=20",
    )
    return Part("apiserver", command, command[0], is_api_ready)


def _controller_manager() -> Part:
    command = (
        _built("kube-controller-manager"),
        *_as_client("controller-manager"),
        "--use-service-account-credentials=true",
        f"--root-ca-file={AUTHORITY}",
        f"--service-account-private-key-file={KEYS}/accounts.key",
        "--controllers=*,-nodeipam,-cloud-node-lifecycle,-route,-service",
        "--node-monitor-period=2s",
        "--node-monitor-grace-period=20s",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    )
    return Part("controller-manager", command, command[0], lambda: enclosure.listens(10257))


def _scheduler() -> Part:
    command = (
        _built("kube-scheduler"),
        *_as_client("scheduler"),
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    )
    return Part("scheduler", command, command[0], lambda: enclosure.listens(10259))


def _dns() -> Part:
    upstream = tuple(f"--upstream={server}" for server in name_servers())
    command = (
        sys.executable, "-m", "on_kubernetes.cluster.dns",
        f"--kubeconfig={kubeconfig_of('dns')}", f"--address={NODE_ADDRESS}", *upstream,
    )  # fmt: skip
    return Part("dns", command, command[2], lambda: enclosure.listens(53, "udp"), env=_PYTHON)


def _pod_removal() -> Part:
    module = "on_kubernetes.cluster.pod_removal"
    command = (sys.executable, "-m", module, f"--kubeconfig={kubeconfig_of('pod-removal')}")
    is_there = functools.partial(enclosure.process_inside, module)
    return Part("pod-removal", command, module, lambda: is_there() is not None, env=_PYTHON)


def _proxy() -> Part:
    command = (_built("kube-proxy"), f"--config={settings.PROXY}")
    return Part("proxy", command, command[0], lambda: enclosure.listens(10256))


def _kubelet() -> Part:
    command = (
        _built("kubelet"),
        f"--config={settings.KUBELET}",
        f"--kubeconfig={kubeconfig_of('kubelet')}",
        f"--root-dir={STATE}/kubelet",
        f"--cert-dir={KEYS}/kubelet",
        "--container-runtime=remote",
        f"--container-runtime-endpoint=unix://{SOCKET}",
        f"--pod-infra-container-image={PAUSE_IMAGE}",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_ADDRESS}",
        f"--node-labels=kubernetes.io/hostname={NODE}",
    )
    return Part("kubelet", command, command[0], lambda: enclosure.listens(10250))


def is_api_ready() -> bool:
    """Return whether the API server answers and is ready."""
    try:
        context = ssl.create_default_context(cafile=str(AUTHORITY))
        with urllib.request.urlopen(f"{API_SERVER}/readyz", timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:  # including urllib's errors
        return False


def _as_client(account: str) -> tuple[str, ...]:
    """The arguments that identify a controller, of which only one exists."""
    kubeconfig = kubeconfig_of(account)
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
    )


def _built(program: str) -> str:
    return str(BINARIES / program)


def _system(program: str) -> str:
    return shutil.which(program) or f"/usr/bin/{program}"
