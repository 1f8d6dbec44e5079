from __future__ import annotations

from controller_doubles import Place, job

from windlass.model.job import RestartPolicy
from windlass.model.records import TrialState
from windlass.model.status import ReplicaId
from windlass.runtimes.protocol import NameHeld

FIRST, OTHER = ReplicaId("main", 0, 1), ReplicaId("main", 1, 1)


def failures_told(place):
    return [each for each in place.store.events["job-1"] if each.startswith("CreateFailed")]


def test_a_controller_stopped_in_the_middle_of_a_look_makes_no_more():
    """Who has lost a lease must not act: another does by now."""
    place = Place(job(replicas=100))

    def stop(uid, replica):
        if replica.index == 1:
            place.controller.stop()

    place.runtime.on_create = stop
    assert place.work() == 1
    assert place.alive() == ["job-1 main-0.1", "job-1 main-1.1"]
    assert failures_told(place) == []
    # What it had on record is done by the next, once.
    place.begin()
    place.work()
    assert len(place.alive()) == 100
    assert set(place.runtime.starts.values()) == {1}


def test_a_controller_stopped_in_the_middle_of_a_look_deletes_no_more():
    place = Place(job(replicas=3))
    place.work()
    place.runtime.on_delete = lambda uid, replica: place.controller.stop()
    place.store.change("job-1", stop_requested=True)
    place.controller.wake("job-1")
    place.work()
    assert len(place.alive()) == 2
    place.begin()
    place.runtime.on_delete = lambda uid, replica: None
    place.work()
    assert place.alive() == []
    assert place.store.state("job-1") is TrialState.STOPPED


def lagging(place):
    """Have deletes of a runtime not show in its view; which were asked for."""
    asked = []
    place.runtime.delete = lambda uid, replica, grace: asked.append(replica)
    return asked


def test_no_decision_is_made_on_a_view_that_lags_behind():
    place = Place(job(replicas=2))
    place.work()
    place.run_all()
    asked = lagging(place)
    place.scale(main=1)
    place.store.change("job-1", stop_requested=True)
    place.controller.wake("job-1")
    place.work()
    assert asked == [OTHER]
    place.runtime.put("job-1", OTHER, deleting=True)
    place.runtime.tell("job-1")
    place.work()
    assert FIRST in asked


def test_a_delete_that_is_never_seen_is_asked_for_again_after_five_minutes():
    place = Place(job(replicas=2))
    place.work()
    place.run_all()
    asked = lagging(place)
    place.scale(main=1)
    place.clock.advance(299.0)
    place.work()
    assert asked == [OTHER]
    place.clock.advance(1.0)
    place.work()
    assert asked == [OTHER, OTHER]


def test_a_replica_made_and_gone_again_within_one_look_is_made_anew_at_once():
    """A look at a large job takes long, and somebody deletes its first pod meanwhile."""
    place = Place(job(replicas=2))

    def vanish(uid, replica):
        if replica == OTHER:
            place.runtime.on_create = lambda uid, replica: None
            del place.runtime.replicas["job-1", FIRST]

    place.runtime.on_create = vanish
    place.work()
    assert place.alive() == ["job-1 main-0.1", "job-1 main-1.1"]
    assert place.runtime.starts["job-1", FIRST] == 2


def test_a_job_is_suspended_though_a_replica_was_gone_again_within_one_look():
    place = Place(job(replicas=2))

    def vanish(uid, replica):
        if replica == OTHER:
            del place.runtime.replicas["job-1", FIRST]
            place.store.respec("job-1", suspend=True)

    place.runtime.on_create = vanish
    place.work()
    assert place.store.state("job-1") is TrialState.SUSPENDED
    assert place.alive() == []


def test_a_create_that_fails_is_told_and_tried_again():
    place = Place(job())

    def fail(uid, replica):
        raise OSError("no space left on device")

    place.runtime.on_create = fail
    for _ in range(8):
        place.work()
        place.clock.advance(60.0)
    told = "CreateFailed: starting main-0 attempt 1 failed: no space left on device"
    assert failures_told(place) == [told] * 2
    assert not place.status().is_finished
    place.runtime.on_create = lambda uid, replica: None
    place.work()
    assert place.alive() == ["job-1 main-0.1"]


