from __future__ import annotations

import msgspec
import pytest
from engine_simulation import World, job, role, started

from windlass.model.job import RestartPolicy, RestartScope
from windlass.model.records import TrialState
from windlass.model.status import GIVEN_UP, ConditionType, ReplicaId

ON_FAILURE = RestartPolicy.ON_FAILURE


def change(world, **options):
    world.spec = msgspec.structs.replace(world.spec, **options)


def know(world, **options):
    world.status = msgspec.structs.replace(world.status, **options)


# The deadline


@pytest.mark.case(5)
def test_the_deadline_fires_without_other_events():
    world = World(job(active_deadline=60.0))
    assert world.reconcile().requeue_after == 60.0
    world.run_all()
    assert world.reconcile(after=59).requeue_after == 1.0
    world.reconcile(after=1)
    assert world.failure == ("DeadlineExceeded", "ran longer than its deadline of 1m")
    world.settle()
    assert world.alive == []


def test_the_deadline_excludes_suspended_time():
    world = started(job(active_deadline=60.0))
    change(world, suspend=True)
    world.reconcile(after=40)
    world.reconcile(after=1000)
    change(world, suspend=False)
    know(world, admitted=True)
    assert world.reconcile(after=1000).requeue_after == 20.0
    world.reconcile(after=20)
    assert world.failure[0] == "DeadlineExceeded"


def test_waiting_for_admission_does_not_count_towards_the_deadline():
    world = World(job(active_deadline=60.0), admitted=False)
    world.reconcile(after=1000)
    know(world, admitted=True)
    assert world.reconcile(after=1000).requeue_after == 60.0


def test_waiting_for_a_node_does_not_count_towards_the_deadline():
    world = World(job(active_deadline=60.0, backend="kubernetes"))
    assert world.reconcile().requeue_after is None
    assert world.reconcile(after=1000).requeue_after is None
    world.put(world.newest("main-0"), node="node-1")
    assert world.reconcile(after=1000).requeue_after == 60.0
    assert world.reconcile(after=10).requeue_after == 50.0
    world.run_all()
    world.reconcile(after=50)
    assert world.failure == ("DeadlineExceeded", "ran longer than its deadline of 1m")


def test_in_a_cluster_the_time_of_a_resumed_job_restarts_with_a_node():
    world = World(job(active_deadline=60.0, backend="kubernetes"), keeps_ended=False)
    world.reconcile()
    world.run_all()
    change(world, suspend=True)
    world.reconcile(after=40)
    change(world, suspend=False)
    know(world, admitted=True)
    assert world.reconcile(after=1000).requeue_after is None
    world.run_all()
    assert world.reconcile().requeue_after == 20.0


@pytest.mark.parametrize("keeps_ended", [True, False])
def test_a_replica_that_ended_without_a_node_starts_no_time(keeps_ended):
    """It was suspended while it waited, deleted, or scaled away."""
    workers = [role(replicas=number, restart_policy=ON_FAILURE) for number in (2, 1)]
    spec = job(workers[0], active_deadline=60.0, backend="kubernetes")
    world = World(spec, keeps_ended=keeps_ended)
    world.reconcile()
    change(world, suspend=True)
    world.reconcile(after=10)
    change(world, suspend=False)
    know(world, admitted=True)
    world.reconcile(after=10)
    world.end("worker-0", None, reason="Lost")
    world.reconcile(after=10)
    world.reconcile(after=10)
    change(world, roles=(workers[1],))
    assert world.reconcile(after=1000).requeue_after is None
    assert world.status.start_time is None
    world.run_all()
    assert world.reconcile().requeue_after == 60.0


def test_a_job_that_never_started_names_its_reason_at_the_deadline():
    world = World(job(active_deadline=60.0))
    world.reconcile()
    world.put(world.newest("main-0"), message="There is no image lab/train:8.")
    world.reconcile(after=60)
    why = "its deadline of 1m was up before it began: There is no image lab/train:8."
    assert world.failure == ("DeadlineExceeded", why)


def test_a_success_observed_after_the_deadline_is_a_success():
    world = started(job(active_deadline=60.0))
    world.end("main-0", 0)
    world.reconcile(after=100)
    assert world.state is TrialState.SUCCEEDED


def test_the_earlier_of_a_restart_and_a_deadline_sets_the_wakeup():
    world = started(job(role("main", restart_policy=ON_FAILURE), active_deadline=60.0))
    world.end("main-0", 1)
    assert world.reconcile(after=10).requeue_after == 1.0
    world.reconcile(after=1)
    world.run_all()
    assert world.reconcile().requeue_after == 49.0


