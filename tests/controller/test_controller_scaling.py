"""Scaling: growing waits for room, shrinking does not, and both survive a killed controller."""

from __future__ import annotations

import json

import pytest
from controller_doubles import NOTHING, Killed, Place, job

from windlass.frameworks import cluster_of, find_framework
from windlass.model.job import RestartPolicy, RestartScope, Role
from windlass.model.records import TrialState
from windlass.model.resources import Accelerator, Resources
from windlass.model.status import ConditionType, Phase, ReplicaId

ON_FAILURE = RestartPolicy.ON_FAILURE
GPU = Resources(cpus=0.1, accelerator=Accelerator(kind="t4"))


def workers(count, number=1, **options):
    return job(number, replicas=count, **options)


def names(count, attempt=1, uid="job-1"):
    return [f"{uid} main-{index}.{attempt}" for index in range(count)]


@pytest.mark.case(7)
def test_three_to_one_to_four_comes_true():
    place = Place(workers(3), cpus=4)
    place.work()
    place.run_all()
    place.scale(main=1)
    assert place.alive() == names(1)
    assert place.status().sizes == {"main": 1}
    assert place.controller.admission.free().cpus == 3
    place.scale(main=4)
    assert place.alive() == ["job-1 main-0.1", "job-1 main-1.2", "job-1 main-2.2", "job-1 main-3.1"]
    place.run_all()
    assert place.store.state("job-1") is TrialState.RUNNING
    assert place.status().restarts == 0
    assert place.controller.admission.free().cpus == 0


@pytest.mark.case(7)
def test_without_an_admission_queue_it_scales_at_once():
    place = Place(workers(2))
    place.work()
    place.scale(main=4)
    assert place.alive() == names(4)
    place.scale(main=1)
    assert place.alive() == names(1)
    assert place.status().sizes == {"main": 1}


def test_growing_waits_for_room_while_the_rest_goes_on():
    place = Place(workers(2), workers(2, 2), cpus=4)
    place.work()
    place.run_all()
    place.scale(main=4)
    assert place.alive() == names(2) + names(2, uid="job-2")
    assert place.store.state("job-1") is TrialState.RUNNING
    assert place.status().sizes == {"main": 2}
    waits = place.controller.admission.explain("job-1")
    assert waits == ("needs 2 CPUs more, 0 free; 1st in queue", 1)
    place.runtime.end("job-2", ReplicaId("main", 0, 1), 1)
    place.work()
    assert place.alive() == names(4)
    assert place.status().sizes == {"main": 4}
    assert place.controller.admission.explain("job-1") is None


def test_a_job_grows_whole_or_not_at_all():
    place = Place(workers(1), workers(1, 2), workers(1, 3), cpus=4)
    place.work()
    place.scale(main=4)
    assert len(place.alive()) == 3  # one would fit
    place.runtime.end("job-2", ReplicaId("main", 0, 1))
    place.work()
    assert len(place.alive()) == 2  # two would
    place.runtime.end("job-3", ReplicaId("main", 0, 1))
    place.work()
    assert place.alive() == names(4)


def test_a_job_that_grows_stands_where_it_came_and_is_not_overtaken():
    place = Place(workers(1), workers(2, 2), workers(2, 3), cpus=3)
    place.work()
    assert place.store.state("job-3") is TrialState.QUEUED
    place.scale(main=3)  # the older one, so it is ahead of job 3
    assert place.controller.admission.explain("job-1")[1] == 1
    place.runtime.end("job-2", ReplicaId("main", 0, 1), 1)
    place.work()
    assert place.alive() == names(3)
    assert place.store.state("job-3") is TrialState.QUEUED


def test_a_growth_does_not_delay_one_who_came_before():
    place = Place(workers(2), workers(3, 2), workers(1, 3), cpus=4)
    place.work()
    assert place.alive() == names(2) + names(1, uid="job-3")  # it passed job 2 without harm
    place.scale("job-3", main=2)
    waits = place.controller.admission.explain("job-3")
    assert waits == ("would fit, but must not delay the one ahead; 2nd in queue", 2)
    place.runtime.end("job-1", ReplicaId("main", 0, 1), 1)
    place.work()
    assert place.alive() == names(3, uid="job-2") + names(1, uid="job-3")


