"""The state of an attempt in a pod, from its files and its pod."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from windlass.model.status import GIVEN_UP, Phase, Replica, ReplicaId
from windlass.runtimes import paths
from windlass.runtimes.kubernetes.attempts.pod_attempt import SETTLING, STUCK, PodAttempt

NOW = 1_800_000_000.0
UID = "0123456789abcdef" * 2


class World:
    """An attempt with a pod that the test defines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.passed = 0.0  # seconds of a monotonic clock
        self.attempt = PodAttempt(UID, ReplicaId("main", 0, 1), path, "", clock=lambda: self.passed)
        self.write(
            paths.LAUNCH, {"key": {"uid": UID}, "python": "python3", "env": {}, "private": None}
        )

    def write(self, name: str, value: dict[str, Any]) -> None:
        (self.path / name).write_text(json.dumps(value))

    def begin(self) -> None:
        """The agent has reported its start."""
        self.write(paths.STATE, {"stage": "running", "started": NOW - 50})

    def see(
        self,
        pod: dict[str, Any] | None,
        *,
        is_seen: bool = True,
        waits_for: str = "",
        now: float = NOW,
    ) -> Replica:
        if pod is not None:
            self.attempt.note_made(pod)
        return self.attempt.observe(pod, is_seen=is_seen, waits_for=waits_for, now=now)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    phase: str = "Running", *, gone_at: float | None = None, grace: int = 0, **state: Any
) -> dict[str, Any]:
    """A pod whose container is in a state: `terminated={"exitCode": 1}`."""
    statuses = [{"name": "main", "state": state}] if state else []
    metadata: dict[str, Any] = {"name": "wl-7", "namespace": "lab", "uid": "pod-1"}
    if gone_at is not None:
        leaving = {"deletionTimestamp": moment(gone_at), "deletionGracePeriodSeconds": grace}
        metadata |= leaving
    return {
        "metadata": metadata,
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "x"}]},
        "status": {"phase": phase, "podIP": "10.1.2.3", "containerStatuses": statuses},
    }


def ended(code: int, reason: str = "Error", at: float = NOW - 60, **more: Any) -> dict[str, Any]:
    terminated = {"exitCode": code, "reason": reason, "finishedAt": moment(at), **more}
    return pod("Succeeded" if code == 0 else "Failed", terminated=terminated)


def test_a_running_attempt_explains_missing_news(world: World) -> None:
    world.begin()
    world.attempt.note_made(pod())
    away = "The Kubernetes API at https://lab:6443 cannot be reached"
    for observed, is_seen in ((pod(running={}), True), (None, False)):
        seen = world.attempt.observe(observed, is_seen=is_seen, waits_for="", now=NOW, unseen=away)
        assert (seen.phase, seen.message) == (Phase.RUNNING, away)
    assert world.see(pod(running={})).message == ""


def test_the_exit_record_takes_precedence_over_the_pod(world: World) -> None:
    world.write(paths.EXIT, {"exit_code": 0, "started": NOW - 9, "ended": NOW - 5})
    for observed in (None, pod(running={}), ended(137, "OOMKilled")):
        seen = world.see(observed)
        assert (seen.phase, seen.exit_code) == (Phase.SUCCEEDED, 0)


def test_an_attempt_that_is_not_created_yet_names_its_reason(world: World) -> None:
    seen = world.see(None, waits_for="the quota has no room")
    assert (seen.phase, seen.message) == (Phase.PENDING, "the quota has no room")


def test_a_pod_runs_once_its_agent_reports_it(world: World) -> None:
    assert world.see(pod(running={})).phase is Phase.PENDING
    world.begin()
    seen = world.see(pod(running={}))
    assert (seen.phase, seen.node, seen.address) == (Phase.RUNNING, "node-1", "10.1.2.3")


def test_an_unreachable_cluster_ends_no_attempt(world: World) -> None:
    world.begin()
    world.see(pod(running={}))
    assert world.see(None, is_seen=False).phase is Phase.RUNNING
    seen = world.see(None)
    assert (seen.phase, seen.reason, seen.exit_code) == (Phase.FAILED, "Lost", None)


def test_an_abandoned_attempt_ends_once_and_names_what_may_still_run(world: World) -> None:
    world.begin()
    world.see(pod(running={}))
    given_up = world.attempt.give_up("its pods may go on")
    assert (given_up.phase, given_up.reason) == (Phase.FAILED, GIVEN_UP)
    assert given_up.message == "its pods may go on"
    assert world.attempt.is_left
    assert world.attempt.is_stop_requested, "its agent may still come to ask"
    assert world.see(pod(running={})) == given_up


def test_earlier_abandoned_attempts_with_pods_are_listed(world: World) -> None:
    attempts = []
    for number in (1, 2, 3):
        path = world.path / str(number)
        path.mkdir()
        attempts.append(World(path).attempt)
        attempts[-1].replica = ReplicaId("main", 0, number)
    attempts[0].note_made(pod(running={}))
    attempts[0].give_up("its pods may go on")
    attempts[1].give_up("it never had one")
    assert [attempt.replica.attempt for attempt in attempts[2].left_before()] == [1]


def test_an_abandoned_attempt_without_a_pod_leaves_nothing(world: World) -> None:
    given_up = world.attempt.give_up("its pods may go on")
    assert (given_up.reason, given_up.message) == ("Stopped", "stopped before it was started")
    assert not world.attempt.is_left


