"""Repairs of lost, duplicate, stray and partial replicas."""

from __future__ import annotations

import msgspec
import pytest
from engine_simulation import World, job, role, started

from windlass.model.job import RestartPolicy, RestartScope
from windlass.model.records import TrialState
from windlass.model.status import Phase, Replica, ReplicaId

ON_FAILURE = RestartPolicy.ON_FAILURE


@pytest.mark.case(10)
def test_a_controller_killed_between_create_and_status_write_creates_nothing_twice():
    world = World(job(role("worker", 2)))
    world.apply(world.decide())  # executed, but never stored
    assert world.reconcile().create == ()
    assert [replica.attempt for replica in world.status.replicas] == [1, 1]
    world.run_all()
    assert world.state is TrialState.RUNNING


@pytest.mark.case(10)
def test_a_controller_killed_between_status_write_and_create_creates_it_later():
    world = World(job())
    world.status = world.decide().status  # stored, but never executed
    assert world.reconcile().create == (ReplicaId("main", 0, 1),)
    assert world.reconcile().is_idle


@pytest.mark.case(9)
def test_a_next_attempt_without_a_record_is_adopted():
    world = started(job(role("main", restart_policy=ON_FAILURE)))
    world.end("main-0", 1)
    world.reconcile()
    world.apply(msgspec.structs.replace(world.decide(), create=(ReplicaId("main", 0, 2),)))
    assert world.reconcile(after=10).create == ()
    assert world.status.replicas[0].attempt == 2
    assert world.status.restarts == 1


def test_an_adopted_attempt_that_has_ended_is_evaluated():
    world = World(job())
    world.put(ReplicaId("main", 0, 1), phase=Phase.FAILED, exit_code=3)
    world.reconcile()
    assert world.failure == ("ReplicaFailed", "exit code 3")


def test_a_restart_is_counted_once_after_repeated_observations():
    world = started(job(role("main", restart_policy=ON_FAILURE)))
    world.end("main-0", 1)
    for _ in range(5):
        world.reconcile(after=0.1)
    assert world.status.restarts == 1


def test_older_ended_attempts_are_always_ignored():
    world = started(job(role("main", restart_policy=ON_FAILURE)))
    world.end("main-0", 1)
    world.reconcile()
    world.reconcile(after=1)
    world.run_all()
    assert len(world.replicas) == 2
    before = world.status
    assert world.reconcile(after=100).is_idle
    assert world.status == before


@pytest.mark.case(9)
def test_the_newest_of_two_live_attempts_of_one_index_stays():
    world = started(job(role("worker", 2)))
    world.put(ReplicaId("worker", 0, 2), phase=Phase.RUNNING, started=world.now)
    assert world.reconcile().delete == (ReplicaId("worker", 0, 1),)
    world.settle()
    assert world.alive == ["worker-0.2", "worker-1.1"]
    assert world.state is TrialState.RUNNING


@pytest.mark.case(9)
def test_a_stray_replica_is_deleted():
    world = started(job(role("worker", 1)))
    world.put(ReplicaId("worker", 7, 1), phase=Phase.RUNNING)
    world.put(ReplicaId("unknown", 0, 1), phase=Phase.PENDING)
    world.settle()
    assert world.alive == ["worker-0.1"]


def test_an_ended_stray_replica_is_left_alone():
    world = started(job(role("worker", 1)))
    world.put(ReplicaId("worker", 7, 1), phase=Phase.FAILED, exit_code=1)
    assert world.reconcile().is_idle
    assert world.state is TrialState.RUNNING


@pytest.mark.case(9)
@pytest.mark.parametrize("policy", list(RestartPolicy))
def test_a_replica_deleted_by_hand_is_recreated_under_any_policy(policy):
    world = started(job(role("worker", 2, restart_policy=policy)), keeps_ended=False)
    world.vanish("worker-1")
    world.reconcile()
    assert world.state is TrialState.RESTARTING
    world.reconcile(after=1)
    assert world.alive == ["worker-0.1", "worker-1.2"]
    world.reconcile()
    world.run_all()
    assert world.state is TrialState.RUNNING


def test_with_job_scope_a_vanished_peer_restarts_all_replicas():
    world = started(job(role("worker", 2), restart_scope=RestartScope.JOB), keeps_ended=False)
    world.vanish("worker-1")
    world.reconcile()
    world.reconcile(after=1)
    assert world.alive == ["worker-0.2", "worker-1.2"]


def test_a_replica_being_deleted_is_neither_active_nor_failed():
    world = started(job(role("worker", 2)), keeps_ended=False)
    world.put(ReplicaId("worker", 1, 1), deleting=True)
    assert world.reconcile().is_idle
    assert world.state is TrialState.STARTING
    world.put(ReplicaId("worker", 1, 1), phase=Phase.FAILED, exit_code=143)
    assert world.reconcile().is_idle
    assert not world.status.is_finished
    world.vanish("worker-1")
    world.reconcile()
    world.reconcile(after=1)
    assert world.alive == ["worker-0.1", "worker-1.2"]


def test_a_late_replica_of_a_finished_job_is_stopped():
    world = started(job())
    world.end("main-0", 0)
    world.reconcile()
    assert world.status.settled
    world.put(ReplicaId("main", 0, 2), phase=Phase.RUNNING)
    assert world.reconcile().delete == (ReplicaId("main", 0, 2),)
    assert world.reconcile().is_idle


def test_the_order_of_reported_replicas_does_not_matter():
    spec = job(role("b", 3, restart_policy=ON_FAILURE), role("a", 3, restart_policy=ON_FAILURE))
    world = started(spec)
    for name in ("a-2", "b-1", "a-0"):
        world.end(name, 1)
    one = world.decide()
    world.replicas = dict(reversed(world.replicas.items()))
    assert world.decide() == one


def test_a_decision_about_ten_thousand_replicas_is_fast():
    spec = job(role("worker", 10_000))
    world = World(spec)
    assert len(world.reconcile().create) == 10_000
    world.replicas = {
        replica: Replica(id=replica, phase=Phase.RUNNING) for replica in world.replicas
    }
    assert world.reconcile().is_idle
    assert world.state is TrialState.RUNNING
