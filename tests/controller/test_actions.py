from __future__ import annotations

from controller_doubles import ControllerHarness, job

from windlass.model.job import RestartPolicy
from windlass.model.records import TrialState
from windlass.model.status import ReplicaId
from windlass.runtimes.base import NameHeld

FIRST, OTHER = ReplicaId("main", 0, 1), ReplicaId("main", 1, 1)


def reported_failures(harness):
    return [line for line in harness.store.events["job-1"] if line.startswith("CreateFailed")]


def test_a_controller_stopped_during_a_reconcile_creates_nothing_more():
    """A controller that lost its lease must not act, because another controller already does."""
    harness = ControllerHarness(job(replicas=100))

    def stop(uid, replica):
        if replica.index == 1:
            harness.controller.stop()

    harness.runtime.on_create = stop
    assert harness.work() == 1
    assert harness.alive() == ["job-1 main-0.1", "job-1 main-1.1"]
    assert reported_failures(harness) == []
    # The next controller executes the recorded actions once.
    harness.begin()
    harness.work()
    assert len(harness.alive()) == 100
    assert set(harness.runtime.starts.values()) == {1}


def test_a_controller_stopped_during_a_reconcile_deletes_nothing_more():
    harness = ControllerHarness(job(replicas=3))
    harness.work()
    harness.runtime.on_delete = lambda uid, replica: harness.controller.stop()
    harness.store.change("job-1", stop_requested=True)
    harness.controller.wake("job-1")
    harness.work()
    assert len(harness.alive()) == 2
    harness.begin()
    harness.runtime.on_delete = lambda uid, replica: None
    harness.work()
    assert harness.alive() == []
    assert harness.store.state("job-1") is TrialState.STOPPED


def lagging(harness):
    """Hide deletes from the view of a runtime, and return the requested ones."""
    replicas = []
    harness.runtime.delete = lambda uid, replica, grace, **how: replicas.append(replica)
    return replicas


def test_no_decision_is_based_on_a_lagging_view():
    harness = ControllerHarness(job(replicas=2))
    harness.work()
    harness.run_all()
    replicas = lagging(harness)
    harness.scale(main=1)
    harness.store.change("job-1", stop_requested=True)
    harness.controller.wake("job-1")
    harness.work()
    assert replicas == [OTHER]
    harness.runtime.put("job-1", OTHER, deleting=True)
    harness.runtime.tell("job-1")
    harness.work()
    assert FIRST in replicas


def test_an_unobserved_delete_is_requested_again_after_five_minutes():
    harness = ControllerHarness(job(replicas=2))
    harness.work()
    harness.run_all()
    replicas = lagging(harness)
    harness.scale(main=1)
    harness.clock.advance(299.0)
    harness.work()
    assert replicas == [OTHER]
    harness.clock.advance(1.0)
    harness.work()
    assert replicas == [OTHER, OTHER]


def test_a_replica_created_and_lost_within_one_reconcile_is_recreated_at_once():
    """Reconciling a large job takes long, and another client deletes its first pod meanwhile."""
    harness = ControllerHarness(job(replicas=2))

    def vanish(uid, replica):
        if replica == OTHER:
            harness.runtime.on_create = lambda uid, replica: None
            del harness.runtime.replicas["job-1", FIRST]

    harness.runtime.on_create = vanish
    harness.work()
    assert harness.alive() == ["job-1 main-0.1", "job-1 main-1.1"]
    assert harness.runtime.starts["job-1", FIRST] == 2


def test_a_job_is_suspended_although_a_replica_vanished_within_one_reconcile():
    harness = ControllerHarness(job(replicas=2))

    def vanish(uid, replica):
        if replica == OTHER:
            del harness.runtime.replicas["job-1", FIRST]
            harness.store.respec("job-1", suspend=True)

    harness.runtime.on_create = vanish
    harness.work()
    assert harness.store.state("job-1") is TrialState.SUSPENDED
    assert harness.alive() == []


def test_a_failed_create_is_reported_and_retried():
    harness = ControllerHarness(job())

    def fail(uid, replica):
        raise OSError("no space left on device")

    harness.runtime.on_create = fail
    for _ in range(8):
        harness.work()
        harness.clock.advance(60.0)
    message = "CreateFailed: starting main-0 attempt 1 failed: no space left on device"
    assert reported_failures(harness) == [message] * 2
    assert not harness.status().is_finished
    harness.runtime.on_create = lambda uid, replica: None
    harness.work()
    assert harness.alive() == ["job-1 main-0.1"]