# Time to live


@pytest.mark.parametrize("keeps_ended", [True, False])
def test_after_the_time_to_live_replicas_are_deleted_and_the_record_stays(keeps_ended):
    world = started(job(role("worker", 2), ttl_after_finished=30.0), keeps_ended=keeps_ended)
    world.end("worker-0", 0)
    world.end("worker-1", 0)
    assert world.reconcile().requeue_after == 30.0
    assert not world.status.settled
    assert world.reconcile(after=10).requeue_after == 20.0
    assert len(world.reconcile(after=20).delete) == 2
    assert world.state is TrialState.SUCCEEDED
    if not keeps_ended:
        world.reconcile()
        assert world.status.settled


def test_a_time_to_live_set_after_the_end_counts_from_the_end():
    world = started(job(role("worker", 1)), keeps_ended=False)
    world.end("worker-0", 0)
    world.settle()
    assert world.status.settled
    change(world, ttl_after_finished=30.0)
    assert world.reconcile(after=10).requeue_after == 20.0
    assert not world.status.settled
    world.reconcile(after=20)
    world.settle()
    assert world.status.settled


# Suspension


@pytest.mark.case(6)
def test_a_job_created_suspended_creates_nothing():
    world = World(job(suspend=True), admitted=False)
    assert world.reconcile().is_idle
    assert world.state is TrialState.SUSPENDED
    assert not world.status.holds(ConditionType.QUEUED)
    assert world.status.start_time is None


@pytest.mark.case(6)
@pytest.mark.parametrize("keeps_ended", [True, False])
def test_a_job_can_be_suspended_resumed_and_suspended_again(keeps_ended):
    world = started(job(role("worker", 2)), keeps_ended=keeps_ended)
    for attempt in (1, 2, 3):
        assert world.alive == [f"worker-0.{attempt}", f"worker-1.{attempt}"]
        assert world.state is TrialState.RUNNING
        start = world.status.start_time
        change(world, suspend=True)
        world.reconcile(after=5)
        assert world.state is TrialState.SUSPENDED
        assert not world.status.holds(ConditionType.RUNNING)
        world.settle()
        assert world.alive == []
        assert not world.status.admitted
        change(world, suspend=False)
        world.reconcile(after=5)
        assert world.state is TrialState.QUEUED
        know(world, admitted=True)
        world.reconcile()
        world.reconcile()
        world.run_all()
        assert world.status.start_time > start
    assert world.status.restarts == 0


def test_successful_replicas_stay_done_after_a_suspension():
    world = started(job(role("worker", 2)))
    world.end("worker-0", 0)
    world.reconcile()
    change(world, suspend=True)
    world.settle()
    change(world, suspend=False)
    know(world, admitted=True)
    assert world.reconcile().create == (ReplicaId("worker", 1, 2),)


def test_with_job_scope_all_replicas_start_again_after_a_suspension():
    world = started(job(role("worker", 2), restart_scope=RestartScope.JOB))
    world.end("worker-0", 0)
    world.reconcile()
    change(world, suspend=True)
    world.settle()
    change(world, suspend=False)
    know(world, admitted=True)
    assert len(world.reconcile().create) == 2


def test_a_replica_that_exits_with_0_on_suspension_is_not_done():
    world = started(job())
    change(world, suspend=True)
    decision = world.decide()
    world.status = decision.status
    world.end("main-0", 0)
    world.reconcile()
    assert world.state is TrialState.SUSPENDED
    change(world, suspend=False)
    know(world, admitted=True)
    assert world.reconcile().create == (ReplicaId("main", 0, 2),)


def test_a_failure_in_the_same_reconcile_as_a_suspension_counts():
    world = started(job())
    change(world, suspend=True)
    world.end("main-0", 7)
    world.reconcile()
    assert world.failure == ("ReplicaFailed", "exit code 7")


# Scaling


@pytest.mark.case(7)
@pytest.mark.parametrize("keeps_ended", [True, False])
def test_a_job_scales_from_three_to_one_to_four(keeps_ended):
    world = started(job(role("worker", 3)), keeps_ended=keeps_ended)
    change(world, roles=(role("worker", 1),))
    assert [replica.index for replica in world.reconcile().delete] == [2, 1]
    world.settle()
    assert world.alive == ["worker-0.1"]
    assert world.state is TrialState.RUNNING
    change(world, roles=(role("worker", 4),))
    world.reconcile()
    assert world.alive == ["worker-0.1", "worker-1.2", "worker-2.2", "worker-3.1"]
    world.reconcile()
    world.run_all()
    assert world.state is TrialState.RUNNING
    assert world.status.restarts == 0
    assert [(replica.index, replica.attempt) for replica in world.status.replicas] == [
        (0, 1), (1, 2), (2, 2), (3, 1),
    ]  # fmt: skip


