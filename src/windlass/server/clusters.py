"""The cluster of a server: made when the first job asks for it, or has something there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.home import Home
from windlass.kube.connecting import connect
from windlass.runtimes.kubernetes.manifests import preset_image
from windlass.runtimes.kubernetes.runtime import KubernetesRuntime
from windlass.runtimes.kubernetes.surroundings import Surroundings
from windlass.runtimes.workerzip import worker_zip
from windlass.server.agents import token_of


def kubernetes_runtime(
    home: Home, token: str, url: Callable[[], str], urls: Callable[[], Sequence[str]]
) -> KubernetesRuntime:
    """The runtime of trials in pods, of a server that is there and elsewhere reached so."""
    around = Surroundings(
        connect=lambda: connect(home=home),
        worker=worker_zip,
        token_for=lambda uid: token_of(token, uid),
        urls=urls,
        url=url,
        image=preset_image(),
    )
    return KubernetesRuntime(home.path, around)
