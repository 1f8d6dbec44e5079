"""Sizes: the current size of a job, and replicas that must know their number."""

from __future__ import annotations

import msgspec
import pytest
from engine_simulation import World, job, role, started
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.sizes import effective_spec, sizes_left, sizes_of
from windlass.model.job import RestartPolicy, RestartScope
from windlass.model.records import TrialState
from windlass.model.status import ConditionType, Phase, Replica, ReplicaId

ON_FAILURE = RestartPolicy.ON_FAILURE
TOGETHER = RestartScope.JOB
COUNTS = st.fixed_dictionaries({"chief": st.integers(0, 3), "worker": st.integers(0, 5)})


def size(world, **sizes):
    """Set another size that fits the capacity."""
    roles = tuple(
        msgspec.structs.replace(role, replicas=sizes.get(role.name, role.replicas))
        for role in world.spec.roles
    )
    world.spec = msgspec.structs.replace(world.spec, roles=roles)


def chief_and_workers(sizes):
    return job(role("chief", sizes["chief"]), role("worker", sizes["worker"]))


@given(requested=COUNTS, room=COUNTS)
def test_a_job_has_its_requested_size_within_its_capacity(requested, room):
    spec = effective_spec(chief_and_workers(requested), room)
    assert sizes_of(spec) == {name: min(requested[name], room[name]) for name in requested}


def test_a_job_with_full_capacity_is_unchanged():
    spec = chief_and_workers({"chief": 1, "worker": 2})
    assert effective_spec(spec, {"chief": 1, "worker": 2}) is spec
    assert effective_spec(spec, {}) is spec


@given(requested=COUNTS, room=COUNTS, living=st.sets(st.integers(0, 4)))
def test_capacity_covers_all_requested_and_all_live_replicas(requested, room, living):
    replicas = [Replica(id=ReplicaId("worker", n, 1), phase=Phase.RUNNING) for n in living]
    left = sizes_left(chief_and_workers(requested), room, replicas)
    assert left["chief"] == min(room["chief"], requested["chief"])
    lives = max((index + 1 for index in living if index < room["worker"]), default=0)
    assert left["worker"] == max(min(room["worker"], requested["worker"]), lives)


@pytest.mark.case(7)
@pytest.mark.parametrize("keeps_ended", [True, False])
def test_with_job_scope_a_new_size_restarts_all_replicas_uncounted_and_at_once(keeps_ended):
    spec = job(role("worker", 3, restart_policy=ON_FAILURE), restart_scope=TOGETHER)
    world = started(spec, keeps_ended=keeps_ended)
    for attempt, count in ((2, 1), (3, 4)):
        size(world, worker=count)
        world.reconcile()
        assert world.state is TrialState.RESTARTING
        world.settle()
        alive = [replica for replica in world.seen if not replica.phase.is_final]
        assert len(alive) == count
        assert world.status.replicas[0].attempt == attempt
        world.run_all()
        assert world.state is TrialState.RUNNING
    assert world.status.restarts == 0
    assert all(replica.delays == 0 for replica in world.status.replicas)


def test_with_job_scope_a_new_size_is_reported():
    world = started(job(role("worker", 2), restart_scope=TOGETHER))
    size(world, worker=3)
    world.reconcile()
    condition = world.condition(ConditionType.RESTARTING)
    assert (condition.reason, condition.message) == (
        "Resized",
        "worker: 2 -> 3 replicas; all start again",
    )
    assert world.events.count("Resized") == 1


def test_with_job_scope_no_replica_starts_before_all_old_ones_are_gone():
    world = started(job(role("worker", 3), restart_scope=TOGETHER))
    size(world, worker=2)
    decision = world.decide()
    assert {replica.index for replica in decision.delete} == {0, 1, 2}
    world.status = decision.status
    for index in range(3):
        world.put(ReplicaId("worker", index, 1), deleting=True)
    for index in range(3):
        assert world.reconcile().is_idle
        world.end(f"worker-{index}", 143, reason="Stopped", deleting=False)
    assert world.reconcile().create == (ReplicaId("worker", 0, 2), ReplicaId("worker", 1, 2))


def test_with_job_scope_a_size_reverted_while_stopping_still_restarts_all_replicas():
    world = started(job(role("worker", 2), restart_scope=TOGETHER))
    size(world, worker=3)
    world.status = world.decide().status  # stopping, but not gone
    size(world, worker=2)
    world.settle()
    assert world.alive == ["worker-0.2", "worker-1.2"]


def test_with_job_scope_successful_replicas_restart_with_the_others():
    world = started(job(role("worker", 2), restart_scope=TOGETHER))
    world.end("worker-0", 0)
    world.reconcile()
    size(world, worker=3)
    world.settle()
    assert world.alive == ["worker-0.2", "worker-1.2", "worker-2.1"]


def test_with_job_scope_a_pending_restart_keeps_its_delay_at_a_new_size():
    spec = job(role("worker", 2, restart_policy=ON_FAILURE), restart_scope=TOGETHER)
    world = started(spec)
    world.end("worker-0", 1)
    world.reconcile()
    size(world, worker=3)
    assert world.reconcile(after=0.5).create == ()
    assert world.last.requeue_after == 0.5
    world.reconcile(after=0.5)
    assert world.alive == ["worker-0.2", "worker-1.2", "worker-2.1"]
    assert world.status.restarts == 1


def test_with_job_scope_a_resumed_job_of_another_size_just_starts():
    world = started(job(role("worker", 2), restart_scope=TOGETHER))
    world.spec = msgspec.structs.replace(world.spec, suspend=True)
    world.settle()
    world.spec = msgspec.structs.replace(world.spec, suspend=False)
    size(world, worker=3)
    world.status = msgspec.structs.replace(world.status, admitted=True)
    world.reconcile()
    assert world.alive == ["worker-0.2", "worker-1.2", "worker-2.1"]
    assert "Resized" not in world.events


def test_with_replica_scope_the_remaining_replicas_are_left_alone():
    world = started(job(role("worker", 2)))
    size(world, worker=3)
    world.settle()
    assert world.alive == ["worker-0.1", "worker-1.1", "worker-2.1"]
    assert world.status.started_with == {}


def test_created_holds_when_every_replica_has_been_created_at_least_once():
    world = World(job(role("worker", 2)))
    world.reconcile()
    assert not world.status.holds(ConditionType.CREATED)
    world.reconcile()
    assert world.status.holds(ConditionType.CREATED)
    size(world, worker=3)
    world.reconcile()
    assert not world.status.holds(ConditionType.CREATED)
    world.reconcile()
    assert world.status.holds(ConditionType.CREATED)
    size(world, worker=1)
    world.settle()
    size(world, worker=3)
    world.reconcile()
    assert world.status.holds(ConditionType.CREATED)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_job_that_ends_before_the_second_reconcile_counts_as_created(exit_code):
    world = World(job())
    world.reconcile()
    world.end("main-0", exit_code)
    world.reconcile()
    assert world.status.is_finished
    assert world.status.holds(ConditionType.CREATED)


def test_a_job_suspended_before_the_second_reconcile_counts_as_created():
    world = World(job())
    world.reconcile()
    world.spec = msgspec.structs.replace(world.spec, suspend=True)
    world.reconcile()
    assert world.status.holds(ConditionType.CREATED)
    world.settle()
    assert world.status.holds(ConditionType.CREATED)


def test_a_job_stopped_before_any_creation_does_not_count_as_created():
    world = World(job(), admitted=False)
    world.reconcile()
    world.status = msgspec.structs.replace(world.status, stop_requested=True)
    world.reconcile()
    assert world.status.condition(ConditionType.CREATED) is None
