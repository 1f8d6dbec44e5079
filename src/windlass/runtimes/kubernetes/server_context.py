"""The parts of the server that the runtime needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from windlass.kube.api.connection import Connection
from windlass.runtimes.kubernetes.agent_last_seen import AGENTS_LAST_SEEN, AgentsLastSeen


class KubernetesContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime needs of the server it is part of."""

    connect: Callable[[], Connection]
    worker: Callable[[], bytes]  # the program that a pod runs
    token_for: Callable[[str], str]  # what the agents of a job show; by its uid
    urls: Callable[[], Sequence[str]]  # where pods may reach the server; none: nowhere
    url: Callable[[], str]  # where the server is for this process
    image: str = ""  # for jobs that name none; else one with their Python
    tunnels: int = 4  # to each pod that cannot reach the server
    heard: AgentsLastSeen = AGENTS_LAST_SEEN  # when agents last asked it for anything
    clock: Callable[[], float] = time.monotonic
