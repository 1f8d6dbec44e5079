"""Derives the state of a pod from the state of its main container.

A pod describes its state in many fields. This module reduces them to a phase and either an exit
code, if the program ended by itself, or the reason why it did not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from windlass.kube.explanation import in_a_line
from windlass.kube.timestamp import parse_timestamp
from windlass.model.status import Phase

# Values of `status.reason` that mean that something other than the program ended the pod.
LOST = frozenset(
    {
        "Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "Preempted",
        "NodeAffinity", "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods",
    }
)  # fmt: skip
START_FAILED = "StartFailed"
OUT_OF_MEMORY = "OOMKilled"
NODE_SILENT = "NodeNotReady"  # the pod's last known state is "running"
POD_DEADLINE = "PodDeadlineExceeded"  # the pod's own deadline, not the job's

_NEVER_STARTED = frozenset({"ContainerCannotRun", "StartError", "CreateContainerError"})
_UNKNOWN_END = "ContainerStatusUnknown"
_SILENT = frozenset({"", "Error", "Completed"})
_MOST_LINES, _MOST_LETTERS = 5, 600


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a pod. A failed pod without an exit code was lost or never started.

    `reason` is one word: "Evicted", "NodeLost", "OOMKilled" or "StartFailed". For a pending pod,
    `reason` says why the pod waits, such as "ImagePullBackOff" or "Unschedulable".
    """

    phase: Phase
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started: float | None = None
    ended: float | None = None
    node: str = ""
    address: str = ""
    deleting: bool = False


def read_pod_state(pod: Mapping[str, Any], container: str = "") -> PodState:
    """Return the state of a pod, judged by its container of this name or its first container.

    >>> ended = {"exitCode": 3, "reason": "Error", "message": "ValueError: no data\\n"}
    >>> status = {
    ...     "phase": "Failed",
    ...     "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
    ... }
    >>> state = read_pod_state({"metadata": {}, "status": status}, "main")
    >>> state.phase.value, state.exit_code, state.message
    ('Failed', 3, 'ValueError: no data')
    """
    status = pod.get("status") or {}
    own = _container(pod, status, container)
    inner: Mapping[str, Any] = own.get("state") or {}
    terminated: Mapping[str, Any] = inner.get("terminated") or {}
    began = terminated.get("startedAt") or (inner.get("running") or {}).get("startedAt")
    state = PodState(
        phase=Phase.PENDING,
        started=parse_timestamp(began),
        ended=parse_timestamp(terminated.get("finishedAt")),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        address=str(status.get("podIP") or ""),
        deleting="deletionTimestamp" in pod["metadata"],
    )
    lost = _loss(status)
    if lost is not None:
        reason, message = lost
        changes = {"phase": Phase.FAILED, "reason": reason, "message": message}
        return msgspec.structs.replace(state, ended=state.ended or _ended(status), **changes)
    if terminated:
        return _ended_by_itself(state, terminated)
    phase = status.get("phase")
    if phase == "Succeeded":
        return msgspec.structs.replace(state, phase=Phase.SUCCEEDED, exit_code=0)
    if phase == "Failed":
        changes = {"phase": Phase.FAILED, "reason": START_FAILED, "message": _why_not(status)}
        return msgspec.structs.replace(state, ended=_ended(status), **changes)
    if phase == "Unknown":
        message = "its node does not answer"
        changes = {"phase": Phase.UNKNOWN, "reason": "NodeLost", "message": message}
        return msgspec.structs.replace(state, **changes)
    if "running" in inner:
        silent = {"reason": NODE_SILENT, "message": "its node does not answer"}
        changes = silent if _is_node_silent(pod, status) else {}
        return msgspec.structs.replace(state, phase=Phase.RUNNING, **changes)
    reason, message = _waits_for(status, inner)
    return msgspec.structs.replace(state, reason=reason, message=message)


def was_deleted_before_end(pod: Mapping[str, Any], state: PodState) -> bool:
    """Return whether a pod ended after its deletion was requested, which makes its exit code void.

    The API reports the deadline for the deletion and the grace period in whole seconds. If the pod
    ended in the same second as the deletion request, the order is unknown. In that case, the
    function returns True, because a needless restart does less harm than a lost run.

    >>> state = PodState(phase=Phase.SUCCEEDED, ended=parse_timestamp("2026-11-16T10:30:05Z"))
    >>> going = {"deletionTimestamp": "2026-11-16T10:30:30Z", "deletionGracePeriodSeconds": 30}
    >>> (
    ...     was_deleted_before_end({"metadata": going}, state),
    ...     was_deleted_before_end({"metadata": {}}, state),
    ... )
    (True, False)
    """
    gone_by = parse_timestamp(pod["metadata"].get("deletionTimestamp"))
    if gone_by is None or state.ended is None:
        return False
    return state.ended >= gone_by - float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)


