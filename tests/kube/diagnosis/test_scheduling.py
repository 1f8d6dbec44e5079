"""Messages of several scheduler versions about a pod that fits nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.kube.capacity.nodes import GKE_POOL
from windlass.kube.diagnosis.pod import explain
from windlass.kube.diagnosis.scheduling import why_unscheduled


def pod(**spec: Any) -> dict[str, Any]:
    asks = {"nvidia.com/gpu": "4", "cpu": "500m", "memory": "2Gi"}
    container = {"name": "main", "resources": {"requests": asks}}
    return {"metadata": {"namespace": "lab"}, "spec": {"containers": [container], **spec}}


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        # 1.20
        (
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
            "The only machine has less than 4 GPUs free.",
        ),
        (
            "0/3 nodes are available: 3 Insufficient cpu.",
            "None of the 3 machines has 0.5 CPUs free.",
        ),
        (
            "0/3 nodes are available: 1 Insufficient memory, 2 node(s) had taint "
            "{dedicated: ml}, that the pod didn't tolerate.",
            "No machine takes it: 1 of 3 machines has less than 2.1 GB of memory free; "
            "2 of 3 machines are tainted (dedicated=ml).",
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't match node selector.",
            "None of the 2 machines has the requested labels (disk=ssd).",
        ),
        # 1.24 and later
        (
            "0/3 nodes are available: 3 node(s) had untolerated taint {dedicated: ml}. preemption: "
            "0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            "All 3 machines are tainted (dedicated=ml).",
        ),
        (
            "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's "
            "node affinity/selector. preemption: 0/3 nodes are available: 1 No preemption victims "
            "found for incoming pod, 2 Preemption is not helpful for scheduling.",
            "No machine takes it: 1 of 3 machines has less than 4 GPUs free; "
            "2 of 3 machines are without the requested labels (disk=ssd).",
        ),
        (
            "0/1 nodes are available: 1 node(s) were unschedulable.",
            "The only machine is closed to new pods.",
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint "
            "{node.kubernetes.io/disk-pressure: }.",
            "The only machine is not well (disk pressure).",
        ),
        ("0/4 nodes are available: 4 Too many pods.", "All 4 machines are full of pods."),
        ("no nodes available to schedule pods", "The cluster has no machines at all."),
        (
            '0/1 nodes are available: persistentvolumeclaim "data" not found.',
            "There is no volume claim data in namespace lab.",
        ),
        (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "Its volume claim has no volume yet.",
        ),
        ("something quite new", "No machine takes it: something quite new."),
        ("", "No machine takes it."),
    ],
)
def test_the_message_of_a_scheduler_is_explained_in_terms_of_the_user(
    message: str, sentence: str
) -> None:
    assert why_unscheduled(message, pod(nodeSelector={"disk": "ssd"})).sentence == sentence


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        # 1.20
        (
            "0/1 nodes are available: 1 node(s) didn't match pod affinity/anti-affinity, "
            "1 node(s) didn't match pod anti-affinity rules.",
            "The only machine is of a TPU that another job has.",
        ),
        # later
        (
            "0/6 nodes are available: 2 Insufficient google.com/tpu, 2 node(s) didn't match pod "
            "anti-affinity rules, 2 node(s) didn't match Pod's node affinity/selector.",
            "No machine takes it: 2 of 6 machines have less than 4 TPU chips free; "
            "2 of 6 machines are of a TPU that another job has; "
            "2 of 6 machines are without the requested labels (disk=ssd).",
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.",
            "All 2 machines are of another TPU than the rest of it.",
        ),
    ],
)
def test_the_constraint_that_keeps_tpu_machines_together_is_explained(
    message: str, sentence: str
) -> None:
    together = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": GKE_POOL}]}
    waiting = pod(nodeSelector={"disk": "ssd"}, affinity={"podAffinity": together})
    waiting["spec"]["containers"][0]["resources"] = {"requests": {"google.com/tpu": "4"}}
    assert why_unscheduled(message, waiting).sentence == sentence


def test_a_gated_pod_waits_in_its_queue() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    waiting = pod()
    waiting["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    waiting["status"] = {"phase": "Pending", "conditions": [condition]}
    explanation = explain(waiting, [], now=0)
    assert explanation is not None
    assert (explanation.reason, explanation.sentence) == ("Queued", "It waits in the queue team-a.")


def test_a_new_pod_has_no_explanation() -> None:
    new = pod()
    new["metadata"]["creationTimestamp"] = "2024-05-01T10:00:00Z"
    new["status"] = {"phase": "Pending"}
    assert explain(new, [], now=1714557605.0) is None
    late = explain(new, [], now=1714557620.0)
    assert late is not None
    assert late.reason == "NotLookedAt"


def test_a_slow_pull_is_reported_with_its_image() -> None:
    going = pod(nodeName="n")
    going["status"] = {"phase": "Pending"}
    pulling = {
        "reason": "Pulling",
        "message": 'Pulling image "lab/train:7"',
        "lastTimestamp": "2024-05-01T10:00:00Z",
    }
    explanation = explain(going, [pulling], now=1714557645.0)
    assert explanation is not None
    assert explanation.sentence == "Its machine has been pulling the image lab/train:7 for 45s."
    pulled = {**pulling, "reason": "Pulled", "lastTimestamp": "2024-05-01T10:00:40Z"}
    assert explain(going, [pulling, pulled], now=1714557645.0) is None


@pytest.mark.parametrize("odd", [{}, {"status": None}, {"status": {"containerStatuses": [{}]}}])
def test_almost_empty_pods_are_handled(odd: dict[str, Any]) -> None:
    explain(odd, [{}], now=0.0)
