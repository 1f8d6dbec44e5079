from __future__ import annotations

import itertools

import msgspec
import pytest
from engine_simulation import World, job, role, started

from windlass.engine.conditions import INVALID_REASON, set_condition
from windlass.model.job import CleanPolicy, RestartPolicy, SuccessPolicy
from windlass.model.records import TrialState
from windlass.model.status import ConditionType, Phase

RUNNING, SUCCEEDED, FAILED = Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED
PHASES = (RUNNING, SUCCEEDED, FAILED)
EXIT_CODES = {RUNNING: None, SUCCEEDED: 0, FAILED: 1}


def outcome(spec, phases):
    """The result of a job whose replicas, in order, have these states."""
    world = World(spec)
    world.reconcile()
    for name, phase in zip(world.created, phases, strict=True):
        world.put(name, phase=phase, exit_code=EXIT_CODES[phase], started=world.now)
    world.reconcile()
    assert not (
        world.status.holds(ConditionType.SUCCEEDED) and world.status.holds(ConditionType.FAILED)
    )
    return world.state


@pytest.mark.case(1)
@pytest.mark.parametrize("phases", list(itertools.product(PHASES, repeat=4)))
@pytest.mark.parametrize("chief", ["chief", "master"])
@pytest.mark.parametrize("policy", list(SuccessPolicy))
def test_the_chief_decides_in_tensorflow(chief, policy, phases):
    spec = job(
        role(chief), role("worker", 2), role("ps", service=True),
        framework="tensorflow", success_policy=policy,
    )  # fmt: skip
    state = outcome(spec, phases)
    if phases[0] is SUCCEEDED:
        assert state is TrialState.SUCCEEDED
    elif FAILED in phases:
        assert state is TrialState.FAILED
    else:
        assert state is TrialState.RUNNING


@pytest.mark.case(1)
@pytest.mark.parametrize("phases", list(itertools.product(PHASES, repeat=3)))
@pytest.mark.parametrize("policy", list(SuccessPolicy))
def test_the_workers_decide_in_tensorflow_without_a_chief(policy, phases):
    spec = job(
        role("ps", service=True), role("worker", 2), framework="tensorflow", success_policy=policy
    )
    state = outcome(spec, phases)
    workers = phases[1:]
    deciding = workers if policy is SuccessPolicy.ALL_WORKERS else workers[:1]
    if set(deciding) == {SUCCEEDED}:
        assert state is TrialState.SUCCEEDED
    elif FAILED in phases:
        assert state is TrialState.FAILED
    else:
        assert state is TrialState.RUNNING


@pytest.mark.case(1)
@pytest.mark.parametrize("phases", list(itertools.product(PHASES, repeat=3)))
@pytest.mark.parametrize("framework", ["", "torch", "jax"])
def test_other_frameworks_need_all_replicas_except_services(framework, phases):
    spec = job(role("learner", 2), role("server", service=True), framework=framework)
    state = outcome(spec, phases)
    if set(phases[:2]) == {SUCCEEDED}:
        assert state is TrialState.SUCCEEDED
    elif FAILED in phases:
        assert state is TrialState.FAILED
    else:
        assert state is TrialState.RUNNING


@pytest.mark.case(4)
def test_a_successful_chief_and_a_failed_worker_in_one_reconcile_are_a_success():
    world = started(job(role("chief"), role("worker"), framework="tensorflow"))
    world.end("worker-0", 1)
    world.end("chief-0", 0)
    world.reconcile()
    assert world.state is TrialState.SUCCEEDED
    assert world.status.condition(ConditionType.FAILED) is None
    assert world.condition(ConditionType.SUCCEEDED).message == "chief-0 succeeded"


def test_a_chief_role_without_replicas_does_not_count():
    spec = job(role("chief", 0), role("worker", 2), framework="tensorflow")
    assert outcome(spec, (SUCCEEDED, RUNNING)) is TrialState.SUCCEEDED


def test_services_are_stopped_after_the_others_without_a_failure():
    world = started(job(role("worker"), role("ps", 2, service=True)))
    world.end("worker-0", 0)
    assert len(world.reconcile().delete) == 2
    world.settle()
    assert world.state is TrialState.SUCCEEDED
    assert world.alive == []


def test_a_job_of_only_services_ends_with_them():
    spec = job(role("ps", 2, service=True))
    assert outcome(spec, (SUCCEEDED, RUNNING)) is TrialState.RUNNING
    assert outcome(spec, (SUCCEEDED, SUCCEEDED)) is TrialState.SUCCEEDED


def test_a_replica_that_always_restarts_never_succeeds():
    world = started(job(role("main", restart_policy=RestartPolicy.ALWAYS), backoff_limit=1))
    world.end("main-0", 0)
    world.reconcile()
    assert world.state is TrialState.RESTARTING
    world.reconcile(after=1)
    world.end("main-0", 0)
    world.reconcile()
    assert world.failure[0] == "BackoffLimitExceeded"


