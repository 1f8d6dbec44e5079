"""Trials that run where their server is not: in a pod they cannot ask it for other trials."""

from __future__ import annotations

import os

from windlass.worker.family import AWAY


def check_asking() -> None:
    """Raise where nobody can be asked for trials: else a server would be started in the pod.

    Whoever names a server (`WINDLASS_SERVER`) and has what is needed to ask it may.
    """
    if AWAY not in os.environ:
        return
    import importlib.util

    if os.environ.get("WINDLASS_SERVER") and importlib.util.find_spec("msgspec") is not None:
        return
    from windlass.model.errors import Unsupported

    raise Unsupported(
        "This trial runs in a pod, which cannot ask the server for trials.",
        hint="Submit them from where the server is, by a generator say. Or have the pod reach one: "
        'container_image= with Windlass in it, env={"WINDLASS_SERVER": "http://..."}, '
        'secrets=["WINDLASS_TOKEN"].',
    )