def test_a_replica_that_cannot_be_created_does_not_block_others():
    harness = ControllerHarness(job(replicas=3))

    def fail(uid, replica):
        if replica.index == 0:
            raise OSError("no")

    harness.runtime.on_create = fail
    harness.work()
    harness.clock.advance(0.005)
    harness.work()
    assert harness.alive() == ["job-1 main-1.1", "job-1 main-2.1"]


def test_after_a_failed_create_the_reconcile_tries_no_other():
    """A webhook that is down takes ten seconds to fail, for each of two hundred replicas."""
    harness = ControllerHarness(job(replicas=200))
    indexes = []

    def fail(uid, replica):
        indexes.append(replica.index)
        raise ConnectionError("the webhook did not answer")

    harness.runtime.on_create = fail
    harness.work()
    assert indexes == [0]
    # The next reconcile tries another replica, and a stop does not wait for replicas that were
    # never requested.
    harness.clock.advance(0.005)
    harness.work()
    assert indexes == [0, 1]
    harness.store.change("job-1", stop_requested=True)
    harness.controller.wake("job-1")
    harness.work()
    assert harness.store.state("job-1") is TrialState.STOPPED


def test_a_problem_of_every_replica_is_reported_once_with_one_name():
    harness = ControllerHarness(job(replicas=200))

    def fail(uid, replica):
        raise ConnectionError("the webhook did not answer")

    harness.runtime.on_create = fail
    for _ in range(20):
        harness.work()
        harness.clock.advance(60.0)
    assert reported_failures(harness) == [
        "CreateFailed: starting main-0 attempt 1 failed: the webhook did not answer",
        "CreateFailed: starting main-4 attempt 1 failed: the webhook did not answer",
    ]


def test_a_failure_that_names_its_replica_is_reported_once_per_reconcile():
    harness = ControllerHarness(job(replicas=3))

    def fail(uid, replica):
        raise OSError(f"the quota has no room for {replica.index}")

    harness.runtime.on_create = fail
    harness.work()
    assert len(reported_failures(harness)) == 1
    harness.clock.advance(0.005)
    harness.work()
    assert len(reported_failures(harness)) == 2


def test_a_failure_that_returns_after_a_success_is_reported_again():
    harness = ControllerHarness(job(restart_policy=RestartPolicy.ON_FAILURE))

    def fail(uid, replica):
        raise OSError("no space left on device")

    harness.runtime.on_create = fail
    harness.work()
    harness.runtime.on_create = lambda uid, replica: None
    harness.clock.advance(1.0)
    harness.work()
    harness.runtime.end("job-1", FIRST, 1)
    harness.runtime.on_create = fail
    harness.work()
    harness.clock.advance(1.0)
    harness.work()
    assert len(reported_failures(harness)) == 2


def test_an_attempt_that_waits_for_its_name_does_not_block_others():
    harness = ControllerHarness(job(replicas=3))

    def held(uid, replica):
        if replica.index == 0:
            raise NameHeld("what was there before is on its way out")

    harness.runtime.on_create = held
    harness.work()
    assert harness.alive() == ["job-1 main-1.1", "job-1 main-2.1"]


def test_an_attempt_with_a_taken_name_is_retried_on_notification_only():
    harness = ControllerHarness(job())
    replicas = []

    def held(uid, replica):
        replicas.append(replica)
        if len(replicas) == 1:
            raise NameHeld("what was there before is on its way out")

    harness.runtime.on_create = held
    harness.work()
    harness.clock.advance(14.0)
    harness.work()
    assert replicas == [FIRST]
    harness.controller.wake("job-1")
    harness.work()
    assert replicas == [FIRST, FIRST]
    assert harness.alive() == ["job-1 main-0.1"]
    assert reported_failures(harness) == []


def test_a_name_taken_by_an_invisible_object_is_retried_after_a_pause():
    harness = ControllerHarness(job())
    replicas = []

    def held(uid, replica):
        replicas.append(replica)
        if len(replicas) < 3:
            raise NameHeld("something of another's is on its way out", is_notified=False)

    harness.runtime.on_create = held
    harness.work()
    assert replicas == [FIRST]
    for _ in range(2):
        harness.clock.advance(0.02)
        harness.work()
    assert replicas == [FIRST] * 3
    assert harness.alive() == ["job-1 main-0.1"]
    assert reported_failures(harness) == []
