"""Pods that do not run on a real cluster, and the explanation for each."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.kube.broken_pods import REGISTRY_PROGRAM, broken_pods, needed
from on_kubernetes.pods import Namespace
from windlass.kube.api.connection import Connection
from windlass.kube.diagnosis.pod import explain
from windlass.kube.explanation import Explanation

RECORD = os.environ.get("WINDLASS_TEST_RECORD")

REASONS = {
    "too-many-gpus": "Unschedulable",
    "too-many-cpus": "Unschedulable",
    "too-much-memory": "Unschedulable",
    "too-many-tpus": "Unschedulable",
    "no-such-node": "NoSuchNode",
    "no-such-nodes": "NoSuchNode",
    "claim-missing": "VolumeMissing",
    "image-missing": "ImageMissing",
    "image-private": "ImageDenied",
    "image-denied": "ImageDenied",
    "image-busy": "RegistryBusy",
    "image-of-another-machine": "WrongArchitecture",
    "pull-secret-missing": "ImageDenied",  # newer kubelets report it as missing in an event
    "registry-silent": "RegistryUnreachable",
    "registry-unknown": "RegistryUnknown",
    "image-never-pulled": "ImageMissing",
    "image-misspelt": "ImageNameInvalid",
    "secret-missing": "SecretMissing",
    "key-missing": "KeyMissing",
    "map-missing": "ConfigMapMissing",
    "secret-volume-missing": "SecretMissing",
    "map-volume-missing": "ConfigMapMissing",
    "runs-as-root": "RunsAsRoot",
    "no-python": "NoPython",
    "no-file": "NoProgram",
    "not-executable": "NotExecutable",
    "of-another-machine": "WrongArchitecture",
    "out-of-memory": "OutOfMemory",
    "evicted": "Evicted",
    "too-late": "DeadlineExceeded",
}


@pytest.mark.thorough
def test_every_pod_that_does_not_run_is_explained(
    connection: Connection, cluster: Cluster, namespace: Namespace
) -> None:
    """All at once, because each takes a while."""
    namespace.python("registry", REGISTRY_PROGRAM, hostNetwork=True)
    namespace.wait_running("registry")
    base = f"/api/v1/namespaces/{namespace.name}"
    for resource, thing in needed():
        connection.request("POST", f"{base}/{resource}", thing)
    pods = broken_pods(cluster.image)
    assert set(pods) == set(REASONS)
    for name, spec in pods.items():
        connection.request("POST", f"{base}/pods", {"metadata": {"name": name}, "spec": spec})
    explanations: dict[str, Explanation | None] = {}

    def all_explained() -> bool:
        for name, reason in REASONS.items():
            if (was := explanations.get(name)) is None or was.reason != reason:
                explanations[name] = _explained(connection, name)
        return all(
            explanation is not None and explanation.reason == REASONS[name]
            for name, explanation in explanations.items()
        )

    try:
        eventually(all_explained, "each pod is explained as it should be")
    except AssertionError:
        wrong = {
            n: explanations.get(n)
            for n, why in REASONS.items()
            if not _is_reported(explanations.get(n), n, why)
        }
        seen_pods = {name: _seen(connection, name) for name in wrong}
        pytest.fail(f"{wrong}\n{json.dumps(seen_pods, indent=1)}")


def test_an_exceeded_quota_is_reported_with_the_refusal(
    connection: Connection, namespace: Namespace
) -> None:
    base = f"/api/v1/namespaces/{namespace.name}"
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"pods": "0"}}}
    connection.request("POST", f"{base}/resourcequotas", quota)
    eventually(
        lambda: "hard" in connection.request("GET", f"{base}/resourcequotas/team")["status"],
        "the quota is known",
    )
    refused = _refused(connection, {})
    assert refused.message == (
        "The quota team of the namespace is exceeded: requested pods=1, in use pods=0, "
        "the limit pods=0."
    )
    assert f"kubectl -n {namespace.name} describe resourcequota team" in str(refused)


def test_a_quota_of_cpus_requires_pods_to_request_cpus(
    connection: Connection, namespace: Namespace
) -> None:
    base = f"/api/v1/namespaces/{namespace.name}"
    hard = {"requests.cpu": "1", "limits.memory": "1Gi"}
    connection.request(
        "POST", f"{base}/resourcequotas", {"metadata": {"name": "team"}, "spec": {"hard": hard}}
    )
    eventually(
        lambda: "hard" in connection.request("GET", f"{base}/resourcequotas/team")["status"],
        "the quota is known",
    )
    refused = _refused(connection, {})
    assert "The quota team of the namespace accepts only pods that request" in refused.message
    assert "cpus= and memory= of wl.Kubernetes" in str(refused)
    refused = _refused(connection, {"cpu": "2", "memory": "1Mi"})
    assert "requested requests.cpu=2, in use requests.cpu=0, the limit requests.cpu=1" in (
        refused.message
    )


def test_a_pod_beyond_the_limits_of_a_namespace_is_refused_with_them(
    connection: Connection, namespace: Namespace
) -> None:
    base = f"/api/v1/namespaces/{namespace.name}"
    limit = {"type": "Container", "max": {"cpu": "1"}}
    connection.request(
        "POST", f"{base}/limitranges", {"metadata": {"name": "small"}, "spec": {"limits": [limit]}}
    )

    def is_refused() -> bool:
        try:
            _make(connection, {"cpu": "2"}, dry=True)
        except wl.KubernetesError:
            return True
        return False

    eventually(is_refused, "the limits are in force")
    refused = _refused(connection, {"cpu": "2"})
    assert refused.message == (
        "The request is outside of the limits of the namespace: maximum cpu usage per "
        "Container is 1, "
        "but limit is 2."
    )


def test_a_missing_service_account_and_priority_class_are_named(
    connection: Connection, namespace: Namespace
) -> None:
    refused = _refused(connection, {}, serviceAccountName="trainer")
    assert refused.message == (
        f"There is no service account trainer in namespace {namespace.name}."
    )
    refused = _refused(connection, {}, priorityClassName="urgent")
    assert refused.message == "There is no priority class urgent in the cluster."


def test_tainted_machines_differ_from_machines_without_a_resource(
    connection: Connection, namespace: Namespace
) -> None:
    node = f"{namespace.name}-set-aside"
    taint = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    labels = {"windlass-test": namespace.name}
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "8"}
    made = {"metadata": {"name": node, "labels": labels}, "spec": {"taints": [taint]}}
    connection.request("POST", "/api/v1/nodes", made)
    try:
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}
        connection.request(
            "PATCH", f"/api/v1/nodes/{node}/status", status,
            content_type="application/strategic-merge-patch+json",
        )  # fmt: skip
        _make(connection, {"nvidia.com/gpu": "2"}, nodeSelector=labels)

        def is_reported() -> bool:
            explanation = _explained(connection, "refused")
            return explanation is not None and "tainted (dedicated=ml)" in explanation.sentence

        eventually(is_reported, "the taint is reported")
    finally:
        connection.request("DELETE", f"/api/v1/nodes/{node}")


def _is_reported(explanation: Explanation | None, name: str, reason: str) -> bool:
    if name == "pull-secret-missing" and explanation is not None:
        return explanation.reason in (reason, "PullSecretMissing")
    return explanation is not None and explanation.reason == reason


def _explained(connection: Connection, name: str) -> Explanation | None:
    seen = _seen(connection, name)
    explanation = explain(seen["pod"], seen["events"], time.time(), log=seen["log"])
    if RECORD and explanation is not None:
        folder = Path(RECORD)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(seen, indent=1, sort_keys=True).replace(connection.namespace, "lab")
        (folder / f"{name}.json").write_text(text + "\n")
    return explanation


def _seen(connection: Connection, name: str) -> dict[str, Any]:
    """The relevant parts of the cluster's data about a pod."""
    base = f"/api/v1/namespaces/{connection.namespace}"
    pod = connection.request("GET", f"{base}/pods/{name}")
    uid = pod["metadata"]["uid"]
    events = connection.request(
        "GET", f"{base}/events", query={"fieldSelector": f"involvedObject.uid={uid}"}
    )["items"]
    log = ""
    if pod["status"].get("phase") == "Failed":
        try:
            log = connection.open("GET", f"{base}/pods/{name}/log").read().decode()
        except wl.KubernetesError:
            pass  # of a container that never ran
    return {
        "pod": {part: _kept(pod[part]) for part in ("metadata", "spec", "status")},
        "events": [_kept(event) for event in events],
        "log": log,
    }


KEPT = (
    "name", "namespace", "creationTimestamp", "labels", "nodeName", "nodeSelector", "affinity",
    "imagePullSecrets", "containers", "phase", "reason", "message", "conditions",
    "containerStatuses", "type", "lastTimestamp", "firstTimestamp", "eventTime",
)  # fmt: skip


def _kept(thing: dict[str, Any]) -> dict[str, Any]:
    return {key: thing[key] for key in KEPT if thing.get(key)}


def _make(connection: Connection, limits: dict[str, str], *, dry: bool = False, **spec: Any) -> Any:
    container = {
        "name": "main",
        "image": "windlass/none:1",
        "resources": {"limits": limits, "requests": limits},
    }
    body = {"metadata": {"name": "refused"}, "spec": {"containers": [container], **spec}}
    query = {"dryRun": "All"} if dry else {}
    path = f"/api/v1/namespaces/{connection.namespace}/pods"
    return connection.request("POST", path, body, query=query)


def _refused(connection: Connection, limits: dict[str, str], **spec: Any) -> wl.KubernetesError:
    with pytest.raises(wl.KubernetesError) as caught:
        _make(connection, limits, **spec)
    return caught.value