def test_a_growth_that_can_never_be_holds_nobody_up():
    place = Place(workers(2), cpus=4)
    place.work()
    place.scale(main=9)
    waits = place.controller.admission.explain("job-1")
    assert waits == ("needs 7 CPUs more; there are 2; 1st in queue", 1)
    place.store.add(workers(2, 2))
    place.controller.wake("job-2")
    place.work()
    assert place.alive() == names(2) + names(2, uid="job-2")


def test_nobody_behind_takes_what_a_growing_job_waits_for():
    """Two are free and three are needed: a job of two that came later would delay it."""
    place = Place(workers(2), workers(2, 2), cpus=6)
    place.work()
    place.scale(main=5)
    place.store.add(workers(2, 3))
    place.controller.wake("job-3")
    place.work()
    assert place.store.state("job-3") is TrialState.QUEUED
    place.runtime.end("job-2", ReplicaId("main", 0, 1), 1)
    place.work()
    assert place.alive() == names(5)


def test_a_further_change_takes_the_place_of_a_growth_that_waits():
    place = Place(workers(2), workers(2, 2), cpus=4)
    place.work()
    place.scale(main=4)
    place.scale(main=3)
    assert place.controller.admission.explain("job-1")[0].startswith("needs 1 CPU more")
    place.scale(main=2)
    assert place.controller.admission.explain("job-1") is None
    place.scale(main=4)
    place.scale(main=1)
    assert place.controller.admission.explain("job-1") is None
    assert place.alive() == names(1) + names(2, uid="job-2")
    assert place.controller.admission.free().cpus == 1


def test_the_room_of_what_goes_is_given_back_when_it_is_gone():
    place = Place(workers(3), workers(2, 2), cpus=3)
    place.work()
    place.runtime.stops_at_once = False
    place.scale(main=1)
    assert place.store.state("job-2") is TrialState.QUEUED
    place.runtime.finish_delete("job-1", ReplicaId("main", 2, 1))
    place.runtime.tell("job-1")
    place.work()
    assert place.status().sizes == {"main": 2}
    assert place.store.state("job-2") is TrialState.QUEUED
    place.runtime.finish_delete("job-1", ReplicaId("main", 1, 1))
    place.runtime.tell("job-1")
    place.work()
    assert place.alive() == names(1) + names(2, uid="job-2")


def test_devices_of_replicas_that_run_stay_as_they_are():
    place = Place(workers(1, resources=GPU), workers(2, 2, resources=GPU), cpus=4, devices=4)
    place.work()
    assert place.status().devices == {"main-0": (0,)}
    place.scale(main=2)
    assert place.status().devices == {"main-0": (0,), "main-1": (3,)}
    assert place.runtime.devices["job-1", ReplicaId("main", 1, 1)] == (3,)
    place.scale(main=3)
    assert len(place.alive()) == 4
    place.scale("job-2", main=1)
    assert place.status().devices == {"main-0": (0,), "main-1": (3,), "main-2": (2,)}
    assert place.status("job-2").devices == {"main-0": (1,)}


def test_roles_scale_each_by_itself_and_together():
    roles = (Role(executable=NOTHING, name="chief"), Role(executable=NOTHING, name="worker"))
    place = Place(job(1, *roles), cpus=4)
    place.work()
    place.scale(chief=2, worker=2)
    assert len(place.alive()) == 4
    place.scale(chief=1, worker=3)  # what goes makes room for what comes
    assert place.alive() == [
        "job-1 chief-0.1", "job-1 worker-0.1", "job-1 worker-1.1", "job-1 worker-2.1",
    ]  # fmt: skip
    assert place.status().sizes == {"chief": 1, "worker": 3}


def test_a_queued_job_that_is_scaled_asks_for_its_new_size():
    place = Place(workers(2), workers(2, 2), cpus=3)
    place.work()
    place.scale("job-2", main=1)
    assert place.alive() == names(2) + names(1, uid="job-2")
    assert place.status("job-2").sizes == {"main": 1}


def test_a_job_let_in_by_another_while_it_was_scaled_has_the_room_it_was_given():
    place = Place(workers(1), workers(2, 2), cpus=2)
    place.work()
    place.store.scale("job-2", main=3)
    place.runtime.end("job-1", ReplicaId("main", 0, 1))
    place.work()
    assert place.alive() == names(2, uid="job-2")
    assert place.status("job-2").sizes == {"main": 2}


