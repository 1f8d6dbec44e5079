"""The state of a pod, from its API object."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.kube.pod_state import read_pod_state
from windlass.model.status import Phase

NAME = "pytorch"
BEGAN, ENDED = "2026-11-16T10:30:00Z", "2026-11-16T10:31:00Z"


def pod(phase: str, *containers: dict[str, Any], deleting: bool = False, **status: Any) -> Any:
    metadata = {"name": "train-worker-0"}
    if deleting:
        metadata["deletionTimestamp"] = ENDED
    return {
        "metadata": metadata,
        "spec": {"nodeName": "node-1", "containers": [{"name": NAME}, {"name": "sidecar"}]},
        "status": {"phase": phase, "containerStatuses": list(containers), **status},
    }


def running(name: str = NAME) -> dict[str, Any]:
    return {"name": name, "state": {"running": {"startedAt": BEGAN}}}


def ended(code: int, reason: str = "", message: str = "", name: str = NAME) -> dict[str, Any]:
    reason = reason or ("Error" if code else "Completed")
    terminated = {"exitCode": code, "reason": reason, "startedAt": BEGAN, "finishedAt": ENDED}
    return {"name": name, "state": {"terminated": {**terminated, "message": message}}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"name": NAME, "state": {"waiting": {"reason": reason, "message": message}}}


def test_a_pod_runs_when_its_own_container_does() -> None:
    state = read_pod_state(pod("Running", running(), podIP="10.88.0.7"), NAME)
    assert (state.phase, state.node, state.address) == (Phase.RUNNING, "node-1", "10.88.0.7")
    assert state.started == 1794825000.0
    assert state.ended is None


def test_a_running_sidecar_does_not_make_a_pod_running() -> None:
    state = read_pod_state(pod("Running", waiting("PodInitializing"), running("sidecar")), NAME)
    assert state.phase is Phase.PENDING


@pytest.mark.parametrize("code", [1, 127, 128, 137, 143, 255])
def test_a_failure_has_the_exit_code_of_its_own_container(code: int) -> None:
    state = read_pod_state(pod("Failed", ended(0, name="sidecar"), ended(code)), NAME)
    assert (state.phase, state.exit_code, state.reason) == (Phase.FAILED, code, "")
    assert state.ended == 1794825060.0


def test_a_pod_ends_with_its_own_container_although_a_sidecar_runs() -> None:
    state = read_pod_state(pod("Running", ended(0), running("sidecar")), NAME)
    assert (state.phase, state.exit_code) == (Phase.SUCCEEDED, 0)


def test_a_failed_sidecar_is_not_a_failure() -> None:
    state = read_pod_state(pod("Failed", ended(0), ended(1, name="sidecar")), NAME)
    assert state.phase is Phase.SUCCEEDED


def test_an_out_of_memory_kill_is_reported() -> None:
    state = read_pod_state(pod("Failed", ended(137, "OOMKilled")), NAME)
    assert (state.exit_code, state.reason) == (137, "OOMKilled")


@pytest.mark.parametrize("containers", [(), (ended(137),), (ended(0),)])
def test_an_evicted_pod_has_no_exit_code(containers: tuple[Any, ...]) -> None:
    """It may have exited with 0 after SIGTERM, which is not a success of the program."""
    message = "The node was low on resource: memory. "
    state = read_pod_state(pod("Failed", *containers, reason="Evicted", message=message), NAME)
    assert (state.phase, state.exit_code, state.reason) == (Phase.FAILED, None, "Evicted")
    assert state.message == "The node was low on resource: memory."


def test_a_pod_disrupted_by_its_cluster_has_no_exit_code() -> None:
    because = {
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
    }  # fmt: skip
    state = read_pod_state(pod("Failed", ended(143), conditions=[because]), NAME)
    assert (state.exit_code, state.reason) == (None, "PreemptionByScheduler")


def test_a_container_of_a_restarted_node_has_no_exit_code() -> None:
    state = read_pod_state(pod("Failed", ended(137, "ContainerStatusUnknown")), NAME)
    assert (state.phase, state.exit_code, state.reason) == (Phase.FAILED, None, "NodeLost")


def test_a_pod_on_an_unresponsive_node_is_unknown() -> None:
    assert read_pod_state(pod("Unknown", running()), NAME).phase is Phase.UNKNOWN


def test_a_pod_deleted_while_it_runs_still_runs_and_is_deleting() -> None:
    state = read_pod_state(pod("Running", running(), deleting=True), NAME)
    assert (state.phase, state.deleting) == (Phase.RUNNING, True)


def test_a_pod_that_never_started_names_the_failed_container() -> None:
    fetch = ended(2, message="no such bucket\n", name="fetch")
    state = read_pod_state(pod("Failed", initContainerStatuses=[fetch]), NAME)
    assert (state.phase, state.exit_code, state.reason) == (Phase.FAILED, None, "StartFailed")
    assert state.message == "its init container fetch ended with exit code 2: no such bucket"


def test_a_missing_program_could_not_start() -> None:
    message = 'exec: "trian": executable file not found in $PATH'
    state = read_pod_state(pod("Failed", ended(128, "StartError", message)), NAME)
    assert (state.exit_code, state.reason, state.message) == (128, "StartFailed", message)


def test_a_pod_with_its_own_deadline_is_not_at_the_deadline_of_its_job() -> None:
    state = read_pod_state(pod("Failed", ended(143), reason="DeadlineExceeded"), NAME)
    assert (state.exit_code, state.reason) == (None, "PodDeadlineExceeded")


def test_a_waiting_pod_names_its_reason() -> None:
    state = read_pod_state(
        pod("Pending", waiting("ImagePullBackOff", "Back-off pulling image")), NAME
    )
    assert (state.phase, state.reason) == (Phase.PENDING, "ImagePullBackOff")
    because = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    }  # fmt: skip
    state = read_pod_state(pod("Pending", conditions=[because]), NAME)
    assert (state.reason, state.message) == ("Unschedulable", because["message"])


def test_only_the_end_of_a_container_message_is_kept() -> None:
    log = "".join(f"step {number}\n" for number in range(200)) + "ValueError: no data\n"
    message = read_pod_state(pod("Failed", ended(1, message=log)), NAME).message
    assert message.endswith("ValueError: no data")
    assert message.count("\n") == 4
    long = read_pod_state(pod("Failed", ended(1, message="x" * 5000)), NAME).message
    assert len(long) < 700


def test_a_running_pod_on_an_unresponsive_node_is_reported() -> None:
    conditions = [
        {"type": "Ready", "status": "False"},
        {"type": "ContainersReady", "status": "True"},
    ]
    state = read_pod_state(pod("Running", running(), conditions=conditions), NAME)
    assert (state.phase, state.message) == (Phase.RUNNING, "its node does not answer")
    conditions[1]["status"] = "False"  # that is its node's own word
    assert read_pod_state(pod("Running", running(), conditions=conditions), NAME).message == ""
