from __future__ import annotations

import itertools

import msgspec
import pytest
from controller_doubles import Killed, Place, job

from windlass.model.job import CleanPolicy, RestartPolicy
from windlass.model.records import TrialState
from windlass.model.resources import Accelerator, Resources
from windlass.model.status import ConditionType, Phase, ReplicaId

FIRST, SECOND = ReplicaId("main", 0, 1), ReplicaId("main", 0, 2)
OTHER = ReplicaId("main", 1, 1)
ON_FAILURE = RestartPolicy.ON_FAILURE


def test_a_job_runs_and_succeeds():
    place = Place(job())
    place.work()
    assert place.alive() == ["job-1 main-0.1"]
    place.runtime.run("job-1", FIRST)
    place.work()
    assert place.store.state("job-1") is TrialState.RUNNING
    place.runtime.end("job-1", FIRST)
    place.work()
    assert place.store.state("job-1") is TrialState.SUCCEEDED
    assert place.status().settled
    assert place.status().last_reconcile_time == place.clock.now()


def test_a_job_woken_that_does_not_exist_is_no_trouble():
    place = Place()
    place.controller.wake("nobody")
    assert place.work() == 1


def test_a_job_looked_at_before_it_is_stored_keeps_its_room():
    """Another thread may let it in, and wake it, while its record is on the way to the disk."""
    place = Place(cpus=1)
    first, second = job(1), job(2)
    status, _ = place.controller.begin(first)
    assert status.admitted
    place.controller.wake(first.uid)
    place.work()
    place.store.add(first, status)
    place.controller.begun(first.uid)
    place.store.add(second, place.controller.begin(second)[0])
    place.controller.begun(second.uid)
    place.work()
    assert place.alive() == ["job-1 main-0.1"]
    place.runtime.end("job-1", FIRST)
    place.work()
    assert place.alive() == ["job-2 main-0.1"]


def test_a_job_that_could_not_be_stored_keeps_no_room():
    place = Place(cpus=1)
    place.controller.begin(job(1))
    place.controller.abandon("job-1")
    place.work()
    assert place.controller.admission.free().cpus == 1


def test_an_attempt_is_on_record_before_it_is_created():
    place = Place(job())
    on_record = []
    place.runtime.on_create = lambda uid, replica: on_record.append(
        place.status(uid).replicas[0].attempt
    )
    place.work()
    assert on_record == [1]


def test_a_restart_happens_when_its_delay_is_over():
    place = Place(job(restart_policy=ON_FAILURE))
    place.work()
    place.runtime.end("job-1", FIRST, 1)
    place.work()
    assert place.alive() == []
    place.clock.advance(0.9)
    place.work()
    assert place.alive() == []
    place.clock.advance(0.1)
    place.work()
    assert place.alive() == ["job-1 main-0.2"]


@pytest.mark.case(5)
def test_a_deadline_fires_with_no_other_event():
    place = Place(job(active_deadline=60.0))
    place.work()
    place.runtime.run("job-1", FIRST)
    place.work()
    place.clock.advance(60.0)
    place.work()
    assert place.store.state("job-1") is TrialState.FAILED
    assert place.alive() == []
    assert place.status().settled


def test_a_stop_asked_for_while_it_is_being_looked_at_is_not_lost():
    place = Place(job())
    place.work()

    def ask_for_stop(uid):
        place.store.before_save = lambda uid: None
        place.store.change(uid, stop_requested=True, stop_reason="stopped by anna")

    place.store.before_save = ask_for_stop
    place.runtime.run("job-1", FIRST)
    place.work()
    assert place.store.state("job-1") is TrialState.STOPPED
    assert place.status().condition(ConditionType.FAILED).message == "stopped by anna"
    assert place.alive() == []


def test_a_status_that_keeps_changing_is_tried_again_later():
    place = Place(job())
    count = iter(range(1000))
    place.store.before_save = lambda uid: place.store.change(uid, stop_reason=str(next(count)))
    assert place.work() == 1
    assert place.alive() == []
    place.store.before_save = lambda uid: None
    place.clock.advance(1.0)
    place.work()
    assert place.alive() == ["job-1 main-0.1"]


@pytest.mark.case(10)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_controller_killed_around_a_create_makes_nothing_twice(moment):
    place = Place(job(replicas=3))
    create = place.runtime.create

    def die(job, replica, given):
        if replica.index == 1:
            if moment == "after":
                create(job, replica, given)
            raise Killed
        create(job, replica, given)

    place.runtime.create = die
    with pytest.raises(Killed):
        place.work()
    place.runtime.create = create
    place.begin()
    place.work()
    assert place.alive() == [f"job-1 main-{index}.1" for index in range(3)]
    assert set(place.runtime.starts.values()) == {1}