def test_one_replica_that_cannot_be_created_does_not_keep_the_others_from_it():
    place = Place(job(replicas=3))

    def fail(uid, replica):
        if replica.index == 0:
            raise OSError("no")

    place.runtime.on_create = fail
    place.work()
    place.clock.advance(0.005)
    place.work()
    assert place.alive() == ["job-1 main-1.1", "job-1 main-2.1"]


def test_after_a_create_that_failed_no_other_is_tried_in_that_look_and_nobody_waits_for_them():
    """A webhook that is down takes ten seconds to say so, of each of two hundred replicas."""
    place = Place(job(replicas=200))
    asked = []

    def fail(uid, replica):
        asked.append(replica.index)
        raise ConnectionError("the webhook did not answer")

    place.runtime.on_create = fail
    place.work()
    assert asked == [0]
    # The next look is another's turn, and a stop is not held up by what was never asked for.
    place.clock.advance(0.005)
    place.work()
    assert asked == [0, 1]
    place.store.change("job-1", stop_requested=True)
    place.controller.wake("job-1")
    place.work()
    assert place.store.state("job-1") is TrialState.STOPPED


def test_what_keeps_every_replica_from_starting_is_told_with_a_name_and_not_for_each():
    place = Place(job(replicas=200))

    def fail(uid, replica):
        raise ConnectionError("the webhook did not answer")

    place.runtime.on_create = fail
    for _ in range(20):
        place.work()
        place.clock.advance(60.0)
    assert failures_told(place) == [
        "CreateFailed: starting main-0 attempt 1 failed: the webhook did not answer",
        "CreateFailed: starting main-4 attempt 1 failed: the webhook did not answer",
    ]


def test_a_failure_that_names_its_replica_is_told_once_in_a_look():
    place = Place(job(replicas=3))

    def fail(uid, replica):
        raise OSError(f"the quota has no room for {replica.index}")

    place.runtime.on_create = fail
    place.work()
    assert len(failures_told(place)) == 1
    place.clock.advance(0.005)
    place.work()
    assert len(failures_told(place)) == 2


def test_a_failure_that_comes_back_after_all_went_well_is_told_again():
    place = Place(job(restart_policy=RestartPolicy.ON_FAILURE))

    def fail(uid, replica):
        raise OSError("no space left on device")

    place.runtime.on_create = fail
    place.work()
    place.runtime.on_create = lambda uid, replica: None
    place.clock.advance(1.0)
    place.work()
    place.runtime.end("job-1", FIRST, 1)
    place.runtime.on_create = fail
    place.work()
    place.clock.advance(1.0)
    place.work()
    assert len(failures_told(place)) == 2


def test_an_attempt_that_waits_for_its_name_does_not_keep_the_others_from_being_tried():
    place = Place(job(replicas=3))

    def held(uid, replica):
        if replica.index == 0:
            raise NameHeld("what was there before is on its way out")

    place.runtime.on_create = held
    place.work()
    assert place.alive() == ["job-1 main-1.1", "job-1 main-2.1"]


def test_an_attempt_whose_name_is_held_is_asked_for_again_when_that_is_told_and_not_before():
    place = Place(job())
    asked = []

    def held(uid, replica):
        asked.append(replica)
        if len(asked) == 1:
            raise NameHeld("what was there before is on its way out")

    place.runtime.on_create = held
    place.work()
    place.clock.advance(14.0)
    place.work()
    assert asked == [FIRST]
    place.controller.wake("job-1")
    place.work()
    assert asked == [FIRST, FIRST]
    assert place.alive() == ["job-1 main-0.1"]
    assert failures_told(place) == []


def test_a_name_held_by_what_is_not_seen_is_asked_for_again_after_a_pause():
    place = Place(job())
    asked = []

    def held(uid, replica):
        asked.append(replica)
        if len(asked) < 3:
            raise NameHeld("something of another's is on its way out", is_told=False)

    place.runtime.on_create = held
    place.work()
    assert asked == [FIRST]
    for _ in range(2):
        place.clock.advance(0.02)
        place.work()
    assert asked == [FIRST] * 3
    assert place.alive() == ["job-1 main-0.1"]
    assert failures_told(place) == []
