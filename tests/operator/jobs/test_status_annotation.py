"""The stored state in the annotation of an object, and its status."""

from __future__ import annotations

from typing import Any

import pytest

from operator_objects import manifest
from windlass.model.status import (
    Condition,
    ConditionType,
    JobStatus,
    Phase,
    Replica,
    ReplicaHistory,
    ReplicaId,
)
from windlass.operator.job_kinds import TFJOB
from windlass.operator.jobs.from_object import MOST_REPLICAS, translate
from windlass.operator.jobs.object_status import build_status, is_same_status
from windlass.operator.jobs.status_annotation import (
    annotation_text,
    status_from_object,
    stored_status,
)
from windlass.operator.names import MEMORY

THING = manifest("TFJob", Chief=1, Worker=3)
SPEC = translate(THING).job.spec
NAMED = "worker-0 (attempt 1) failed with"


def history(phase: Phase, **more: Any) -> ReplicaHistory:
    return ReplicaHistory(role="worker", index=0, attempt=2, restarts=1, phase=phase, **more)


def keeping(text: str, uid: str = "uid-1") -> dict[str, Any]:
    return {**THING, "metadata": {**THING["metadata"], "uid": uid, "annotations": {MEMORY: text}}}


def test_stored_state_is_read_back_unchanged() -> None:
    status = JobStatus(
        conditions=(Condition(type=ConditionType.RUNNING, status=True, last_update=1.5),),
        replicas=(history(Phase.SUCCEEDED, last_exit_code=0),),
        restarts=3, admitted=True, start_time=1.25, sizes={"worker": 3},
        decisive=ReplicaId("worker", 0, 2),
    )  # fmt: skip
    assert stored_status(keeping(annotation_text("uid-1", status))) == status


def test_an_annotation_copied_from_another_object_is_ignored() -> None:
    assert stored_status(keeping(annotation_text("uid-1", JobStatus(restarts=3)), "uid-2")) is None


@pytest.mark.parametrize(
    "status",
    [
        JobStatus(start_time=1e300),
        JobStatus(completion_time=-1.0),
        JobStatus(
            conditions=(Condition(type=ConditionType.FAILED, status=True, last_update=1e12),)
        ),
        JobStatus(replicas=(history(Phase.FAILED, not_before=1e20),)),
        JobStatus(active_seconds=-5.0),
    ],
)
def test_an_annotation_with_invalid_times_is_ignored(status: JobStatus) -> None:
    assert stored_status(keeping(annotation_text("uid-1", status))) is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("exit code 3: no data", "worker-0: exit code 3: no data"),
        (f"{NAMED} exit code 3", f"{NAMED} exit code 3"),
    ],
)
def test_a_failure_names_its_replica_once(message: str, expected: str) -> None:
    failed = Condition(type=ConditionType.FAILED, status=True, message=message)
    status = JobStatus(conditions=(failed,), decisive=ReplicaId("worker", 0, 1))
    [condition] = build_status(TFJOB, "mnist", SPEC, status, ())["conditions"]
    assert condition["message"] == expected


def test_an_invalid_annotation_is_ignored() -> None:
    assert stored_status(keeping('{"uid": "uid-1"')) is None
    assert stored_status(keeping('{"uid": "uid-1", "status": 3}')) is None
    assert stored_status(keeping('{"uid": "uid-1", "zz": ' + "[" * 5000)) is None
    assert stored_status(THING) is None


def test_a_pending_pod_that_runs_needs_no_write() -> None:
    pending = JobStatus(replicas=(history(Phase.PENDING),), last_reconcile_time=1.0)
    running = JobStatus(replicas=(history(Phase.RUNNING),), last_reconcile_time=2.0)
    ended = JobStatus(replicas=(history(Phase.SUCCEEDED),))
    assert annotation_text("uid-1", pending) == annotation_text("uid-1", running)
    assert annotation_text("uid-1", running) != annotation_text("uid-1", ended)


def test_the_state_of_the_largest_job_fits_into_an_annotation() -> None:
    replicas = tuple(
        ReplicaHistory(
            role="evaluator", index=index, attempt=10, restarts=9, delays=9,
            not_before=1794825000.123456, last_exit_code=137, phase=Phase.SUCCEEDED,
        )
        for index in range(MOST_REPLICAS)
    )  # fmt: skip
    assert len(annotation_text("uid-1", JobStatus(replicas=replicas))) < 250 * 1024


def test_a_job_finished_by_another_operator_stays_finished() -> None:
    status = {
        "conditions": [
            {"type": "Created", "status": "True", "lastUpdateTime": "2026-11-16T10:00:00Z"},
            {
                "type": "Succeeded", "status": "True", "reason": "TFJobSucceeded",
                "lastUpdateTime": "2026-11-16T10:30:00Z",
            },
            {"type": "Odd", "status": "True"},
        ],
        "startTime": "2026-11-16T10:00:00Z",
    }  # fmt: skip
    result = status_from_object({**THING, "status": status})
    assert result.is_finished
    assert result.completion_time == 1794825000.0
    assert not status_from_object(THING).is_finished


def seen(index: int, phase: Phase, **more: Any) -> Replica:
    return Replica(id=ReplicaId("worker", index, 1), phase=phase, **more)


def test_the_status_counts_by_role_without_replicas_being_deleted() -> None:
    replicas = [
        seen(0, Phase.SUCCEEDED, exit_code=0),
        seen(1, Phase.RUNNING),
        seen(2, Phase.RUNNING, deleting=True),
        Replica(id=ReplicaId("chief", 0, 1), phase=Phase.FAILED, exit_code=1),
    ]
    replica_statuses = build_status(TFJOB, "train", SPEC, JobStatus(), replicas)["replicaStatuses"]
    assert {role: {k: v for k, v in counts.items() if k != "selector"}
            for role, counts in replica_statuses.items()} == {
        "Chief": {"failed": 1},
        "Worker": {"active": 1, "succeeded": 1},
    }  # fmt: skip


def test_successful_replicas_count_after_their_cleanup() -> None:
    status = JobStatus(replicas=(history(Phase.SUCCEEDED),))
    replica_status = build_status(TFJOB, "train", SPEC, status, ())["replicaStatuses"]["Worker"]
    assert replica_status["succeeded"] == 1


def condition(kind: ConditionType, holds: bool, at: float) -> Condition:
    return Condition(type=kind, status=holds, last_update=at, last_transition=at)


def test_the_last_condition_is_the_state_of_the_job() -> None:
    status = JobStatus(
        conditions=(
            condition(ConditionType.CREATED, True, 1.0),
            condition(ConditionType.RUNNING, False, 9.0),
            condition(ConditionType.RESTARTING, True, 9.0),
        )
    )
    conditions = build_status(TFJOB, "train", SPEC, status, ())["conditions"]
    assert [(condition["type"], condition["status"]) for condition in conditions] == [
        ("Running", "False"), ("Created", "True"), ("Restarting", "True"),
    ]  # fmt: skip


def test_another_reconcile_alone_changes_nothing() -> None:
    one = build_status(TFJOB, "train", SPEC, JobStatus(last_reconcile_time=1.0), ())
    other = build_status(TFJOB, "train", SPEC, JobStatus(last_reconcile_time=9.0), ())
    assert one != other
    assert is_same_status(one, other)