def test_a_controller_killed_between_the_end_and_the_cleaning_cleans_later():
    place = Place(job(replicas=2))
    place.work()

    def die(uid, replica):
        raise Killed

    place.runtime.on_delete = die
    place.runtime.end("job-1", FIRST, 1)
    with pytest.raises(Killed):
        place.work()
    assert place.store.state("job-1") is TrialState.FAILED
    assert place.alive() == ["job-1 main-1.1"]
    place.runtime.on_delete = lambda uid, replica: None
    place.begin()
    place.work()
    assert place.alive() == []
    assert place.status().settled


def test_what_ended_while_no_controller_was_there_is_seen():
    place = Place(job())
    place.work()
    place.runtime.callbacks.clear()
    place.runtime.end("job-1", FIRST, 3)
    place.begin()
    place.work()
    assert place.store.state("job-1") is TrialState.FAILED


def test_trouble_with_one_job_does_not_stop_the_others():
    place = Place(job(1), job(2))
    list_replicas = place.runtime.list

    def fail(job):
        if job.uid == "job-1":
            raise ConnectionError("the API server is away")
        return list_replicas(job)

    place.runtime.list = fail
    place.work()
    assert place.alive() == ["job-2 main-0.1"]
    place.runtime.list = list_replicas
    place.clock.advance(1.0)
    place.work()
    assert place.alive() == ["job-1 main-0.1", "job-2 main-0.1"]


def gaps_between_looks(place, seconds):
    looks = [0]
    for second in range(seconds):
        place.clock.advance(1.0)
        if place.work():
            looks.append(second + 1)
    return [later - earlier for earlier, later in itertools.pairwise(looks)]


def test_the_resync_repairs_what_an_event_missed_and_slows_down():
    place = Place(job())
    place.work()
    place.runtime.run("job-1", FIRST)
    place.work()
    assert gaps_between_looks(place, 1200) == [15, 30, 60, 120, 240, 300, 300]
    place.runtime.callbacks.clear()
    place.runtime.end("job-1", FIRST)
    place.clock.advance(300.0)
    place.work()
    assert place.store.state("job-1") is TrialState.SUCCEEDED


def test_the_resync_slows_down_though_the_store_does_not_keep_that_a_replica_is_pending():
    """The operator's does not: a pod says it itself, and it would be a write for each pod."""
    place = Place(job())
    load = place.store.load

    def load_as_running(uid):
        status = place.status(uid)
        replicas = tuple(
            msgspec.structs.replace(each, phase=each.phase and Phase.RUNNING)
            for each in status.replicas
        )
        place.store.change(uid, replicas=replicas)
        return load(uid)

    place.store.load = load_as_running
    place.work()
    assert gaps_between_looks(place, 800) == [15, 30, 60, 120, 240, 300]
    place.runtime.put("job-1", FIRST, message="it is unschedulable")
    place.runtime.tell("job-1")
    place.work()
    assert gaps_between_looks(place, 50) == [15, 30]


def test_a_look_that_finds_nothing_new_writes_nothing():
    place = Place(job())
    place.work()
    place.runtime.run("job-1", FIRST)
    place.work()
    saves = place.store.saves["job-1"]
    for _ in range(10):
        place.controller.wake("job-1")
        place.work()
    assert place.store.saves["job-1"] == saves


def test_news_of_a_replica_is_saved_though_the_status_is_the_same():
    place = Place(job())
    place.work()
    place.runtime.run("job-1", FIRST)
    place.work()
    place.runtime.put("job-1", FIRST, message="installing")
    place.controller.wake("job-1")
    place.work()
    assert place.store.replicas["job-1"][0].message == "installing"


def test_a_finished_job_is_looked_at_no_more():
    place = Place(job())
    place.work()
    place.runtime.end("job-1", FIRST)
    place.work()
    place.clock.advance(10_000.0)
    assert place.work() == 0


def test_a_one_replica_job_costs_few_writes():
    place = Place(job(), cpus=2)
    place.work()
    place.runtime.run("job-1", FIRST)
    place.work()
    place.runtime.end("job-1", FIRST)
    place.work()
    assert place.store.saves["job-1"] <= 4


@pytest.mark.parametrize("policy", [CleanPolicy.ALL, CleanPolicy.RUNNING])
def test_a_time_to_live_is_kept_and_then_the_job_is_settled(policy):
    place = Place(job(ttl_after_finished=30.0, clean_policy=policy), cpus=1)
    place.work()
    place.runtime.end("job-1", FIRST)
    place.work()
    assert not place.status().settled
    assert not place.controller.admission.is_admitted("job-1")
    place.clock.advance(30.0)
    place.work()
    assert place.status().settled


