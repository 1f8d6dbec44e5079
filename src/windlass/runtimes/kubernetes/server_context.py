"""The server's functions and settings that the Kubernetes runtime needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence

import msgspec

from windlass.kube.api.connection import Connection
from windlass.runtimes.kubernetes.agents.last_seen import AGENTS_LAST_SEEN, AgentsLastSeen


class KubernetesContext(msgspec.Struct, frozen=True, kw_only=True):
    """The server's functions and settings that the Kubernetes runtime uses."""

    connect: Callable[[], Connection]
    worker: Callable[[], bytes]  # returns the zip file that a pod runs
    token_for: Callable[[str], str]  # returns the token for a job's agents, by job uid
    # Returns the server's URLs for pods. The list is empty if pods cannot reach the server.
    urls: Callable[[], Sequence[str]]
    url: Callable[[], str]  # returns the URL at which this process reaches the server
    settings: Callable[[], Hashable] = lambda: None  # changes with the login and the kubeconfig
    image: str = ""  # the image for jobs that set none; "" means the default image
    tunnels: int = 4  # the number of connections to each pod that cannot reach the server
    last_seen: AgentsLastSeen = AGENTS_LAST_SEEN  # when each agent last sent a request
    clock: Callable[[], float] = time.monotonic
