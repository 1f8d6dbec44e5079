from __future__ import annotations

import itertools

import msgspec
import pytest
from controller_doubles import ControllerHarness, Killed, job

from windlass.model.hardware.resources import Accelerator, Resources
from windlass.model.job import CleanPolicy, RestartPolicy
from windlass.model.records import TrialState
from windlass.model.status import ConditionType, Phase, ReplicaId

FIRST, SECOND = ReplicaId("main", 0, 1), ReplicaId("main", 0, 2)
OTHER = ReplicaId("main", 1, 1)
ON_FAILURE = RestartPolicy.ON_FAILURE


def test_a_job_runs_and_succeeds():
    harness = ControllerHarness(job())
    harness.work()
    assert harness.alive() == ["job-1 main-0.1"]
    harness.runtime.run("job-1", FIRST)
    harness.work()
    assert harness.store.state("job-1") is TrialState.RUNNING
    harness.runtime.end("job-1", FIRST)
    harness.work()
    assert harness.store.state("job-1") is TrialState.SUCCEEDED
    assert harness.status().settled
    assert harness.status().last_reconcile_time == harness.clock.now()


def test_waking_an_unknown_job_is_harmless():
    harness = ControllerHarness()
    harness.controller.wake("nobody")
    assert harness.work() == 1


def test_a_job_reconciled_before_it_is_stored_keeps_its_capacity():
    """Another thread may admit and wake the job while its record is being written."""
    harness = ControllerHarness(cpus=1)
    first, second = job(1), job(2)
    status, _ = harness.controller.prepare(first)
    assert status.admitted
    harness.controller.wake(first.uid)
    harness.work()
    harness.store.add(first, status)
    harness.controller.confirm(first.uid)
    harness.store.add(second, harness.controller.prepare(second)[0])
    harness.controller.confirm(second.uid)
    harness.work()
    assert harness.alive() == ["job-1 main-0.1"]
    harness.runtime.end("job-1", FIRST)
    harness.work()
    assert harness.alive() == ["job-2 main-0.1"]


def test_a_job_that_could_not_be_stored_keeps_no_capacity():
    harness = ControllerHarness(cpus=1)
    harness.controller.prepare(job(1))
    harness.controller.abandon("job-1")
    harness.work()
    assert harness.controller.admission.free().cpus == 1


def test_an_attempt_is_recorded_before_it_is_created():
    harness = ControllerHarness(job())
    on_record = []
    harness.runtime.on_create = lambda uid, replica: on_record.append(
        harness.status(uid).replicas[0].attempt
    )
    harness.work()
    assert on_record == [1]


def test_a_restart_happens_when_its_delay_is_over():
    harness = ControllerHarness(job(restart_policy=ON_FAILURE))
    harness.work()
    harness.runtime.end("job-1", FIRST, 1)
    harness.work()
    assert harness.alive() == []
    harness.clock.advance(0.9)
    harness.work()
    assert harness.alive() == []
    harness.clock.advance(0.1)
    harness.work()
    assert harness.alive() == ["job-1 main-0.2"]


@pytest.mark.case(5)
def test_a_deadline_fires_with_no_other_event():
    harness = ControllerHarness(job(active_deadline=60.0))
    harness.work()
    harness.runtime.run("job-1", FIRST)
    harness.work()
    harness.clock.advance(60.0)
    harness.work()
    assert harness.store.state("job-1") is TrialState.FAILED
    assert harness.alive() == []
    assert harness.status().settled


def test_a_stop_requested_during_a_reconcile_is_not_lost():
    harness = ControllerHarness(job())
    harness.work()

    def ask_for_stop(uid):
        harness.store.before_save = lambda uid: None
        harness.store.change(uid, stop_requested=True, stop_reason="stopped by anna")

    harness.store.before_save = ask_for_stop
    harness.runtime.run("job-1", FIRST)
    harness.work()
    assert harness.store.state("job-1") is TrialState.STOPPED
    assert harness.status().condition(ConditionType.FAILED).message == "stopped by anna"
    assert harness.alive() == []


def test_a_status_that_keeps_changing_is_retried_later():
    harness = ControllerHarness(job())
    count = iter(range(1000))
    harness.store.before_save = lambda uid: harness.store.change(uid, stop_reason=str(next(count)))
    assert harness.work() == 1
    assert harness.alive() == []
    harness.store.before_save = lambda uid: None
    harness.clock.advance(1.0)
    harness.work()
    assert harness.alive() == ["job-1 main-0.1"]


@pytest.mark.case(10)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_controller_killed_around_a_create_creates_nothing_twice(moment):
    harness = ControllerHarness(job(replicas=3))
    create = harness.runtime.create

    def die(job, replica, assignment):
        if replica.index == 1:
            if moment == "after":
                create(job, replica, assignment)
            raise Killed
        create(job, replica, assignment)

    harness.runtime.create = die
    with pytest.raises(Killed):
        harness.work()
    harness.runtime.create = create
    harness.begin()
    harness.work()
    assert harness.alive() == [f"job-1 main-{index}.1" for index in range(3)]
    assert set(harness.runtime.starts.values()) == {1}


