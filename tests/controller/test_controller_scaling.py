"""Scaling: growing waits for capacity, shrinking does not, and both survive a killed controller."""

from __future__ import annotations

import json

import pytest
from controller_doubles import NOTHING, ControllerHarness, Killed, job

from windlass.frameworks import build_cluster, find_framework
from windlass.model.hardware.resources import Accelerator, Resources
from windlass.model.job import RestartPolicy, RestartScope, Role
from windlass.model.records import TrialState
from windlass.model.status import ConditionType, Phase, ReplicaId

ON_FAILURE = RestartPolicy.ON_FAILURE
GPU = Resources(cpus=0.1, accelerator=Accelerator(kind="t4"))


def workers(count, number=1, **options):
    return job(number, replicas=count, **options)


def names(count, attempt=1, uid="job-1"):
    return [f"{uid} main-{index}.{attempt}" for index in range(count)]


@pytest.mark.case(7)
def test_a_job_scales_from_three_to_one_to_four():
    harness = ControllerHarness(workers(3), cpus=4)
    harness.work()
    harness.run_all()
    harness.scale(main=1)
    assert harness.alive() == names(1)
    assert harness.status().sizes == {"main": 1}
    assert harness.controller.admission.free().cpus == 3
    harness.scale(main=4)
    assert harness.alive() == [
        "job-1 main-0.1",
        "job-1 main-1.2",
        "job-1 main-2.2",
        "job-1 main-3.1",
    ]
    harness.run_all()
    assert harness.store.state("job-1") is TrialState.RUNNING
    assert harness.status().restarts == 0
    assert harness.controller.admission.free().cpus == 0


@pytest.mark.case(7)
def test_without_an_admission_queue_a_job_scales_at_once():
    harness = ControllerHarness(workers(2))
    harness.work()
    harness.scale(main=4)
    assert harness.alive() == names(4)
    harness.scale(main=1)
    assert harness.alive() == names(1)
    assert harness.status().sizes == {"main": 1}


def test_growing_waits_for_capacity_while_the_rest_continues():
    harness = ControllerHarness(workers(2), workers(2, 2), cpus=4)
    harness.work()
    harness.run_all()
    harness.scale(main=4)
    assert harness.alive() == names(2) + names(2, uid="job-2")
    assert harness.store.state("job-1") is TrialState.RUNNING
    assert harness.status().sizes == {"main": 2}
    waits = harness.controller.admission.explain("job-1")
    assert waits == ("needs 2 CPUs more, 0 free; 1st in queue", 1)
    harness.runtime.end("job-2", ReplicaId("main", 0, 1), 1)
    harness.work()
    assert harness.alive() == names(4)
    assert harness.status().sizes == {"main": 4}
    assert harness.controller.admission.explain("job-1") is None


def test_a_job_grows_completely_or_not_at_all():
    harness = ControllerHarness(workers(1), workers(1, 2), workers(1, 3), cpus=4)
    harness.work()
    harness.scale(main=4)
    assert len(harness.alive()) == 3  # one replica would fit
    harness.runtime.end("job-2", ReplicaId("main", 0, 1))
    harness.work()
    assert len(harness.alive()) == 2  # two would fit
    harness.runtime.end("job-3", ReplicaId("main", 0, 1))
    harness.work()
    assert harness.alive() == names(4)


def test_a_growing_job_keeps_its_position_and_is_not_overtaken():
    harness = ControllerHarness(workers(1), workers(2, 2), workers(2, 3), cpus=3)
    harness.work()
    assert harness.store.state("job-3") is TrialState.QUEUED
    harness.scale(main=3)  # the older one, so it is ahead of job 3
    assert harness.controller.admission.explain("job-1")[1] == 1
    harness.runtime.end("job-2", ReplicaId("main", 0, 1), 1)
    harness.work()
    assert harness.alive() == names(3)
    assert harness.store.state("job-3") is TrialState.QUEUED