def test_a_stop_or_an_end_takes_the_growth_out_of_the_queue():
    place = Place(workers(2), workers(1, 2), cpus=3)
    place.work()
    place.runtime.stops_at_once = False
    place.scale(main=3)
    assert len(place.controller.admission) == 1
    place.store.change("job-1", stop_requested=True)
    place.controller.wake("job-1")
    place.work()
    assert len(place.controller.admission) == 0


# Suspension


@pytest.mark.case(6)
def test_suspension_gives_the_room_back_and_resumption_asks_for_it_again():
    place = Place(workers(2, active_deadline=100.0), workers(2, 2), cpus=2)
    place.work()
    place.run_all()
    began = place.status().start_time
    place.clock.advance(60.0)
    place.work()
    place.suspend()
    assert place.store.state("job-1") is TrialState.SUSPENDED
    assert place.alive() == names(2, uid="job-2")
    assert place.status().sizes == {}
    place.clock.advance(1000.0)
    place.work()
    place.suspend(suspend=False)
    assert place.store.state("job-1") is TrialState.QUEUED
    place.runtime.end("job-2", ReplicaId("main", 0, 1), 1)
    place.work()
    assert place.alive() == names(2, attempt=2)
    place.run_all()
    assert place.status().start_time == place.clock.now() > began
    assert place.status().restarts == 0
    place.clock.advance(39.0)
    place.work()
    assert place.store.state("job-1") is TrialState.RUNNING
    place.clock.advance(1.0)
    place.work()
    assert place.status().condition(ConditionType.FAILED).reason == "DeadlineExceeded"


@pytest.mark.case(6)
def test_created_suspended_creates_nothing_until_it_is_resumed():
    place = Place(workers(2, suspend=True), cpus=2)
    place.work()
    assert place.alive() == []
    assert place.controller.admission.free().cpus == 2
    place.suspend(suspend=False)
    assert place.alive() == names(2)
    place.suspend()
    assert place.alive() == []
    place.suspend(suspend=False)
    assert place.alive() == names(2, attempt=2)


def test_scaled_while_suspended_it_resumes_at_its_new_size():
    place = Place(workers(2), cpus=4)
    place.work()
    place.suspend()
    place.scale(main=4)
    assert place.alive() == []
    place.suspend(suspend=False)
    assert sorted(place.alive()) == [
        "job-1 main-0.2", "job-1 main-1.2", "job-1 main-2.1", "job-1 main-3.1",
    ]  # fmt: skip
    assert place.status().sizes == {"main": 4}


@pytest.mark.parametrize("change", ["suspend", "scale"])
def test_a_look_taken_with_the_old_spec_overwrites_nothing(change):
    """Somebody changes the job between the look and its record: the look is taken again."""
    place = Place(workers(2), cpus=4)
    place.work()
    place.run_all()

    def meanwhile(uid):
        place.store.before_save = lambda uid: None
        if change == "suspend":
            place.store.respec(uid, suspend=True)
        else:
            place.store.scale(uid, main=1)

    place.store.before_save = meanwhile
    place.runtime.put("job-1", ReplicaId("main", 1, 1), message="news")
    place.controller.wake("job-1")
    place.work()
    assert place.status().generation == 1
    assert place.alive() == ([] if change == "suspend" else names(1))


# With the scope job


def test_with_the_scope_job_a_new_size_starts_all_again_uncounted_and_at_once():
    place = Place(workers(2, restart_scope=RestartScope.JOB), workers(1, 2), cpus=4)
    place.work()
    place.run_all()
    place.scale(main=4)
    assert place.alive() == names(2) + names(1, uid="job-2")  # until there is room
    place.runtime.end("job-2", ReplicaId("main", 0, 1))
    place.work()
    assert place.alive() == [
        "job-1 main-0.2", "job-1 main-1.2", "job-1 main-2.1", "job-1 main-3.1",
    ]  # fmt: skip
    assert place.status().restarts == 0
    sizes = {
        made.spec.roles[0].replicas
        for (uid, replica), made in place.runtime.made_for.items()
        if (uid, replica) in place.runtime.alive()
    }
    assert sizes == {4}
    place.run_all()
    place.scale(main=1)
    assert place.alive() == ["job-1 main-0.3"]
    assert place.runtime.made_for["job-1", ReplicaId("main", 0, 3)].spec.roles[0].replicas == 1


# Addresses