def test_a_stopped_attempt_that_is_gone_counts_as_stopped(world: World) -> None:
    world.see(pod("Pending"))
    world.attempt.request_stop(5)
    assert world.see(pod("Pending")).deleting
    assert world.see(None).reason == "Stopped"


def test_the_reason_of_an_attempt_that_never_started_is_part_of_its_end(world: World) -> None:
    world.see(pod("Pending"), waits_for="None of the 3 machines has 4 GPUs free.")
    world.attempt.request_stop(5)
    world.see(pod("Pending"), waits_for="it is being deleted")
    over = World(world.path).see(None)  # by another server than the one that received the reason
    why = "stopped before it was started: None of the 3 machines has 4 GPUs free"
    assert (over.reason, over.message) == ("Stopped", why)


def test_uploads_in_progress_at_the_end_of_a_pod_are_awaited(world: World) -> None:
    world.begin()
    over = ended(0, at=NOW)
    seen = world.see(over, now=NOW + 0.5)
    assert seen.phase is Phase.RUNNING and seen.ended == NOW
    assert world.attempt.settles_at(over) == NOW + SETTLING
    seen = world.see(over, now=NOW + SETTLING + 0.1)
    assert (seen.phase, seen.reason, seen.exit_code) == (Phase.FAILED, "Lost", None)


def test_an_end_is_detected_soon_with_a_clock_an_hour_behind(world: World) -> None:
    world.begin()
    over = ended(137, "OOMKilled", at=NOW + 3600)
    assert world.see(over).phase is Phase.RUNNING
    assert world.attempt.settles_at(over) == NOW + SETTLING
    world.passed += SETTLING / 2
    assert world.see(over).phase is Phase.RUNNING
    assert world.attempt.settles_at(over) == NOW + SETTLING / 2
    world.passed += SETTLING / 2
    assert world.see(over).reason == "OOMKilled"
    assert world.attempt.settles_at(over) is None


@pytest.mark.parametrize(
    ("has_begun", "over", "reason", "code"),
    [
        (True, ended(137, "OOMKilled"), "OOMKilled", 137),
        (True, ended(137), "Signal", 137),
        (True, ended(1), "Lost", None),  # the agent's exit code, not the program's
        (False, ended(1), "StartFailed", 1),
        (False, ended(128, "StartError", message="no such file"), "StartFailed", None),
        (True, {**pod("Failed"), "status": {"phase": "Failed", "reason": "Evicted"}}, "Lost", None),
    ],
)
def test_pods_that_ended_without_a_record_are_distinguished(
    world: World, has_begun: bool, over: dict[str, Any], reason: str, code: int | None
) -> None:
    if has_begun:
        world.begin()
    seen = world.see(over)
    assert (seen.phase, seen.reason, seen.exit_code) == (Phase.FAILED, reason, code)
    assert seen.message and not seen.message.endswith(".")
    assert seen.started != 0.0


def test_a_pod_on_a_lost_node_counts_as_gone_after_a_while(world: World) -> None:
    world.begin()
    leaving = pod(running={}, gone_at=NOW + 30, grace=30)
    assert world.see(leaving).deleting
    world.passed += 30 + STUCK
    assert world.see(leaving).phase is Phase.RUNNING
    world.passed += 1
    seen = world.see(leaving)
    assert (seen.phase, seen.reason) == (Phase.FAILED, "Lost")


@pytest.mark.parametrize("skew", [-3600, 3600])
def test_the_wait_for_a_leaving_pod_does_not_depend_on_the_time_of_day(
    world: World, skew: float
) -> None:
    world.begin()
    leaving = pod(running={}, gone_at=NOW + 60, grace=60)
    assert world.see(leaving, now=NOW + skew).deleting
    world.passed += 60 + STUCK
    assert world.see(leaving, now=NOW + 60 + STUCK + skew).phase is Phase.RUNNING
    world.passed += 1
    assert world.see(leaving, now=NOW + 61 + STUCK + skew).reason == "Lost"


def test_a_shorter_grace_period_shortens_the_wait(world: World) -> None:
    world.begin()
    assert world.see(pod(running={}, gone_at=NOW + 600, grace=600)).deleting
    world.passed += STUCK + 1
    assert world.see(pod(running={}, gone_at=NOW + 600, grace=600)).phase is Phase.RUNNING
    assert world.see(pod(running={}, gone_at=NOW, grace=0)).reason == "Lost"


def test_an_end_without_an_agent_is_explained_by_the_container(
    world: World,
) -> None:
    message = "standard_init_linux.go:219: exec user process caused: exec format error"
    seen = world.see(ended(1, message=message))
    assert "built for another processor architecture than that of its machine" in seen.message
    assert "docker buildx build" in seen.message


def test_the_message_of_an_agent_is_shown_unchanged(world: World) -> None:
    world.write(paths.TAKEN_UP, {})
    seen = world.see(ended(1, message="a\nwindlass: exec format error"))
    assert seen.message == (
        "its container ended with exit code 1 before its program started: "
        "a\nwindlass: exec format error"
    )


def test_a_container_that_ended_without_a_message_is_reported(world: World) -> None:
    seen = world.see(ended(3))
    assert seen.message == (
        "its container ended with exit code 3 before its program started, without output"
    )