def test_a_growth_does_not_delay_an_earlier_job():
    harness = ControllerHarness(workers(2), workers(3, 2), workers(1, 3), cpus=4)
    harness.work()
    assert harness.alive() == names(2) + names(1, uid="job-3")  # it passed job 2, without delay
    harness.scale("job-3", main=2)
    waits = harness.controller.admission.explain("job-3")
    assert waits == ("would fit, but must not delay the one ahead; 2nd in queue", 2)
    harness.runtime.end("job-1", ReplicaId("main", 0, 1), 1)
    harness.work()
    assert harness.alive() == names(3, uid="job-2") + names(1, uid="job-3")


def test_an_impossible_growth_blocks_no_other_job():
    harness = ControllerHarness(workers(2), cpus=4)
    harness.work()
    harness.scale(main=9)
    waits = harness.controller.admission.explain("job-1")
    assert waits == ("needs 7 CPUs more; there are 2; 1st in queue", 1)
    harness.store.add(workers(2, 2))
    harness.controller.wake("job-2")
    harness.work()
    assert harness.alive() == names(2) + names(2, uid="job-2")


def test_later_jobs_do_not_take_the_capacity_a_growing_job_waits_for():
    """Two CPUs are free and three are needed. A later job of two CPUs would delay the growth."""
    harness = ControllerHarness(workers(2), workers(2, 2), cpus=6)
    harness.work()
    harness.scale(main=5)
    harness.store.add(workers(2, 3))
    harness.controller.wake("job-3")
    harness.work()
    assert harness.store.state("job-3") is TrialState.QUEUED
    harness.runtime.end("job-2", ReplicaId("main", 0, 1), 1)
    harness.work()
    assert harness.alive() == names(5)


def test_a_further_change_replaces_a_pending_growth():
    harness = ControllerHarness(workers(2), workers(2, 2), cpus=4)
    harness.work()
    harness.scale(main=4)
    harness.scale(main=3)
    assert harness.controller.admission.explain("job-1")[0].startswith("needs 1 CPU more")
    harness.scale(main=2)
    assert harness.controller.admission.explain("job-1") is None
    harness.scale(main=4)
    harness.scale(main=1)
    assert harness.controller.admission.explain("job-1") is None
    assert harness.alive() == names(1) + names(2, uid="job-2")
    assert harness.controller.admission.free().cpus == 1


def test_the_capacity_of_removed_replicas_is_freed_when_they_are_gone():
    harness = ControllerHarness(workers(3), workers(2, 2), cpus=3)
    harness.work()
    harness.runtime.stops_at_once = False
    harness.scale(main=1)
    assert harness.store.state("job-2") is TrialState.QUEUED
    harness.runtime.finish_delete("job-1", ReplicaId("main", 2, 1))
    harness.runtime.tell("job-1")
    harness.work()
    assert harness.status().sizes == {"main": 2}
    assert harness.store.state("job-2") is TrialState.QUEUED
    harness.runtime.finish_delete("job-1", ReplicaId("main", 1, 1))
    harness.runtime.tell("job-1")
    harness.work()
    assert harness.alive() == names(1) + names(2, uid="job-2")


def test_devices_of_running_replicas_do_not_change():
    harness = ControllerHarness(
        workers(1, resources=GPU), workers(2, 2, resources=GPU), cpus=4, devices=4
    )
    harness.work()
    assert harness.status().devices == {"main-0": (0,)}
    harness.scale(main=2)
    assert harness.status().devices == {"main-0": (0,), "main-1": (3,)}
    assert harness.runtime.devices["job-1", ReplicaId("main", 1, 1)] == (3,)
    harness.scale(main=3)
    assert len(harness.alive()) == 4
    harness.scale("job-2", main=1)
    assert harness.status().devices == {"main-0": (0,), "main-1": (3,), "main-2": (2,)}
    assert harness.status("job-2").devices == {"main-0": (1,)}


