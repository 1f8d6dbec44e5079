"""Explains why a pod does not run, using the pod and its events, and names a remedy.

All functions are pure and take pods and events as dicts from the API. The module recognizes
messages from the scheduler, the kubelet and the container runtimes. Unknown messages are returned
unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from windlass.kube.diagnosis.container import why_unstartable
from windlass.kube.diagnosis.image import why_not_pulled
from windlass.kube.diagnosis.scheduling import why_unscheduled
from windlass.kube.explanation import Explanation, to_sentence
from windlass.kube.quantity import parse_quantity
from windlass.model.text.quantities import format_duration, format_size

_PATIENCE = 10.0  # seconds before an unfinished step is reported


Pod = Mapping[str, Any]
Event = Mapping[str, Any]


def explain(pod: Pod, events: Sequence[Event], now: float, *, log: str = "") -> Explanation | None:
    """Explain why a pod does not run or why it stopped. Return None if there is no reason.

    `events` are the pod's events. `log` is the output of the pod's container, if the program never
    started and the output is known.
    """
    status = pod.get("status") or {}
    ended = _ended(pod, log)
    if ended or status.get("phase") in ("Succeeded", "Failed"):
        return ended
    if status.get("phase") == "Running":
        return None
    recent = sorted(events, key=event_time)
    return (
        _gated(pod)
        or _unscheduled(pod)
        or _waiting(pod, recent)
        or _unmounted(pod, recent)
        or _without_sandbox(recent)
        or _in_progress(pod, recent, now)
    )


def needs_events(pod: Pod) -> bool:
    """Return whether events may explain more about a pending pod than its status does.

    The status shows only whether the pod has a node. What that node does for the pod is visible
    only in events.

    >>> needs_events({"spec": {}}), needs_events({"spec": {"nodeName": "node-1"}})
    (False, True)
    """
    return bool((pod.get("spec") or {}).get("nodeName"))


def event_time(event: Event) -> float:
    """Return the time at which an event was last seen."""
    moment = (
        event.get("lastTimestamp")
        or (event.get("series") or {}).get("lastObservedTime")
        or event.get("eventTime")
        or event.get("firstTimestamp")
        or (event.get("metadata") or {}).get("creationTimestamp")
    )
    return parse_time(moment) or 0.0


def parse_time(text: Any) -> float | None:
    """Convert a timestamp from the API to seconds since the epoch.

    >>> parse_time("2024-05-01T10:00:00Z"), parse_time("2024-05-01T10:00:00.250000Z")
    (1714557600.0, 1714557600.25)
    """
    if not isinstance(text, str) or not text:
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


# Pods without a node.


def _gated(pod: Pod) -> Explanation | None:
    for condition in _conditions(pod, "PodScheduled"):
        if condition.get("reason") == "SchedulingGated":
            queue = _labels(pod).get("kueue.x-k8s.io/queue-name", "")
            where = f"in the queue {queue}" if queue else "for a scheduling gate of this cluster"
            return Explanation(
                reason="Queued",
                sentence=f"It waits {where}.",
                remedy="To see its position: kubectl get workloads" if queue else "",
            )
    return None


def _unscheduled(pod: Pod) -> Explanation | None:
    for condition in _conditions(pod, "PodScheduled"):
        if condition.get("status") == "False" and condition.get("reason") != "SchedulingGated":
            return why_unscheduled(str(condition.get("message") or ""), pod)
    return None


# Pods that have a node but have not started.


def _waiting(pod: Pod, events: Sequence[Event]) -> Explanation | None:
    for container, state in _states(pod, "waiting"):
        reason, message = str(state.get("reason") or ""), str(state.get("message") or "")
        image = _image(pod, container)
        if reason in _PULLS:
            return why_not_pulled(reason, message, image, events, pod)
        if reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
            return why_unstartable(pod, message, image) or Explanation(
                reason=reason,
                sentence=f"Its container cannot be started: {to_sentence(message)}",
                remedy="",
            )
    return None


_PULLS = (
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull",
    "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
)  # fmt: skip


_OWN_NEWS = "cache: timed out waiting for the condition"
"""The kubelet retries, because it does not know an object yet that was created with the pod."""


def _unmounted(pod: Pod, events: Sequence[Event]) -> Explanation | None:
    """Explain a volume that cannot be mounted. Only the pod's events report such a volume."""
    failure = _last(events, "FailedMount", "FailedAttachVolume", "FailedMapVolume")
    if failure is None:
        return None
    # An earlier failure explains more than a later message "timed out waiting".
    messages = [
        str(event.get("message") or "")
        for event in reversed(events)
        if event.get("reason") in ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
        and _OWN_NEWS not in str(event.get("message"))
    ]
    if not messages:
        return None
    for message in messages:
        explanation = why_unstartable(pod, message, "")
        if explanation:
            return explanation
    return Explanation(
        reason="VolumeUnavailable",
        sentence=f"A volume cannot be mounted: {to_sentence(messages[0])}",
        remedy="Check that the volumes= of wl.Kubernetes exist and are free.",
    )


def _without_sandbox(events: Sequence[Event]) -> Explanation | None:
    event = _last(events, "FailedCreatePodSandBox")
    if event is None or _last(events, "Pulling", "Pulled", "Created", "Started") is not None:
        return None
    return Explanation(
        reason="NodeTrouble",
        sentence="Its machine cannot create the pod: "
        f"{to_sentence(_last_part(str(event.get('message') or '')))}",
        remedy="This is a problem of the machine. Ask an administrator of the cluster. "
        "Kubernetes tries again.",
    )