def last_lines(text: str) -> str:
    """Return the last lines of a message, because the last line usually contains the cause.

    >>> last_lines("a\\n" * 100 + "ValueError: no data\\n").count("\\n")
    4
    """
    lines = [in_a_line(line) for line in text.strip().splitlines() if line.strip()]
    end = "\n".join(lines[-_MOST_LINES:])
    return end if len(end) <= _MOST_LETTERS else f"…{end[-_MOST_LETTERS:]}"


def _container(pod: Mapping[str, Any], status: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if not name:
        containers = (pod.get("spec") or {}).get("containers") or ()
        name = str(containers[0]["name"]) if containers else ""
    for container_status in status.get("containerStatuses") or ():
        if container_status.get("name") == name:
            first: Mapping[str, Any] = container_status
            return first
    return {}


def _loss(status: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return why a pod was removed, as a reason and a message, or None if it was not removed.

    If a pod was removed, its program's exit code does not count.
    """
    if status.get("phase") != "Failed":
        return None
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason in LOST or reason.startswith("OutOf"):
        return reason, in_a_line(message)
    if reason == "DeadlineExceeded":
        return POD_DEADLINE, "it ran longer than activeDeadlineSeconds of its template"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            message = in_a_line(str(condition.get("message") or ""))
            return str(condition.get("reason") or "Evicted"), message
    return None


def _is_node_silent(pod: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Return whether Kubernetes marked a pod as not ready because its node does not respond.

    In that case, the condition `Ready` is false although `ContainersReady` is true.
    """
    if (pod.get("spec") or {}).get("readinessGates"):
        return False  # other controllers may have marked the pod
    statuses = {
        condition.get("type"): condition.get("status")
        for condition in status.get("conditions") or ()
    }
    return statuses.get("Ready") == "False" and statuses.get("ContainersReady") == "True"


def _ended_by_itself(state: PodState, terminated: Mapping[str, Any]) -> PodState:
    code, reason = terminated.get("exitCode"), str(terminated.get("reason") or "")
    message = last_lines(str(terminated.get("message") or ""))
    if reason == _UNKNOWN_END:
        changes = {"phase": Phase.FAILED, "reason": "NodeLost", "message": message}
        return msgspec.structs.replace(state, **changes)
    if code == 0:
        return msgspec.structs.replace(state, phase=Phase.SUCCEEDED, exit_code=0)
    if reason in _NEVER_STARTED:
        reason = START_FAILED
    elif reason in _SILENT:
        reason = ""
    return msgspec.structs.replace(
        state, phase=Phase.FAILED, exit_code=code, reason=reason, message=message
    )


def _why_not(status: Mapping[str, Any]) -> str:
    """Return why a pod failed before its main container ran."""
    for container_status in status.get("initContainerStatuses") or ():
        ended = (container_status.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            output = last_lines(str(ended.get("message") or ""))
            name, code = container_status["name"], ended["exitCode"]
            message = f"its init container {name} ended with exit code {code}"
            return f"{message}: {output}" if output else message
    return in_a_line(str(status.get("message") or status.get("reason") or ""))


def _ended(status: Mapping[str, Any]) -> float | None:
    """Return the time at which a pod's last container ended. The pod itself has no end time."""
    moments = [
        parse_timestamp(
            ((container_status.get("state") or {}).get("terminated") or {}).get("finishedAt")
        )
        for container_status in _all_containers(status)
    ]
    return max((moment for moment in moments if moment is not None), default=None)


def _waits_for(status: Mapping[str, Any], inner: Mapping[str, Any]) -> tuple[str, str]:
    for state in (
        inner,
        *((container_status.get("state") or {}) for container_status in _all_containers(status)),
    ):
        waiting = state.get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        if reason and reason not in {"ContainerCreating", "PodInitializing"}:
            return reason, in_a_line(str(waiting.get("message") or ""))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            message = in_a_line(str(condition.get("message") or ""))
            return str(condition.get("reason") or "Unschedulable"), message
    return "", ""


def _all_containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()