def test_a_controller_killed_between_end_and_cleanup_cleans_up_later():
    harness = ControllerHarness(job(replicas=2))
    harness.work()

    def die(uid, replica):
        raise Killed

    harness.runtime.on_delete = die
    harness.runtime.end("job-1", FIRST, 1)
    with pytest.raises(Killed):
        harness.work()
    assert harness.store.state("job-1") is TrialState.FAILED
    assert harness.alive() == ["job-1 main-1.1"]
    harness.runtime.on_delete = lambda uid, replica: None
    harness.begin()
    harness.work()
    assert harness.alive() == []
    assert harness.status().settled


def test_ends_without_a_running_controller_are_detected_later():
    harness = ControllerHarness(job())
    harness.work()
    harness.runtime.callbacks.clear()
    harness.runtime.end("job-1", FIRST, 3)
    harness.begin()
    harness.work()
    assert harness.store.state("job-1") is TrialState.FAILED


def test_a_failure_with_one_job_does_not_stop_others():
    harness = ControllerHarness(job(1), job(2))
    list_replicas = harness.runtime.list

    def fail(job):
        if job.uid == "job-1":
            raise ConnectionError("the API server is away")
        return list_replicas(job)

    harness.runtime.list = fail
    harness.work()
    assert harness.alive() == ["job-2 main-0.1"]
    harness.runtime.list = list_replicas
    harness.clock.advance(1.0)
    harness.work()
    assert harness.alive() == ["job-1 main-0.1", "job-2 main-0.1"]


def gaps_between_looks(harness, seconds):
    looks = [0]
    for second in range(seconds):
        harness.clock.advance(1.0)
        if harness.work():
            looks.append(second + 1)
    return [later - earlier for earlier, later in itertools.pairwise(looks)]


def test_the_resync_repairs_missed_events_and_slows_down():
    harness = ControllerHarness(job())
    harness.work()
    harness.runtime.run("job-1", FIRST)
    harness.work()
    assert gaps_between_looks(harness, 1200) == [15, 30, 60, 120, 240, 300, 300]
    harness.runtime.callbacks.clear()
    harness.runtime.end("job-1", FIRST)
    harness.clock.advance(300.0)
    harness.work()
    assert harness.store.state("job-1") is TrialState.SUCCEEDED


def test_the_resync_slows_down_with_a_store_that_drops_pending_phases():
    """The operator's store drops them: a pod has its own phase, and each pod would cost a write."""
    harness = ControllerHarness(job())
    load = harness.store.load

    def load_as_running(uid):
        status = harness.status(uid)
        replicas = tuple(
            msgspec.structs.replace(replica, phase=replica.phase and Phase.RUNNING)
            for replica in status.replicas
        )
        harness.store.change(uid, replicas=replicas)
        return load(uid)

    harness.store.load = load_as_running
    harness.work()
    assert gaps_between_looks(harness, 800) == [15, 30, 60, 120, 240, 300]
    harness.runtime.put("job-1", FIRST, message="it is unschedulable")
    harness.runtime.tell("job-1")
    harness.work()
    assert gaps_between_looks(harness, 50) == [15, 30]


def test_a_reconcile_without_changes_writes_nothing():
    harness = ControllerHarness(job())
    harness.work()
    harness.runtime.run("job-1", FIRST)
    harness.work()
    saves = harness.store.saves["job-1"]
    for _ in range(10):
        harness.controller.wake("job-1")
        harness.work()
    assert harness.store.saves["job-1"] == saves


def test_changes_of_a_replica_are_saved_with_an_unchanged_status():
    harness = ControllerHarness(job())
    harness.work()
    harness.runtime.run("job-1", FIRST)
    harness.work()
    harness.runtime.put("job-1", FIRST, message="installing")
    harness.controller.wake("job-1")
    harness.work()
    assert harness.store.replicas["job-1"][0].message == "installing"


def test_a_finished_job_is_not_reconciled_again():
    harness = ControllerHarness(job())
    harness.work()
    harness.runtime.end("job-1", FIRST)
    harness.work()
    harness.clock.advance(10_000.0)
    assert harness.work() == 0


def test_a_one_replica_job_costs_few_writes():
    harness = ControllerHarness(job(), cpus=2)
    harness.work()
    harness.runtime.run("job-1", FIRST)
    harness.work()
    harness.runtime.end("job-1", FIRST)
    harness.work()
    assert harness.store.saves["job-1"] <= 4


@pytest.mark.parametrize("policy", [CleanPolicy.ALL, CleanPolicy.RUNNING])
def test_a_job_is_settled_after_its_time_to_live(policy):
    harness = ControllerHarness(job(ttl_after_finished=30.0, clean_policy=policy), cpus=1)
    harness.work()
    harness.runtime.end("job-1", FIRST)
    harness.work()
    assert not harness.status().settled
    assert not harness.controller.admission.is_admitted("job-1")
    harness.clock.advance(30.0)
    harness.work()
    assert harness.status().settled