def test_roles_scale_separately_and_together():
    roles = (Role(executable=NOTHING, name="chief"), Role(executable=NOTHING, name="worker"))
    harness = ControllerHarness(job(1, *roles), cpus=4)
    harness.work()
    harness.scale(chief=2, worker=2)
    assert len(harness.alive()) == 4
    harness.scale(chief=1, worker=3)  # removed replicas free capacity for new ones
    assert harness.alive() == [
        "job-1 chief-0.1", "job-1 worker-0.1", "job-1 worker-1.1", "job-1 worker-2.1",
    ]  # fmt: skip
    assert harness.status().sizes == {"chief": 1, "worker": 3}


def test_a_queued_job_that_is_scaled_requests_its_new_size():
    harness = ControllerHarness(workers(2), workers(2, 2), cpus=3)
    harness.work()
    harness.scale("job-2", main=1)
    assert harness.alive() == names(2) + names(1, uid="job-2")
    assert harness.status("job-2").sizes == {"main": 1}


def test_a_job_admitted_elsewhere_while_scaled_keeps_the_assigned_capacity():
    harness = ControllerHarness(workers(1), workers(2, 2), cpus=2)
    harness.work()
    harness.store.scale("job-2", main=3)
    harness.runtime.end("job-1", ReplicaId("main", 0, 1))
    harness.work()
    assert harness.alive() == names(2, uid="job-2")
    assert harness.status("job-2").sizes == {"main": 2}


def test_a_stop_or_an_end_removes_the_growth_from_the_queue():
    harness = ControllerHarness(workers(2), workers(1, 2), cpus=3)
    harness.work()
    harness.runtime.stops_at_once = False
    harness.scale(main=3)
    assert len(harness.controller.admission) == 1
    harness.store.change("job-1", stop_requested=True)
    harness.controller.wake("job-1")
    harness.work()
    assert len(harness.controller.admission) == 0


# Suspension


@pytest.mark.case(6)
def test_suspension_frees_the_capacity_and_resumption_requests_it_again():
    harness = ControllerHarness(workers(2, active_deadline=100.0), workers(2, 2), cpus=2)
    harness.work()
    harness.run_all()
    began = harness.status().start_time
    harness.clock.advance(60.0)
    harness.work()
    harness.suspend()
    assert harness.store.state("job-1") is TrialState.SUSPENDED
    assert harness.alive() == names(2, uid="job-2")
    assert harness.status().sizes == {}
    harness.clock.advance(1000.0)
    harness.work()
    harness.suspend(suspend=False)
    assert harness.store.state("job-1") is TrialState.QUEUED
    harness.runtime.end("job-2", ReplicaId("main", 0, 1), 1)
    harness.work()
    assert harness.alive() == names(2, attempt=2)
    harness.run_all()
    assert harness.status().start_time == harness.clock.now() > began
    assert harness.status().restarts == 0
    harness.clock.advance(39.0)
    harness.work()
    assert harness.store.state("job-1") is TrialState.RUNNING
    harness.clock.advance(1.0)
    harness.work()
    assert harness.status().condition(ConditionType.FAILED).reason == "DeadlineExceeded"


@pytest.mark.case(6)
def test_a_job_created_suspended_creates_nothing_until_it_is_resumed():
    harness = ControllerHarness(workers(2, suspend=True), cpus=2)
    harness.work()
    assert harness.alive() == []
    assert harness.controller.admission.free().cpus == 2
    harness.suspend(suspend=False)
    assert harness.alive() == names(2)
    harness.suspend()
    assert harness.alive() == []
    harness.suspend(suspend=False)
    assert harness.alive() == names(2, attempt=2)