def _in_progress(pod: Pod, events: Sequence[Event], now: float) -> Explanation | None:
    """Explain a step that works but takes a while, such as a pull of a large image."""
    created = parse_time((pod.get("metadata") or {}).get("creationTimestamp"))
    pulling, pulled = _last(events, "Pulling"), _last(events, "Pulled")
    if pulling is not None and (pulled is None or event_time(pulled) < event_time(pulling)):
        took = now - event_time(pulling)
        if took >= _PATIENCE:
            image = _quoted(str(pulling.get("message") or "")) or "its image"
            return Explanation(
                reason="Pulling",
                sentence=f"Its machine has been pulling the image {image} for "
                f"{format_duration(took)}.",
            )
        return None
    scaled = _last(events, "TriggeredScaleUp")
    if scaled is not None:
        return Explanation(reason="ScalingUp", sentence="The cluster is starting a machine for it.")
    has_node = bool((pod.get("spec") or {}).get("nodeName"))
    if not has_node and created is not None and now - created >= _PATIENCE:
        return Explanation(
            reason="NotLookedAt",
            sentence="The scheduler has not chosen a machine for "
            f"{format_duration(now - created)}.",
            remedy="Check that the cluster's scheduler runs: kubectl -n kube-system get pods",
        )
    return None


# Pods that have ended.


def _ended(pod: Pod, log: str) -> Explanation | None:
    status = pod.get("status") or {}
    for container, state in _states(pod, "terminated"):
        explanation = _container_ended(pod, container, state, log)
        if explanation:
            return explanation
    if status.get("phase") != "Failed":
        return None
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason == "Evicted":
        return Explanation(
            reason="Evicted",
            sentence=f"Its machine evicted it: {to_sentence(message)}",
            remedy="Request as much memory as it uses (memory= of wl.Kubernetes): pods "
            "within their request are evicted last."
            if "memory" in message
            else "Write less to the machine's disk, or to a volume (volumes= of wl.Kubernetes).",
        )
    if reason == "DeadlineExceeded":
        return Explanation(reason=reason, sentence="It ran longer than its pod's deadline.")
    if reason.startswith("OutOf") or reason == "UnexpectedAdmissionError":
        return Explanation(
            reason="NodeFull",
            sentence=f"Its machine has no capacity for it after all: {to_sentence(message)}",
            remedy="Another attempt runs on another machine.",
        )
    if reason in ("Preempting", "NodeShutdown", "Shutdown", "Terminated", "NodeLost"):
        why = f": {to_sentence(message)}" if message else "."
        return Explanation(reason=reason, sentence=f"Its machine was removed{why}")
    if reason:
        return Explanation(reason=reason, sentence=to_sentence(f"{reason}: {message}".rstrip(": ")))
    return None


def _container_ended(
    pod: Pod, container: Mapping[str, Any], state: Mapping[str, Any], log: str
) -> Explanation | None:
    reason, message = str(state.get("reason") or ""), str(state.get("message") or "")
    image = _image(pod, container)
    if reason == "OOMKilled":
        limit = int(parse_quantity(_limit(pod, container, "memory")))
        return Explanation(
            reason="OutOfMemory",
            sentence=f"It used more than the {format_size(limit)} of memory that it may "
            "use and was killed."
            if limit
            else "Its machine ran out of memory, and it was killed.",
            remedy="Request more: memory= of wl.Kubernetes.",
        )
    if reason in ("StartError", "ContainerCannotRun"):
        return why_unstartable(pod, message, image) or Explanation(
            reason="StartError",
            sentence=f"Its container cannot be started: {to_sentence(_last_part(message))}",
        )
    if state.get("exitCode") in (1, 126, 127, 255) and log:
        return why_unstartable(pod, log[-4000:], image)
    return None


# Functions that read pods and events.


def _conditions(pod: Pod, kind: str) -> Iterator[Mapping[str, Any]]:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            yield condition


def _states(pod: Pod, state: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the status of each container that is in a state such as `waiting`.

    Each status comes with the details of the state. Init containers come first.
    """
    status = pod.get("status") or {}
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(group) or ():
            details = (container.get("state") or {}).get(state)
            if details:
                yield container, details


def _last(events: Sequence[Event], *reasons: str) -> Event | None:
    return next((event for event in reversed(events) if event.get("reason") in reasons), None)


def _labels(pod: Pod) -> Mapping[str, str]:
    return (pod.get("metadata") or {}).get("labels") or {}


def _container_spec(pod: Pod, container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec of the container that a container status describes."""
    spec = pod.get("spec") or {}
    for container_spec in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if container_spec.get("name") == container.get("name"):
            return dict(container_spec)
    return {}


def _image(pod: Pod, container: Mapping[str, Any]) -> str:
    """Return the image name as the user wrote it. The status can contain a longer name."""
    return str(_container_spec(pod, container).get("image") or container.get("image") or "")


def _limit(pod: Pod, container: Mapping[str, Any], resource: str) -> str:
    limits = (_container_spec(pod, container).get("resources") or {}).get("limits") or {}
    return str(limits.get(resource) or "")


def _quoted(text: str) -> str:
    match = re.search(r'"([^"]+)"', text)
    return match[1] if match else ""


def _last_part(message: str) -> str:
    """Return the last two parts of a chain like "failed to ...: ...: ...", which name the cause."""
    parts = message.split(": ")
    return ": ".join(parts[-2:]) if len(parts) > 2 else message