def test_clean_policy_all_settles_although_ended_replicas_are_always_reported():
    harness = ControllerHarness(job(clean_policy=CleanPolicy.ALL))
    harness.work()
    harness.runtime.end("job-1", FIRST)
    harness.work()
    assert harness.status().settled


def test_a_job_deleted_from_the_store_is_forgotten():
    harness = ControllerHarness(job(1), job(2), cpus=1)
    harness.work()
    with harness.store.changed:
        del harness.store.jobs["job-1"]
    harness.controller.wake("job-1")
    harness.work()
    assert harness.controller.admission.is_admitted("job-2")


# Admission


def test_jobs_wait_for_capacity_and_then_start():
    harness = ControllerHarness(*(job(number) for number in range(1, 6)), cpus=2)
    harness.work()
    assert harness.alive() == ["job-1 main-0.1", "job-2 main-0.1"]
    assert harness.store.state("job-3") is TrialState.QUEUED
    text, position = harness.controller.admission.explain("job-5")
    assert (text, position) == ("needs 1 CPU, 0 free; 3rd in queue", 3)
    harness.runtime.end("job-1", FIRST)
    harness.work()
    assert harness.alive() == ["job-2 main-0.1", "job-3 main-0.1"]


def test_capacity_is_freed_only_when_the_last_replica_is_gone():
    harness = ControllerHarness(job(1, replicas=2), job(2), cpus=2)
    harness.runtime.stops_at_once = False
    harness.work()
    harness.runtime.end("job-1", FIRST, 1)
    harness.work()
    assert harness.store.state("job-1") is TrialState.FAILED
    assert harness.store.state("job-2") is TrialState.QUEUED
    harness.runtime.finish_delete("job-1", OTHER)
    harness.runtime.tell("job-1")
    harness.work()
    assert harness.alive() == ["job-2 main-0.1"]


def test_a_queued_job_can_be_stopped():
    harness = ControllerHarness(job(1), job(2), job(3), cpus=1)
    harness.work()
    harness.store.change("job-2", stop_requested=True)
    harness.controller.wake("job-2")
    harness.work()
    assert harness.store.state("job-2") is TrialState.STOPPED
    assert harness.controller.admission.explain("job-3")[1] == 1


def test_a_suspended_job_frees_its_capacity_and_queues_again():
    harness = ControllerHarness(job(1), job(2), cpus=1)
    harness.work()
    suspended = harness.store.jobs["job-1"]
    spec = msgspec.structs.replace(suspended.spec, suspend=True)
    harness.store.jobs["job-1"] = msgspec.structs.replace(suspended, spec=spec)
    harness.controller.wake("job-1")
    harness.work()
    assert harness.store.state("job-1") is TrialState.SUSPENDED
    assert harness.alive() == ["job-2 main-0.1"]
    harness.store.jobs["job-1"] = suspended
    harness.controller.wake("job-1")
    harness.work()
    assert harness.store.state("job-1") is TrialState.QUEUED
    harness.runtime.end("job-2", FIRST)
    harness.work()
    assert harness.alive() == ["job-1 main-0.2"]


def test_devices_are_assigned_and_survive_the_controller():
    wanted = Resources(cpus=0.1, accelerator=Accelerator(kind="t4"))
    jobs = [job(n, resources=wanted, restart_policy=ON_FAILURE) for n in (1, 2, 3)]
    harness = ControllerHarness(*jobs, cpus=4, devices=2)
    harness.work()
    assert harness.runtime.devices == {("job-1", FIRST): (0,), ("job-2", FIRST): (1,)}
    assert harness.status("job-2").devices == {"main-0": (1,)}
    harness.begin()
    harness.work()
    assert harness.store.state("job-3") is TrialState.QUEUED
    harness.runtime.end("job-2", FIRST, 1)
    harness.work()
    harness.clock.advance(1.0)
    harness.work()
    assert harness.runtime.devices["job-2", SECOND] == (1,)
    harness.runtime.end("job-1", FIRST)
    harness.work()
    assert harness.runtime.devices["job-3", FIRST] == (0,)


def test_without_an_admission_queue_every_job_is_admitted():
    harness = ControllerHarness(*(job(number) for number in range(1, 6)))
    harness.work()
    assert len(harness.alive()) == 5


def test_without_an_admission_queue_a_suspended_job_writes_its_status_once():
    harness = ControllerHarness(job(suspend=True))
    harness.work()
    assert harness.store.state("job-1") is TrialState.SUSPENDED
    saves = harness.store.saves["job-1"]
    harness.controller.wake("job-1")
    harness.work()
    assert harness.store.saves["job-1"] == saves


def test_a_replica_in_an_unknown_phase_is_left_alone():
    harness = ControllerHarness(job())
    harness.work()
    harness.runtime.put("job-1", FIRST, phase=Phase.UNKNOWN)
    harness.runtime.tell("job-1")
    harness.work()
    assert harness.alive() == ["job-1 main-0.1"]
