"""Pods that do not run, each for one reason, and a registry that refuses in all ways.

With `WINDLASS_TEST_RECORD=folder` the tests write the cluster's response for each pod into that
folder. The files of tests/kube/diagnosis/recorded_pods were created so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PORT = 47_199
REGISTRY = f"127.0.0.1:{PORT}"
"""On the node itself, where images may be pulled without TLS."""

_IMAGES = {
    "lab/missing": 404,
    "lab/private": 401,
    "lab/denied": 403,
    "lab/busy": 429,
    "lab/arm": 200,
}

REGISTRY_PROGRAM = f"""
import http.server, hashlib, json

ANSWERS = {_IMAGES!r}
CODES = {{404: "MANIFEST_UNKNOWN", 401: "UNAUTHORIZED", 403: "DENIED", 429: "TOOMANYREQUESTS"}}
KIND = "application/vnd.oci.image.index.v1+json"
PLATFORM = {{"architecture": "s390x", "os": "linux"}}
ENTRY = {{"mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 2,
         "digest": "sha256:" + hashlib.sha256(b"[]").hexdigest(), "platform": PLATFORM}}
INDEX = json.dumps({{"schemaVersion": 2, "mediaType": KIND, "manifests": [ENTRY]}}).encode()


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        name = self.path.removeprefix("/v2/").partition("/manifests/")[0].partition("/blobs/")[0]
        status = ANSWERS.get(name, 200)
        told = {{"code": CODES.get(status, ""), "message": "no"}}
        body = INDEX if name == "lab/arm" else json.dumps({{"errors": [told]}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", KIND if name == "lab/arm" else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", "sha256:" + hashlib.sha256(INDEX).hexdigest())
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="lab"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET


http.server.ThreadingHTTPServer(("127.0.0.1", {PORT}), Registry).serve_forever()
"""


def broken_pods(image: str) -> dict[str, dict[str, Any]]:
    """The specification of each pod, by name."""
    return {
        "too-many-gpus": _pod(image, limits={"nvidia.com/gpu": "4"}),
        "too-many-cpus": _pod(image, limits={"cpu": "1000"}),
        "too-much-memory": _pod(image, limits={"memory": "1000Ti"}),
        "too-many-tpus": _pod(image, limits={"google.com/tpu": "4"}),
        "no-such-node": _pod(image, nodeSelector={"disk": "no-such-disk"}),
        "no-such-nodes": _pod(image, affinity=_affinity("disk", "ssd", "nvme")),
        "claim-missing": _pod(image, volume={"persistentVolumeClaim": {"claimName": "data"}}),
        "image-missing": _pod(f"{REGISTRY}/lab/missing:8", policy="Always"),
        "image-private": _pod(f"{REGISTRY}/lab/private:7", policy="Always"),
        "image-denied": _pod(f"{REGISTRY}/lab/denied:7", policy="Always"),
        "image-busy": _pod(f"{REGISTRY}/lab/busy:7", policy="Always"),
        "image-of-another-machine": _pod(f"{REGISTRY}/lab/arm:7", policy="Always"),
        "pull-secret-missing": _pod(
            f"{REGISTRY}/lab/private:7", policy="Always", imagePullSecrets=[{"name": "robot"}]
        ),
        "registry-silent": _pod("127.0.0.1:9/lab/train:7", policy="Always"),
        "registry-unknown": _pod("registry.invalid/lab/train:7", policy="Always"),
        "image-never-pulled": _pod("windlass/none:1", policy="Never"),
        "image-misspelt": _pod("lab/TRAIN:7", policy="Always"),
        "secret-missing": _pod(image, env=[_from("secretKeyRef", "db", "password")]),
        "key-missing": _pod(image, env=[_from("secretKeyRef", "there", "password")]),
        "map-missing": _pod(image, env=[_from("configMapKeyRef", "settings", "lr")]),
        "secret-volume-missing": _pod(image, volume={"secret": {"secretName": "db"}}),
        "map-volume-missing": _pod(image, volume={"configMap": {"name": "settings"}}),
        "runs-as-root": _pod(image, securityContext={"runAsNonRoot": True}),
        "no-python": _pod(image, "python9", "-c", "pass"),
        "no-file": _pod(image, "/opt/no/such/program"),
        "not-executable": _pod(image, "/etc/passwd"),
        "of-another-machine": _pod(
            image, "/volume/program",
            volume={"configMap": {"name": "program", "defaultMode": 0o755}},
        ),
        "out-of-memory": _pod(
            image, "python3", "-c", "x = bytearray(2**30)", limits={"memory": "64Mi"}
        ),
        "evicted": _pod(
            image, "python3", "-c",
            "open('/volume/x', 'wb').write(bytes(2**24)); import time; time.sleep(600)",
            volume={"emptyDir": {"sizeLimit": "1Mi"}},
        ),
        "too-late": _pod(
            image, "python3", "-c", "import time; time.sleep(600)", activeDeadlineSeconds=1
        ),
    }  # fmt: skip


def needed() -> list[tuple[str, dict[str, Any]]]:
    """The objects that some of them need, so that they fail only for the intended reason."""
    return [
        ("secrets", {"metadata": {"name": "there"}, "stringData": {"user": "ada"}}),
        (
            "configmaps",
            {"metadata": {"name": "program"}, "binaryData": {"program": "f0VMRgAAAAAAAAAAAAAA"}},
        ),
    ]


def _pod(
    image: str,
    *command: str,
    policy: str = "IfNotPresent",
    limits: Mapping[str, str] | None = None,
    env: list[dict[str, Any]] | None = None,
    volume: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "main",
        "image": image,
        "imagePullPolicy": policy,
        "command": list(command) or ["python3", "-c", "pass"],
        "resources": {"limits": dict(limits or {})},
        "env": env or [],
    }
    if volume:
        container["volumeMounts"] = [{"name": "volume", "mountPath": "/volume"}]
        spec["volumes"] = [{"name": "volume", **volume}]
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **spec,
    }


def _from(kind: str, name: str, key: str) -> dict[str, Any]:
    return {"name": "VALUE", "valueFrom": {kind: {"name": name, "key": key}}}


def _affinity(label: str, *values: str) -> dict[str, Any]:
    expression = {"key": label, "operator": "In", "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
