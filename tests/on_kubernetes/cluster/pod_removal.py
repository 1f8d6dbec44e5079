"""Removes deleted pods from the API as soon as their containers have ended.

Current versions of the kubelet do this themselves. The kubelet of this cluster waits until it has
removed every part of the pod from the machine: some ten seconds, and up to two minutes if the
machine is busy.
"""

from __future__ import annotations

import argparse
import queue
import threading
import urllib.error
from http.client import HTTPException
from pathlib import Path
from typing import Any

from on_kubernetes.cluster.object_watch import Watched


def has_ended(pod: dict[str, Any]) -> bool:
    """Return whether a pod is deleted, and the kubelet has reported the end of all containers.

    >>> ended = {"containerStatuses": [{"state": {"terminated": {"exitCode": 143}}}]}
    >>> has_ended({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": ended})
    True
    >>> has_ended({"metadata": {}, "status": ended})
    False
    >>> has_ended({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {}})
    False
    """
    containers = pod["status"].get("containerStatuses") or ()
    return (
        "deletionTimestamp" in pod["metadata"]
        and bool(containers)
        and all("terminated" in (container.get("state") or {}) for container in containers)
    )


class EndedPods(Watched):
    """The pods of the cluster, and the removal of ended ones."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__("pods", kubeconfig)
        self._ended: queue.Queue[dict[str, Any]] = queue.Queue()

    def on_change(self, thing: dict[str, Any]) -> None:
        if has_ended(thing):
            self._ended.put(thing["metadata"])

    def remove_all(self) -> None:
        """Remove pods as they end, forever."""
        while True:
            metadata = self._ended.get()
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            try:
                self.request("DELETE", path, options).close()
            except urllib.error.HTTPError as error:
                if error.code not in (404, 409):  # the kubelet was faster
                    print(f"{path}: {error!r}")
            except (
                OSError,
                HTTPException,
            ) as error:  # the API server is unreachable: the kubelet removes this pod
                print(f"{path}: {error!r}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kubeconfig", type=Path, required=True)
    pods = EndedPods(options.parse_args().kubeconfig)
    pods.start()
    threading.Thread(target=pods.remove_all, daemon=True).start()
    pods.join()


if __name__ == "__main__":
    main()
