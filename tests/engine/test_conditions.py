from __future__ import annotations

import pytest
from engine_simulation import World, job, role, started

from windlass.model.job import RestartPolicy
from windlass.model.records import TrialState
from windlass.model.status import ConditionType, Phase


def test_a_job_goes_from_queued_to_succeeded():
    world = World(job(), admitted=False)
    assert world.reconcile().create == ()
    assert world.state is TrialState.QUEUED
    assert world.status.holds(ConditionType.QUEUED)

    world.status = type(world.status)(conditions=world.status.conditions, admitted=True)
    assert [str(replica) for replica in world.reconcile().create] == ["main-0.1"]
    assert not world.status.holds(ConditionType.QUEUED)
    assert world.state is TrialState.STARTING
    assert world.status.start_time == world.now

    world.run_all()
    assert world.state is TrialState.RUNNING
    assert world.status.holds(ConditionType.CREATED)

    world.end("main-0", 0)
    world.reconcile(after=5)
    assert world.state is TrialState.SUCCEEDED
    assert not world.status.holds(ConditionType.RUNNING)
    assert world.status.completion_time == world.now
    assert world.status.settled


def test_the_end_of_a_one_replica_job_takes_one_reconcile():
    world = World(job())
    world.reconcile()
    world.end("main-0", 0)
    assert world.reconcile().status.settled


def test_running_needs_every_replica_to_run_or_to_have_succeeded():
    world = World(job(role("worker", 2)))
    world.reconcile()
    world.put(world.newest("worker-0"), phase=Phase.RUNNING, started=world.now)
    world.reconcile()
    assert not world.status.holds(ConditionType.RUNNING)
    world.run_all()
    assert world.status.holds(ConditionType.RUNNING)
    world.end("worker-0", 0)
    world.reconcile()
    assert world.status.holds(ConditionType.RUNNING)


def test_a_replica_in_an_unknown_phase_is_neither_running_nor_replaced():
    world = started(job(role("worker", 2)))
    world.put(world.newest("worker-0"), phase=Phase.UNKNOWN)
    assert world.reconcile().is_idle
    assert not world.status.holds(ConditionType.RUNNING)
    world.put(world.newest("worker-0"), phase=Phase.RUNNING)
    world.reconcile()
    assert world.status.holds(ConditionType.RUNNING)


def test_an_unchanged_condition_keeps_its_time():
    world = started(job())
    before = world.status
    for _ in range(3):
        assert world.reconcile(after=100).status == before


def test_a_transition_time_moves_only_with_the_status():
    world = started(job(role("main", restart_policy=RestartPolicy.ON_FAILURE)))
    first = world.condition(ConditionType.RUNNING)
    world.end("main-0", 1)
    world.reconcile(after=5)
    stopped = world.condition(ConditionType.RUNNING)
    assert stopped.last_transition == world.now > first.last_transition


def test_times_do_not_go_back_when_the_clock_does():
    world = started(job())
    world.end("main-0", 0)
    world.reconcile(after=-500)
    assert world.status.completion_time >= world.status.start_time
    running = world.condition(ConditionType.RUNNING)
    assert not running.status
    assert running.last_transition >= world.status.start_time


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_final_state_never_changes(exit_code):
    world = started(job(role("main", restart_policy=RestartPolicy.NEVER)))
    world.end("main-0", exit_code)
    world.reconcile()
    end = world.status
    world.end("main-0", 1 - exit_code)
    assert world.reconcile(after=1e6).is_idle
    assert world.status == end


def test_conditions_always_have_the_same_order():
    world = started(job(role("main", restart_policy=RestartPolicy.ON_FAILURE)))
    world.end("main-0", 1)
    world.reconcile()
    order = [condition.type for condition in world.status.conditions]
    assert order == sorted(order, key=list(ConditionType).index)
