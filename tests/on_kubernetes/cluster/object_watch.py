"""All objects of one kind, kept up to date from the API server's stream of changes."""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from on_kubernetes.cluster.dns_names import Objects

_PAUSE = 0.5  # between attempts, while the API server is unreachable


class Watched(threading.Thread):
    """The objects of a kind, such as `services`, in all namespaces.

    While the API server is unreachable, the last known objects stay.
    """

    def __init__(self, kind: str, kubeconfig: Path) -> None:
        super().__init__(name=f"watching {kind}", daemon=True)
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.objects: Objects = {}
        self._kind = kind
        self._server = cluster["server"]
        self._token = config["users"][0]["user"]["token"]
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])

    def on_change(self, thing: dict[str, Any]) -> None:
        """Called with each new or changed object."""

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the response of the API server."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._server + path, data, headers, method=method)
        return urllib.request.urlopen(request, context=self._tls, timeout=630)

    def run(self) -> None:
        while True:
            try:
                self._follow(self._list())
            except (OSError, ValueError, KeyError) as error:
                print(f"{self.name}: {error!r}")
                time.sleep(_PAUSE)

    def _list(self) -> str:
        """List all objects and return their resource version."""
        with self._get("") as answer:
            listed = json.load(answer)
        self.objects = {_key(item): item for item in listed["items"]}
        for element in listed["items"]:
            self.on_change(element)
        return str(listed["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        """Apply changes until the stream ends."""
        with self._get(f"?watch=1&timeoutSeconds=600&resourceVersion={version}") as answer:
            for line in answer:
                change = json.loads(line)
                if change["type"] == "ERROR":  # the known version is too old: list again
                    return
                changed = dict(self.objects)
                if change["type"] == "DELETED":
                    changed.pop(_key(change["object"]), None)
                else:
                    changed[_key(change["object"])] = change["object"]
                    self.on_change(change["object"])
                self.objects = changed

    def _get(self, query: str) -> Any:
        return self.request("GET", f"/api/v1/{self._kind}{query}")


def _key(thing: dict[str, Any]) -> tuple[str, str]:
    return thing["metadata"]["namespace"], thing["metadata"]["name"]