def test_a_job_scaled_while_suspended_resumes_at_its_new_size():
    harness = ControllerHarness(workers(2), cpus=4)
    harness.work()
    harness.suspend()
    harness.scale(main=4)
    assert harness.alive() == []
    harness.suspend(suspend=False)
    assert sorted(harness.alive()) == [
        "job-1 main-0.2", "job-1 main-1.2", "job-1 main-2.1", "job-1 main-3.1",
    ]  # fmt: skip
    assert harness.status().sizes == {"main": 4}


@pytest.mark.parametrize("change", ["suspend", "scale"])
def test_a_reconcile_with_the_old_spec_overwrites_nothing(change):
    """If the job changes between the reconcile and its save, the reconcile is repeated."""
    harness = ControllerHarness(workers(2), cpus=4)
    harness.work()
    harness.run_all()

    def meanwhile(uid):
        harness.store.before_save = lambda uid: None
        if change == "suspend":
            harness.store.respec(uid, suspend=True)
        else:
            harness.store.scale(uid, main=1)

    harness.store.before_save = meanwhile
    harness.runtime.put("job-1", ReplicaId("main", 1, 1), message="news")
    harness.controller.wake("job-1")
    harness.work()
    assert harness.status().generation == 1
    assert harness.alive() == ([] if change == "suspend" else names(1))


# With job scope


def test_with_job_scope_a_new_size_restarts_all_replicas_uncounted_and_at_once():
    harness = ControllerHarness(workers(2, restart_scope=RestartScope.JOB), workers(1, 2), cpus=4)
    harness.work()
    harness.run_all()
    harness.scale(main=4)
    assert harness.alive() == names(2) + names(1, uid="job-2")  # until there is capacity
    harness.runtime.end("job-2", ReplicaId("main", 0, 1))
    harness.work()
    assert harness.alive() == [
        "job-1 main-0.2", "job-1 main-1.2", "job-1 main-2.1", "job-1 main-3.1",
    ]  # fmt: skip
    assert harness.status().restarts == 0
    sizes = {
        made.spec.roles[0].replicas
        for (uid, replica), made in harness.runtime.made_for.items()
        if (uid, replica) in harness.runtime.alive()
    }
    assert sizes == {4}
    harness.run_all()
    harness.scale(main=1)
    assert harness.alive() == ["job-1 main-0.3"]
    assert harness.runtime.made_for["job-1", ReplicaId("main", 0, 3)].spec.roles[0].replicas == 1


# Addresses


def test_addresses_are_recorded_before_anything_is_created_and_stay():
    harness = ControllerHarness(workers(2), cpus=3)
    on_record = []
    harness.runtime.on_create = lambda uid, replica: on_record.append(harness.status(uid).addresses)
    harness.work()
    first = {"main-0": "127.0.0.1:1001", "main-1": "127.0.0.1:1002"}
    assert on_record == [first, first]
    assert harness.runtime.assignments["job-1", ReplicaId("main", 1, 1)].addresses == first
    for _ in range(3):
        harness.controller.wake("job-1")
        harness.work()
    assert harness.runtime.addresses_asked == ["job-1"]
    harness.begin()
    harness.scale(main=3)
    assert harness.status().addresses == {**first, "main-2": "127.0.0.1:1003"}
    assert harness.runtime.addresses_asked == ["job-1"] * 2
    harness.suspend()
    harness.suspend(suspend=False)
    assert harness.runtime.assignments["job-1", ReplicaId("main", 0, 2)].addresses["main-0"] == (
        "127.0.0.1:1001"
    )
    assert harness.runtime.addresses_asked == ["job-1"] * 2


def test_a_job_that_starts_with_capacity_has_its_addresses_from_the_start():
    harness = ControllerHarness(cpus=2)
    status, _ = harness.controller.prepare(workers(2))
    assert set(status.addresses) == {"main-0", "main-1"}


def test_queued_jobs_and_single_replicas_request_no_addresses():
    harness = ControllerHarness(workers(1), workers(2, 2), job(3, suspend=True, replicas=2), cpus=2)
    harness.work()
    harness.run_all()
    assert harness.runtime.addresses_asked == []