def test_a_success_is_remembered_when_its_replica_is_gone():
    world = started(job(role("worker", 2)), keeps_ended=False)
    world.end("worker-0", 0)
    world.reconcile()
    world.vanish("worker-0")
    assert world.reconcile().is_idle
    world.end("worker-1", 0)
    world.reconcile()
    assert world.state is TrialState.SUCCEEDED


def test_a_job_without_replicas_just_waits():
    world = World(job(role("worker", 0)))
    assert world.reconcile().is_idle
    assert not world.status.is_finished


@pytest.mark.case(7)
@pytest.mark.parametrize("keeps_ended", [True, False])
def test_clean_policy_running_stops_running_replicas(keeps_ended):
    world = started(job(role("worker", 3)), keeps_ended=keeps_ended)
    world.end("worker-0", 0)
    world.reconcile()
    world.end("worker-1", 1)
    assert [str(replica) for replica in world.reconcile().delete] == ["worker-2.1"]
    world.settle()
    assert world.status.settled
    assert "worker-0.1" in {str(replica) for replica in world.replicas}


@pytest.mark.case(7)
def test_clean_policy_none_leaves_running_replicas_alone():
    world = started(job(role("worker", 2), clean_policy=CleanPolicy.NONE))
    world.end("worker-1", 1)
    assert world.reconcile().is_idle
    assert world.alive == ["worker-0.1"]
    assert not world.status.settled  # it is watched until its last replica has ended
    world.end("worker-0", 0)
    world.reconcile()
    assert world.status.settled
    assert world.state is TrialState.FAILED


@pytest.mark.case(7)
def test_a_stop_after_the_end_stops_replicas_left_by_clean_policy_none():
    world = started(job(role("worker", 2), clean_policy=CleanPolicy.NONE))
    world.end("worker-1", 1)
    world.reconcile()
    world.status = msgspec.structs.replace(world.status, stop_requested=True)
    assert [str(replica) for replica in world.reconcile().delete] == ["worker-0.1"]
    world.settle()
    assert world.status.settled
    assert world.state is TrialState.FAILED


@pytest.mark.case(7)
@pytest.mark.parametrize("limit", ["deadline", "restarts"])
def test_replicas_over_a_limit_are_stopped_under_any_clean_policy(limit):
    """A deadline must stop all processes."""
    spec = job(
        role("worker", 2, restart_policy=RestartPolicy.ON_FAILURE),
        clean_policy=CleanPolicy.NONE,
        active_deadline=60.0,
        backoff_limit=0,
    )
    world = started(spec)
    if limit == "restarts":
        world.end("worker-1", 1)
    world.reconcile(after=60 if limit == "deadline" else 1)
    assert world.state is TrialState.FAILED
    world.settle()
    assert world.alive == []
    assert world.status.settled


def test_replicas_of_an_impossible_job_are_stopped_under_any_clean_policy():
    world = started(job(role("worker", 2), clean_policy=CleanPolicy.NONE))
    world.status = set_condition(
        world.status, ConditionType.FAILED, INVALID_REASON, "no such pod", 1.0
    )
    world.settle()
    assert world.alive == []
    assert world.status.settled


@pytest.mark.case(7)
def test_clean_policy_all_also_deletes_ended_replicas():
    world = started(job(role("worker", 2), clean_policy=CleanPolicy.ALL), keeps_ended=False)
    world.end("worker-1", 1)
    world.settle()
    assert world.replicas == {}
    assert world.status.settled


def test_a_job_is_not_settled_while_an_ended_replica_is_being_deleted():
    world = started(job(clean_policy=CleanPolicy.ALL), keeps_ended=False)
    world.end("main-0", 0)
    world.status = world.decide().status
    world.put(world.newest("main-0"), deleting=True)
    assert world.reconcile().is_idle
    assert not world.status.settled
    world.vanish("main-0")
    world.reconcile()
    assert world.status.settled


@pytest.mark.case(1)
@pytest.mark.parametrize("phases", list(itertools.product(PHASES, repeat=3)))
def test_with_a_deciding_leader_its_success_is_the_success_of_the_job(phases):
    spec = job(
        role("master"), role("worker", 2), framework="torch", success_policy=SuccessPolicy.LEADER
    )
    state = outcome(spec, phases)
    if phases[0] is SUCCEEDED:
        assert state is TrialState.SUCCEEDED
    elif FAILED in phases:
        assert state is TrialState.FAILED
    else:
        assert state is TrialState.RUNNING


@pytest.mark.case(1)
@pytest.mark.parametrize("phases", list(itertools.product(PHASES, repeat=2)))
def test_without_a_leader_all_replicas_decide(phases):
    spec = job(role("worker", 2), framework="torch", success_policy=SuccessPolicy.LEADER)
    assert (outcome(spec, phases) is TrialState.SUCCEEDED) == (set(phases) == {SUCCEEDED})