def test_clean_policy_all_settles_though_ended_replicas_are_reported_for_ever():
    place = Place(job(clean_policy=CleanPolicy.ALL))
    place.work()
    place.runtime.end("job-1", FIRST)
    place.work()
    assert place.status().settled


def test_a_job_deleted_from_the_store_is_forgotten():
    place = Place(job(1), job(2), cpus=1)
    place.work()
    with place.store.changed:
        del place.store.jobs["job-1"]
    place.controller.wake("job-1")
    place.work()
    assert place.controller.admission.is_admitted("job-2")


# Admission


def test_jobs_wait_for_room_and_start_when_there_is():
    place = Place(*(job(number) for number in range(1, 6)), cpus=2)
    place.work()
    assert place.alive() == ["job-1 main-0.1", "job-2 main-0.1"]
    assert place.store.state("job-3") is TrialState.QUEUED
    text, position = place.controller.admission.explain("job-5")
    assert (text, position) == ("needs 1 CPU, 0 free; 3rd in queue", 3)
    place.runtime.end("job-1", FIRST)
    place.work()
    assert place.alive() == ["job-2 main-0.1", "job-3 main-0.1"]


def test_room_is_freed_only_when_the_last_replica_is_gone():
    place = Place(job(1, replicas=2), job(2), cpus=2)
    place.runtime.stops_at_once = False
    place.work()
    place.runtime.end("job-1", FIRST, 1)
    place.work()
    assert place.store.state("job-1") is TrialState.FAILED
    assert place.store.state("job-2") is TrialState.QUEUED
    place.runtime.finish_delete("job-1", OTHER)
    place.runtime.tell("job-1")
    place.work()
    assert place.alive() == ["job-2 main-0.1"]


def test_a_queued_job_can_be_stopped():
    place = Place(job(1), job(2), job(3), cpus=1)
    place.work()
    place.store.change("job-2", stop_requested=True)
    place.controller.wake("job-2")
    place.work()
    assert place.store.state("job-2") is TrialState.STOPPED
    assert place.controller.admission.explain("job-3")[1] == 1


def test_a_suspended_job_gives_its_room_away_and_queues_again():
    place = Place(job(1), job(2), cpus=1)
    place.work()
    suspended = place.store.jobs["job-1"]
    spec = msgspec.structs.replace(suspended.spec, suspend=True)
    place.store.jobs["job-1"] = msgspec.structs.replace(suspended, spec=spec)
    place.controller.wake("job-1")
    place.work()
    assert place.store.state("job-1") is TrialState.SUSPENDED
    assert place.alive() == ["job-2 main-0.1"]
    place.store.jobs["job-1"] = suspended
    place.controller.wake("job-1")
    place.work()
    assert place.store.state("job-1") is TrialState.QUEUED
    place.runtime.end("job-2", FIRST)
    place.work()
    assert place.alive() == ["job-1 main-0.2"]


def test_devices_are_given_and_survive_the_controller():
    wanted = Resources(cpus=0.1, accelerator=Accelerator(kind="t4"))
    jobs = [job(n, resources=wanted, restart_policy=ON_FAILURE) for n in (1, 2, 3)]
    place = Place(*jobs, cpus=4, devices=2)
    place.work()
    assert place.runtime.devices == {("job-1", FIRST): (0,), ("job-2", FIRST): (1,)}
    assert place.status("job-2").devices == {"main-0": (1,)}
    place.begin()
    place.work()
    assert place.store.state("job-3") is TrialState.QUEUED
    place.runtime.end("job-2", FIRST, 1)
    place.work()
    place.clock.advance(1.0)
    place.work()
    assert place.runtime.devices["job-2", SECOND] == (1,)
    place.runtime.end("job-1", FIRST)
    place.work()
    assert place.runtime.devices["job-3", FIRST] == (0,)


def test_without_an_admission_queue_every_job_is_let_in():
    place = Place(*(job(number) for number in range(1, 6)))
    place.work()
    assert len(place.alive()) == 5


def test_without_an_admission_queue_a_suspended_job_writes_its_status_once():
    place = Place(job(suspend=True))
    place.work()
    assert place.store.state("job-1") is TrialState.SUSPENDED
    saves = place.store.saves["job-1"]
    place.controller.wake("job-1")
    place.work()
    assert place.store.saves["job-1"] == saves


def test_a_replica_seen_in_a_phase_nobody_can_tell_is_left_alone():
    place = Place(job())
    place.work()
    place.runtime.put("job-1", FIRST, phase=Phase.UNKNOWN)
    place.runtime.tell("job-1")
    place.work()
    assert place.alive() == ["job-1 main-0.1"]