def test_addresses_are_on_record_before_anything_is_created_and_stay():
    place = Place(workers(2), cpus=3)
    on_record = []
    place.runtime.on_create = lambda uid, replica: on_record.append(place.status(uid).addresses)
    place.work()
    first = {"main-0": "127.0.0.1:1001", "main-1": "127.0.0.1:1002"}
    assert on_record == [first, first]
    assert place.runtime.given["job-1", ReplicaId("main", 1, 1)].addresses == first
    for _ in range(3):
        place.controller.wake("job-1")
        place.work()
    assert place.runtime.addresses_asked == ["job-1"]
    place.begin()
    place.scale(main=3)
    assert place.status().addresses == {**first, "main-2": "127.0.0.1:1003"}
    assert place.runtime.addresses_asked == ["job-1"] * 2
    place.suspend()
    place.suspend(suspend=False)
    assert place.runtime.given["job-1", ReplicaId("main", 0, 2)].addresses["main-0"] == (
        "127.0.0.1:1001"
    )
    assert place.runtime.addresses_asked == ["job-1"] * 2


def test_a_job_that_begins_with_room_has_its_addresses_from_the_start():
    place = Place(cpus=2)
    status, _ = place.controller.begin(workers(2))
    assert set(status.addresses) == {"main-0", "main-1"}


def test_nobody_asks_for_addresses_of_a_job_that_waits_or_of_one_that_is_alone():
    place = Place(workers(1), workers(2, 2), job(3, suspend=True, replicas=2), cpus=2)
    place.work()
    place.run_all()
    assert place.runtime.addresses_asked == []


def test_a_lone_replica_of_a_framework_has_an_address():
    place = Place(workers(1, framework="torch"))
    place.work()
    assert place.status().addresses == {"main-0": "127.0.0.1:1001"}


def test_addresses_that_cannot_be_had_are_told_of_and_asked_for_again():
    place = Place()
    ask = place.runtime.addresses

    def fail(job, known):
        raise OSError("no free port")

    place.runtime.addresses = fail
    status, _ = place.controller.begin(workers(2))
    assert status.admitted
    place.store.add(workers(2), status)
    place.controller.begun("job-1")
    for _ in range(8):
        place.work()
        place.clock.advance(60.0)
    told = "AddressesFailed: finding addresses for the replicas failed: no free port"
    assert place.store.events["job-1"].count(told) == 2
    assert place.alive() == []
    place.runtime.addresses = ask
    place.work()
    assert place.alive() == names(2)
    assert set(place.runtime.given["job-1", ReplicaId("main", 0, 1)].addresses) == {
        "main-0",
        "main-1",
    }


def environment_of(place, name):
    """What the framework makes of what the newest attempt of a replica was given."""
    key = max(each for each in place.runtime.given if str(each[1]).startswith(f"{name}."))
    made, given = place.runtime.made_for[key], place.runtime.given[key]
    members = cluster_of(made.spec, given.addresses)
    me = members.member(key[1].role, key[1].index)
    return find_framework(made.spec.framework).environment(members, me)


@pytest.mark.case(12)
def test_a_lone_replica_of_tensorflow_gets_no_config():
    place = Place(workers(1, framework="tensorflow"))
    place.work()
    assert environment_of(place, "main-0") == {}


@pytest.mark.case(12)
def test_the_config_of_tensorflow_is_the_whole_cluster_and_the_same_after_a_restart():
    counts = {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1}
    roles = [
        Role(executable=NOTHING, name=name, replicas=count, restart_policy=ON_FAILURE)
        for name, count in counts.items()
    ]
    place = Place(job(1, *roles, framework="tensorflow"))
    place.work()
    place.run_all()
    before = environment_of(place, "worker-1")["TF_CONFIG"]
    config = json.loads(before)
    assert config["task"] == {"type": "worker", "index": 1}
    assert {name: len(at) for name, at in config["cluster"].items()} == {
        "chief": 1,
        "worker": 2,
        "ps": 2,
    }
    assert len({address for at in config["cluster"].values() for address in at}) == 5
    place.runtime.end("job-1", ReplicaId("worker", 1, 1), 137)
    place.work()
    place.begin()
    place.clock.advance(1.0)
    place.work()
    assert ("job-1", ReplicaId("worker", 1, 2)) in place.runtime.alive()
    assert environment_of(place, "worker-1")["TF_CONFIG"] == before
    evaluator = json.loads(environment_of(place, "evaluator-0")["TF_CONFIG"])
    assert evaluator["task"] == {"type": "evaluator", "index": 0}
    assert evaluator["cluster"] == config["cluster"]


