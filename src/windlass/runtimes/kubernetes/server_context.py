"""The parts of the server that the runtime needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence

import msgspec

from windlass.kube.api.connection import Connection
from windlass.runtimes.kubernetes.agents.last_seen import AGENTS_LAST_SEEN, AgentsLastSeen


class KubernetesContext(msgspec.Struct, frozen=True, kw_only=True):
    """The functions and settings of the server that the runtime uses."""

    connect: Callable[[], Connection]
    worker: Callable[[], bytes]  # the program that a pod runs
    token_for: Callable[[str], str]  # the token of a job's agents, by job uid
    # The URLs of the server for pods; empty if pods cannot reach it.
    urls: Callable[[], Sequence[str]]
    url: Callable[[], str]  # the URL of the server for this process
    settings: Callable[[], Hashable] = lambda: None  # changes with each login and kubeconfig file
    image: str = ""  # the image for jobs that set none; "" for one with their Python version
    tunnels: int = 4  # connections to each pod that cannot reach the server
    last_seen: AgentsLastSeen = AGENTS_LAST_SEEN  # the last request of each agent
    clock: Callable[[], float] = time.monotonic
