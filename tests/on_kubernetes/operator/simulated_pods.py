"""Simulated pods: no node runs them, and a test decides their end."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from on_kubernetes.operator.operator_process import Jobs
from windlass.kube.api.resource_kinds import PODS, Object, location_of
from windlass.kube.api.watch import Watcher
from windlass.model.errors import KubernetesError
from windlass.operator.names import JOB_NAME

NOBODY = "nobody"
"""The name of a scheduler that does not exist, so that such pods never start."""


class PaperNode:
    """Reports each pod as running, then as ended with the exit code from `fate`.

    A context manager.
    """

    def __init__(self, jobs: Jobs, container: str, fate: Callable[[Object], int]) -> None:
        self._connection = jobs.connection
        self._container = container
        self._fate = fate
        self._came: queue.Queue[Object | None] = queue.Queue()
        self._watcher = Watcher(
            jobs.connection, PODS, namespace=jobs.namespace, selector=JOB_NAME,
            on_change=self._changed,
        )  # fmt: skip
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(4)]

    def __enter__(self) -> PaperNode:
        self._watcher.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watcher.stop()
        for _ in self._threads:
            self._came.put(None)
        for thread in self._threads:
            thread.join(30)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if before is None and after is not None:
            self._came.put(after)

    def _work(self) -> None:
        while (pod := self._came.get()) is not None:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            code = self._fate(pod)
            self._say(pod, "Running", {"running": {"startedAt": now}})
            ended = {"exitCode": code, "startedAt": now, "finishedAt": now}
            self._say(pod, "Failed" if code else "Succeeded", {"terminated": ended})

    def _say(self, pod: Object, phase: str, state: dict[str, Any]) -> None:
        container = {
            "name": self._container, "state": state, "image": "none", "imageID": "",
            "ready": phase == "Running", "restartCount": 0,
        }  # fmt: skip
        body = {"status": {"phase": phase, "containerStatuses": [container]}}
        try:
            self._connection.request(
                "PATCH", PODS.path(*location_of(pod), "status"), body,
                content_type="application/merge-patch+json",
            )  # fmt: skip
        except KubernetesError as error:
            if error.status != 404:
                raise
