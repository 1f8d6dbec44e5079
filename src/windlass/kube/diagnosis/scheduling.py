"""Explains why the scheduler finds no node for a pod, using the scheduler's message.

The message counts the nodes and gives the reasons why they do not fit, for example `0/3 nodes are
available: 1 Insufficient cpu, 2 node(s) had untolerated taint {dedicated: ml}.`
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from windlass.kube.capacity.nodes import GKE_POOL
from windlass.kube.explanation import Explanation, to_sentence
from windlass.kube.quantity import parse_quantity
from windlass.model.text.quantities import format_size

_HEAD = re.compile(r"^\d+/(?P<all>\d+) nodes are available: (?P<reasons>.*)", re.DOTALL)
_ONE = re.compile(
    r"(?:^|, )(?P<count>\d+) (?P<what>.+?)(?=, \d+ (?:node|Insufficient|Too many|Preemption)|$)"
)
_TAINT = re.compile(
    r"node\(s\) had (?:untolerated )?taint(?:\(s\))? ?\{(?P<key>[^:}]+):? ?(?P<value>[^}]*)\}"
)
_AFFINITY = "node(s) didn't match pod affinity/anti-affinity"
_UNITS = {
    "nvidia.com/gpu": "GPU",
    "google.com/tpu": "TPU chip",
    "cpu": "CPU",
}
_UNDIVIDED = ("1 GPU", "1 TPU chip")  # needs that cannot be divided


def why_unscheduled(message: str, pod: Mapping[str, Any]) -> Explanation:
    """Explain a scheduler message about a pod.

    >>> gpus = {"resources": {"requests": {"nvidia.com/gpu": "4"}}}
    >>> pod = {"spec": {"containers": [gpus]}}
    >>> print(why_unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", pod))
    None of the 3 machines has 4 GPUs free. It starts when they are free. To see the capacity: \
windlass kubernetes check
    """
    for pattern, explanation in _WHOLE:
        match = pattern.search(message)
        if match:
            return explanation(match, pod)
    head = _HEAD.match(message)
    if head is None:
        return _verbatim(message)
    total = int(head["all"])
    reasons = dict(_reasons(head["reasons"]))
    if any(what.endswith("affinity rules") for what in reasons):
        reasons.pop(_AFFINITY, None)  # older schedulers report this reason twice for the same node
    if not reasons:
        return _verbatim(message)
    parts = [_part(count, what, total, pod) for what, count in reasons.items()]
    parts.sort(key=lambda part: part[0])
    if len(parts) == 1:
        _, reason, sentence, remedy = parts[0]
        return Explanation(reason, f"{sentence[0].upper()}{sentence[1:]}.", remedy)
    listed = "; ".join(sentence for _, _, sentence, _ in parts)
    return Explanation(parts[0][1], f"No machine takes it: {listed}.", parts[0][3])


def _verbatim(message: str) -> Explanation:
    why = f": {to_sentence(message)}" if message.strip() else "."
    return Explanation("Unschedulable", f"No machine takes it{why}")


def _reasons(text: str) -> Iterator[tuple[str, int]]:
    """Yield each reason in a scheduler message, and the number of nodes to which it applies."""
    text = text.partition(" preemption:")[0].strip().rstrip(".")
    for match in _ONE.finditer(text):
        yield match["what"].strip().rstrip("."), int(match["count"])


def _part(count: int, what: str, total: int, pod: Mapping[str, Any]) -> tuple[int, str, str, str]:
    """Return a weight, a reason, a sentence and a remedy for one part of the scheduler's message.

    The part that has the lowest weight is the easiest to fix and determines the remedy for the
    whole message.
    """
    of = _nodes_text(count, total)
    if what.startswith("Insufficient "):
        resource = what.removeprefix("Insufficient ")
        need = _need(resource, pod)
        remedy = "It starts when they are free. To see the capacity: windlass kubernetes check"
        if resource in ("cpu", "memory", "ephemeral-storage"):
            remedy = "It starts when there is capacity. Requesting less (cpus=, memory= of "
            remedy += "wl.Kubernetes) may help."
        return 1, "Unschedulable", _short(count, total, need), remedy
    taint = _TAINT.search(what)
    if taint:
        key, value = taint["key"].strip(), taint["value"].strip()
        if key.startswith("node.kubernetes.io/"):
            trouble = key.removeprefix("node.kubernetes.io/").replace("-", " ")
            return (
                4,
                "NodesUnwell",
                f"{of} not well ({trouble})",
                "It starts when a machine is ready.",
            )
        shown = f"{key}={value}" if value else key
        operator = f'"value": "{value}"' if value else '"operator": "Exists"'
        return (
            2,
            "TaintNotTolerated",
            f"{of} tainted ({shown})",
            "If you may use them, add "
            f'tolerations=[{{"key": "{key}", {operator}}}] of wl.Kubernetes.',
        )
    if "node affinity" in what or "node selector" in what:
        has_none = f"none of the {total} machines has" if count >= total > 1 else f"{of} without"
        # if only some nodes lack the labels, the requested nodes exist and other reasons matter
        # more
        weight = 0 if count >= total else 6
        return weight, "NoSuchNode", f"{has_none} the requested labels ({_wanted(pod)})", _SEE_NODES
    if "unschedulable" in what:
        return 5, "NodesClosed", f"{of} closed to new pods", "It starts when they are uncordoned."
    if "Too many pods" in what:
        return 3, "NodesFull", f"{of} full of pods", "It starts when other pods end."
    if "volume node affinity conflict" in what or "volume zone" in what:
        return (
            1, "VolumeElsewhere", f"{of} in another zone than its volume",
            "Free machines in the zone of the volume, or use a volume that all machines can mount.",
        )  # fmt: skip
    if "affinity" in what and _is_of_slice(pod):
        if "anti-affinity" in what:
            remedy = "It starts when that job ends."
            return 2, "Unschedulable", f"{of} of a TPU that another job has", remedy
        return 3, "Unschedulable", f"{of} of another TPU than the rest of it", ""
    if "affinity" in what or "topology spread" in what:
        return 3, "Unschedulable", f"{of} ruled out by the pods that run there ({what})", ""
    return 3, "Unschedulable", f"{of} ruled out: {what}", ""


_SEE_NODES = "See the labels of the nodes: kubectl get nodes --show-labels"


def _nodes_text(count: int, total: int) -> str:
    """Return the subject and verb of a sentence about the nodes to which a reason applies.

    >>> _nodes_text(1, 1), _nodes_text(3, 3), _nodes_text(2, 3), _nodes_text(1, 3)
    ('the only machine is', 'all 3 machines are', '2 of 3 machines are', '1 of 3 machines is')
    """
    if count >= total:
        return "the only machine is" if total == 1 else f"all {total} machines are"
    return f"{count} of {total} machines {'is' if count == 1 else 'are'}"


def _short(count: int, total: int, need: str) -> str:
    """Return a clause about nodes that have too little of a resource.

    >>> _short(3, 3, "4 GPUs"), _short(1, 1, "4 GPUs")
    ('none of the 3 machines has 4 GPUs free', 'the only machine has less than 4 GPUs free')
    >>> _short(1, 1, "1 GPU")
    'the only machine has no GPU free'
    """
    if count >= total > 1:
        return f"none of the {total} machines has {need} free"
    whose = "the only machine" if total == 1 else f"{count} of {total} machines"
    verb = "has" if count == 1 else "have"
    if need in _UNDIVIDED:
        return f"{whose} {verb} no {need.removeprefix('1 ')} free"
    return f"{whose} {verb} {'not' if need.startswith('enough') else 'less than'} {need} free"


def _need(resource: str, pod: Mapping[str, Any]) -> str:
    """Return the amount of a resource that a pod requests, as display text."""
    amount = requested(resource, pod)
    if resource in _UNITS:
        count = f"{amount:g}" if amount else "enough"
        unit = _UNITS[resource]
        return f"{count} {unit}" if amount == 1 else f"{count} {unit}s"
    if resource in ("memory", "ephemeral-storage"):
        noun = "memory" if resource == "memory" else "disk"
        return f"{format_size(int(amount))} of {noun}" if amount else f"enough {noun}"
    return f"{amount:g} {resource}" if amount else f"enough {resource}"


def requested(resource: str, pod: Mapping[str, Any]) -> float:
    """Return the total amount of a resource that a pod's containers request.

    >>> asks = [{"resources": {"requests": {"cpu": "500m"}}}, {"resources": {"limits": {"cpu": 2}}}]
    >>> requested("cpu", {"spec": {"containers": asks}})
    2.5
    """
    total = 0.0
    for container in (pod.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        amount = (resources.get("requests") or {}).get(resource)
        if amount is None:
            amount = (resources.get("limits") or {}).get(resource)
        total += parse_quantity(amount) if amount is not None else 0.0
    return total


def _wanted(pod: Mapping[str, Any]) -> str:
    """Return the node labels that a pod requires, as display text."""
    spec = pod.get("spec") or {}
    wanted = [f"{key}={value}" for key, value in sorted((spec.get("nodeSelector") or {}).items())]
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for expression in term.get("matchExpressions") or ():
            values = "|".join(expression.get("values") or ())
            wanted.append(f"{expression.get('key')} {expression.get('operator')} {values}".strip())
    return ", ".join(wanted) or "its node selector"


def _is_of_slice(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod belongs to a group of pods that share one multi-machine TPU."""
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("podAffinity") or {}
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return any(term.get("topologyKey") == GKE_POOL for term in terms)


def _claim_missing(match: re.Match[str], pod: Mapping[str, Any]) -> Explanation:
    namespace = (pod.get("metadata") or {}).get("namespace") or "default"
    return Explanation(
        "VolumeMissing",
        f"There is no volume claim {match['name']} in namespace {namespace}.",
        f"Name an existing claim (volumes= of wl.Kubernetes): kubectl -n {namespace} get pvc",
    )


def _claim_unbound(_match: re.Match[str], pod: Mapping[str, Any]) -> Explanation:
    namespace = (pod.get("metadata") or {}).get("namespace") or "default"
    return Explanation(
        "VolumeUnbound",
        "Its volume claim has no volume yet.",
        f"Check that a storage class provides one: kubectl -n {namespace} describe pvc",
    )


def _no_nodes(_match: re.Match[str], _pod: Mapping[str, Any]) -> Explanation:
    return Explanation(
        "NoNodes",
        "The cluster has no machines at all.",
        "It starts when there is a machine. Ask an administrator of the cluster to add one.",
    )


_WHOLE = (
    (re.compile(r'persistentvolumeclaim "(?P<name>[^"]+)" not found'), _claim_missing),
    (re.compile(r"unbound immediate PersistentVolumeClaims"), _claim_unbound),
    (re.compile(r"no nodes available to schedule pods|^0/0 nodes"), _no_nodes),
)