# Killed at any point


class _Mortal:
    """A place whose controller dies at the n-th thing it does."""

    def __init__(self, place, fatal):
        self.place, self.left = place, fatal
        self.save, self.create, self.delete = (
            place.store.save,
            place.runtime.create,
            place.runtime.delete,
        )
        place.store.save = self.around(self.save)
        place.runtime.create = self.around(self.create)
        place.runtime.delete = self.around(self.delete)

    def around(self, act):
        def acted(*arguments):
            self.step()
            answer = act(*arguments)
            self.step()
            return answer

        return acted

    def step(self):
        self.left -= 1
        if self.left == 0:
            raise Killed

    def revive(self):
        place = self.place
        place.store.save, place.runtime.create, place.runtime.delete = (
            self.save,
            self.create,
            self.delete,
        )
        place.begin()
        place.work()


@pytest.mark.case(10)
@pytest.mark.parametrize("scope", list(RestartScope))
@pytest.mark.parametrize("fatal", range(1, 26))
def test_a_controller_killed_anywhere_while_it_scales_doubles_and_loses_nothing(fatal, scope):
    place = Place(workers(3, restart_scope=scope, resources=GPU), cpus=4, devices=4)
    place.work()
    place.run_all()
    mortal = _Mortal(place, fatal)
    for change in ({"main": 1}, {"main": 4}, {"main": 2}):
        try:
            place.scale(**change)
        except Killed:
            mortal.revive()
    mortal.revive()
    indices = [replica.index for _, replica in place.runtime.alive()]
    assert sorted(indices) == [0, 1]
    assert set(place.runtime.starts.values()) == {1}
    assert place.status().sizes == {"main": 2}
    assert sorted(place.status().devices) == ["main-0", "main-1"]
    free = place.controller.admission.free()
    assert len(free.devices) == 2
    held = [index for given in place.status().devices.values() for index in given]
    assert sorted([*held, *(each.index for each in free.devices)]) == [0, 1, 2, 3]
    place.run_all()
    assert place.store.state("job-1") is TrialState.RUNNING
    assert place.status().restarts == 0


def test_a_growth_keeps_its_place_over_the_death_of_the_controller():
    place = Place(workers(2), workers(2, 2), workers(2, 3), cpus=4)
    place.work()
    place.scale(main=4)
    place.begin()
    assert place.controller.admission.explain("job-1") == (
        "needs 2 CPUs more, 0 free; 1st in queue",
        1,
    )
    place.work()
    place.runtime.end("job-2", ReplicaId("main", 0, 1), 1)
    place.work()
    assert place.alive() == names(4)
    assert place.store.state("job-3") is TrialState.QUEUED


def test_a_shrink_that_was_cut_short_is_finished_by_the_next_controller():
    place = Place(workers(3), workers(2, 2), cpus=3)
    place.work()
    place.runtime.stops_at_once = False
    place.scale(main=1)
    place.begin()
    place.work()
    assert place.store.state("job-2") is TrialState.QUEUED  # two are still going
    for index in (1, 2):
        place.runtime.finish_delete("job-1", ReplicaId("main", index, 1))
    place.runtime.tell("job-1")
    place.work()
    assert place.alive() == names(1) + names(2, uid="job-2")


def test_a_record_without_sizes_is_of_a_job_that_has_room_for_all():
    place = Place(workers(2), cpus=4)
    place.work()
    place.store.change("job-1", sizes={})
    place.begin()
    place.work()
    assert place.alive() == names(2)
    assert place.status().sizes == {"main": 2}


def test_a_change_that_leaves_the_sizes_as_they_are_costs_nothing():
    place = Place(workers(2), cpus=4)
    place.work()
    place.run_all()
    place.store.respec("job-1", priority=3)
    saves = place.store.saves["job-1"]
    place.controller.wake("job-1")
    place.work()
    assert place.store.saves["job-1"] == saves


def test_a_replica_that_fails_while_a_growth_waits_is_judged_as_ever():
    place = Place(workers(2), workers(2, 2), cpus=4)
    place.work()
    place.run_all()
    place.scale(main=4)
    place.runtime.put("job-1", ReplicaId("main", 0, 1), phase=Phase.FAILED, exit_code=1)
    place.runtime.tell("job-1")
    place.work()
    assert place.store.state("job-1") is TrialState.FAILED
    assert place.controller.admission.free().cpus == 2
    assert len(place.controller.admission) == 0