def test_a_single_replica_of_a_framework_has_an_address():
    harness = ControllerHarness(workers(1, framework="torch"))
    harness.work()
    assert harness.status().addresses == {"main-0": "127.0.0.1:1001"}


def test_unavailable_addresses_are_reported_and_requested_again():
    harness = ControllerHarness()
    ask = harness.runtime.addresses

    def fail(job, assigned):
        raise OSError("no free port")

    harness.runtime.addresses = fail
    status, _ = harness.controller.prepare(workers(2))
    assert status.admitted
    harness.store.add(workers(2), status)
    harness.controller.confirm("job-1")
    for _ in range(8):
        harness.work()
        harness.clock.advance(60.0)
    message = "AddressesFailed: finding addresses for the replicas failed: no free port"
    assert harness.store.events["job-1"].count(message) == 2
    assert harness.alive() == []
    harness.runtime.addresses = ask
    harness.work()
    assert harness.alive() == names(2)
    assert set(harness.runtime.assignments["job-1", ReplicaId("main", 0, 1)].addresses) == {
        "main-0",
        "main-1",
    }


def environment_of(harness, name):
    """The framework's environment for the newest attempt of a replica."""
    key = max(key for key in harness.runtime.assignments if str(key[1]).startswith(f"{name}."))
    made, assignment = harness.runtime.made_for[key], harness.runtime.assignments[key]
    members = build_cluster(made.spec, assignment.addresses)
    me = members.member(key[1].role, key[1].index)
    return find_framework(made.spec.framework).environment(members, me)


@pytest.mark.case(12)
def test_a_single_tensorflow_replica_gets_no_config():
    harness = ControllerHarness(workers(1, framework="tensorflow"))
    harness.work()
    assert environment_of(harness, "main-0") == {}


@pytest.mark.case(12)
def test_the_tensorflow_config_is_the_whole_cluster_and_the_same_after_a_restart():
    counts = {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1}
    roles = [
        Role(executable=NOTHING, name=name, replicas=count, restart_policy=ON_FAILURE)
        for name, count in counts.items()
    ]
    harness = ControllerHarness(job(1, *roles, framework="tensorflow"))
    harness.work()
    harness.run_all()
    before = environment_of(harness, "worker-1")["TF_CONFIG"]
    config = json.loads(before)
    assert config["task"] == {"type": "worker", "index": 1}
    assert {name: len(at) for name, at in config["cluster"].items()} == {
        "chief": 1,
        "worker": 2,
        "ps": 2,
    }
    assert len({address for at in config["cluster"].values() for address in at}) == 5
    harness.runtime.end("job-1", ReplicaId("worker", 1, 1), 137)
    harness.work()
    harness.begin()
    harness.clock.advance(1.0)
    harness.work()
    assert ("job-1", ReplicaId("worker", 1, 2)) in harness.runtime.alive()
    assert environment_of(harness, "worker-1")["TF_CONFIG"] == before
    evaluator = json.loads(environment_of(harness, "evaluator-0")["TF_CONFIG"])
    assert evaluator["task"] == {"type": "evaluator", "index": 0}
    assert evaluator["cluster"] == config["cluster"]


# Killed at any point


class _Mortal:
    """A harness whose controller dies at its n-th action."""

    def __init__(self, harness, fatal):
        self.harness, self.left = harness, fatal
        self.save, self.create, self.delete = (
            harness.store.save,
            harness.runtime.create,
            harness.runtime.delete,
        )
        harness.store.save = self.around(self.save)
        harness.runtime.create = self.around(self.create)
        harness.runtime.delete = self.around(self.delete)

    def around(self, act):
        def acted(*arguments, **options):
            self.step()
            answer = act(*arguments, **options)
            self.step()
            return answer

        return acted

    def step(self):
        self.left -= 1
        if self.left == 0:
            raise Killed

    def revive(self):
        harness = self.harness
        harness.store.save, harness.runtime.create, harness.runtime.delete = (
            self.save,
            self.create,
            self.delete,
        )
        harness.begin()
        harness.work()