def test_a_failure_of_a_removed_replica_does_not_count():
    world = started(job(role("worker", 2)))
    world.end("worker-1", 1)
    change(world, roles=(role("worker", 1),))
    world.reconcile()
    assert world.state is TrialState.RUNNING


def test_scaling_down_to_the_successful_replicas_is_a_success():
    world = started(job(role("worker", 2)))
    world.end("worker-0", 0)
    world.reconcile()
    change(world, roles=(role("worker", 1),))
    world.reconcile()
    assert world.state is TrialState.SUCCEEDED


# Admission and stopping


def test_nothing_is_created_before_admission():
    world = World(job(role("worker", 3)), admitted=False)
    for _ in range(3):
        assert world.reconcile(after=100).is_idle
    assert world.state is TrialState.QUEUED


def test_a_stop_ends_all_replicas_and_then_the_job():
    world = started(job(role("worker", 2)))
    know(world, stop_requested=True, stop_reason="stopped by anna")
    decision = world.decide()
    assert len(decision.delete) == 2
    world.status = decision.status
    for replica in decision.delete:
        world.put(replica, deleting=True)
    assert world.reconcile().is_idle
    assert world.state is TrialState.STOPPING
    for index in range(2):
        world.end(f"worker-{index}", 143, reason="Stopped", deleting=False)
    world.reconcile()
    assert world.failure == ("Stopped", "stopped by anna")
    assert world.state is TrialState.STOPPED
    assert world.status.completion_time == world.now


def test_a_stop_names_the_reason_for_a_replica_it_gave_up():
    world = started(job(role("worker", 2)))
    know(world, stop_requested=True, stop_reason="stopped by anna")
    world.end("worker-0", 143, reason="Stopped")
    world.end("worker-1", None, reason=GIVEN_UP, message="the cluster is away")
    world.reconcile()
    assert world.failure == ("Stopped", "stopped by anna; given up: the cluster is away")
    assert world.state is TrialState.STOPPED and world.status.settled


@pytest.mark.finding("U5")
@pytest.mark.parametrize("exit_code", [130, 143])
def test_a_stop_names_a_cleanup_that_was_cut(exit_code):
    world = started(job(role("worker", 2)))
    know(world, stop_requested=True, stop_reason="Ctrl-C", stop_interrupts=True)
    world.end("worker-0", 130, reason="Stopped")
    world.end("worker-1", exit_code, reason="Stopped")
    world.reconcile()
    cut = "; the program did not finish within 5s and was terminated"
    assert world.failure == ("Stopped", "Ctrl-C" + (cut if exit_code == 143 else ""))


def test_a_stop_of_a_queued_job_is_final_at_once():
    world = World(job(), admitted=False)
    world.reconcile()
    know(world, stop_requested=True)
    assert world.reconcile().is_idle
    assert world.failure == ("Stopped", "stopped")
    assert world.status.settled


def test_a_stop_while_a_restart_is_pending_is_final_at_once():
    world = started(job(role("main", restart_policy=ON_FAILURE)))
    world.end("main-0", 1)
    world.reconcile()
    know(world, stop_requested=True)
    assert world.reconcile(after=100).create == ()
    assert world.state is TrialState.STOPPED


def test_a_stop_wins_over_a_suspension():
    world = started(job())
    change(world, suspend=True)
    world.settle()
    know(world, stop_requested=True)
    world.reconcile()
    assert world.state is TrialState.STOPPED


def test_a_success_in_the_same_reconcile_as_the_stop_is_a_success():
    world = started(job())
    world.end("main-0", 0)
    know(world, stop_requested=True)
    world.reconcile()
    assert world.state is TrialState.SUCCEEDED


def test_an_exit_with_0_because_of_the_stop_is_not_a_success():
    world = started(job())
    know(world, stop_requested=True)
    world.status = world.decide().status
    world.end("main-0", 0, reason="Stopped")
    world.reconcile()
    assert world.state is TrialState.STOPPED


def test_a_failure_while_stopping_is_a_stop():
    world = started(job(role("worker", 2)))
    know(world, stop_requested=True)
    world.end("worker-0", 1)
    world.reconcile()
    world.settle()
    assert world.state is TrialState.STOPPED