@pytest.mark.case(10)
@pytest.mark.parametrize("scope", list(RestartScope))
@pytest.mark.parametrize("fatal", range(1, 26))
def test_a_controller_killed_anywhere_while_scaling_repeats_and_loses_nothing(fatal, scope):
    harness = ControllerHarness(workers(3, restart_scope=scope, resources=GPU), cpus=4, devices=4)
    harness.work()
    harness.run_all()
    mortal = _Mortal(harness, fatal)
    for change in ({"main": 1}, {"main": 4}, {"main": 2}):
        try:
            harness.scale(**change)
        except Killed:
            mortal.revive()
    mortal.revive()
    indices = [replica.index for _, replica in harness.runtime.alive()]
    assert sorted(indices) == [0, 1]
    assert set(harness.runtime.starts.values()) == {1}
    assert harness.status().sizes == {"main": 2}
    assert sorted(harness.status().devices) == ["main-0", "main-1"]
    free = harness.controller.admission.free()
    assert len(free.devices) == 2
    held = [index for indexes in harness.status().devices.values() for index in indexes]
    assert sorted([*held, *(device.index for device in free.devices)]) == [0, 1, 2, 3]
    harness.run_all()
    assert harness.store.state("job-1") is TrialState.RUNNING
    assert harness.status().restarts == 0


def test_a_growth_keeps_its_position_after_the_death_of_the_controller():
    harness = ControllerHarness(workers(2), workers(2, 2), workers(2, 3), cpus=4)
    harness.work()
    harness.scale(main=4)
    harness.begin()
    assert harness.controller.admission.explain("job-1") == (
        "needs 2 CPUs more, 0 free; 1st in queue",
        1,
    )
    harness.work()
    harness.runtime.end("job-2", ReplicaId("main", 0, 1), 1)
    harness.work()
    assert harness.alive() == names(4)
    assert harness.store.state("job-3") is TrialState.QUEUED


def test_the_next_controller_finishes_an_interrupted_shrink():
    harness = ControllerHarness(workers(3), workers(2, 2), cpus=3)
    harness.work()
    harness.runtime.stops_at_once = False
    harness.scale(main=1)
    harness.begin()
    harness.work()
    assert harness.store.state("job-2") is TrialState.QUEUED  # two are still stopping
    for index in (1, 2):
        harness.runtime.finish_delete("job-1", ReplicaId("main", index, 1))
    harness.runtime.tell("job-1")
    harness.work()
    assert harness.alive() == names(1) + names(2, uid="job-2")


def test_a_record_without_sizes_means_capacity_for_all_replicas():
    harness = ControllerHarness(workers(2), cpus=4)
    harness.work()
    harness.store.change("job-1", sizes={})
    harness.begin()
    harness.work()
    assert harness.alive() == names(2)
    assert harness.status().sizes == {"main": 2}


def test_a_change_without_new_sizes_writes_nothing():
    harness = ControllerHarness(workers(2), cpus=4)
    harness.work()
    harness.run_all()
    harness.store.respec("job-1", priority=3)
    saves = harness.store.saves["job-1"]
    harness.controller.wake("job-1")
    harness.work()
    assert harness.store.saves["job-1"] == saves


def test_a_failure_during_a_pending_growth_is_handled_as_usual():
    harness = ControllerHarness(workers(2), workers(2, 2), cpus=4)
    harness.work()
    harness.run_all()
    harness.scale(main=4)
    harness.runtime.put("job-1", ReplicaId("main", 0, 1), phase=Phase.FAILED, exit_code=1)
    harness.runtime.tell("job-1")
    harness.work()
    assert harness.store.state("job-1") is TrialState.FAILED
    assert harness.controller.admission.free().cpus == 2
    assert len(harness.controller.admission) == 0
