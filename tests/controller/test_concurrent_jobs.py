"""Many jobs at once on real threads, with controllers that die at any moment."""

from __future__ import annotations

import queue as queues
import random
import threading
from collections import Counter

import pytest
from controller_doubles import HandClock, Killed, MemoryRuntime, MemoryStore, job, until

from windlass.controller.admission import AdmissionQueue
from windlass.controller.controller import Controller
from windlass.model.hardware.resources import Capacity
from windlass.model.job import RestartPolicy
from windlass.model.records import TrialState


class GuardedController(Controller):
    """A controller that detects two concurrent reconciles of one job."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.guards: dict[str, threading.Lock] = {}
        self.overlaps: list[str] = []
        self.looks: Counter[str] = Counter()

    def reconcile(self, uid):
        guard = self.guards.setdefault(uid, threading.Lock())
        if not guard.acquire(blocking=False):
            self.overlaps.append(uid)
            return True
        try:
            self.looks[uid] += 1
            return super().reconcile(uid)
        finally:
            guard.release()


def plan(number):
    """The exits of the attempts of a job, and its correct end."""
    kind = number % 5
    if kind == 0:
        return [1], TrialState.FAILED
    if kind == 1:
        return [137, 0], TrialState.SUCCEEDED
    if kind == 2:
        return [137, 143, 137], TrialState.FAILED
    return [0], TrialState.SUCCEEDED


def crowd(count, **options):
    return [
        job(number, restart_policy=RestartPolicy.EXIT_CODE, backoff_limit=2, **options)
        for number in range(1, count + 1)
    ]


def live_out(runtime, uid, replica):
    """Run an attempt and end it according to the plan of its job."""
    runtime.run(uid, replica)
    codes, _ = plan(int(uid.removeprefix("job-")))
    runtime.end(uid, replica, codes[min(replica.attempt, len(codes)) - 1])


def check_ends(store, runtime):
    for uid in store.jobs:
        codes, state = plan(int(uid.removeprefix("job-")))
        assert store.state(uid) is state, uid
        assert store.statuses[uid].restarts == len(codes) - 1, uid
        assert store.statuses[uid].settled, uid
    assert set(runtime.starts.values()) == {1}
    assert runtime.alive() == []


@pytest.mark.case(13)
@pytest.mark.parametrize("cpus", [None, 8], ids=["no limit", "8 CPUs"])
def test_five_hundred_concurrent_jobs_end_correctly(cpus):
    store, runtime, clock = MemoryStore(*crowd(500)), MemoryRuntime(), HandClock()
    admission = AdmissionQueue(Capacity(cpus=cpus, memory=0)) if cpus else None
    begun: queues.SimpleQueue = queues.SimpleQueue()
    runtime.on_create = lambda uid, replica: begun.put((uid, replica))
    controller = GuardedController(store, runtime, clock, admission=admission, workers=4)

    def live():
        while (begun_replica := begun.get()) is not None:
            # The notification arrives before the record: some processes are that fast.
            until(lambda begun_replica=begun_replica: begun_replica in runtime.replicas)
            live_out(runtime, *begun_replica)

    lives = [threading.Thread(target=live) for _ in range(3)]
    for thread in lives:
        thread.start()
    controller.start()
    with store.changed:
        for _ in range(1000):
            store.changed.wait_for(lambda: not store.unfinished(), timeout=0.02)
            if not store.unfinished():
                break
            clock.advance(1.0)
    controller.stop(60)
    for _ in lives:
        begun.put(None)
    for thread in lives:
        thread.join(60)
    assert controller.overlaps == []
    check_ends(store, runtime)
    if cpus:
        assert runtime.most_alive <= cpus
        assert len(admission) == 0


def test_a_thousand_queued_jobs_do_not_start_a_thousand_processes():
    store, runtime = MemoryStore(*crowd(1000)), MemoryRuntime()
    admission = AdmissionQueue(Capacity(cpus=2, memory=0))
    controller = GuardedController(store, runtime, HandClock(), admission=admission)
    controller.recover()
    while controller.work(timeout=0):
        pass
    assert len(runtime.alive()) == 2
    assert len(admission) == 998
    assert sum(controller.looks.values()) <= 1100
    assert admission.explain("job-1000")[1] == 998


@pytest.mark.case(10)
@pytest.mark.parametrize("seed", range(8))
def test_controllers_killed_at_any_moment_lose_and_repeat_nothing(seed):
    chance = random.Random(seed)
    store, runtime, clock = MemoryStore(*crowd(20, replicas=1)), MemoryRuntime(), HandClock()

    def perhaps_die(*_):
        if chance.random() < 0.15:
            raise Killed

    store.before_save = runtime.on_create = runtime.on_delete = perhaps_die
    create, save = runtime.create, store.save

    def create_and_perhaps_die(job, replica, assignment):
        create(job, replica, assignment)
        perhaps_die()

    def save_and_perhaps_die(*arguments):
        saved = save(*arguments)
        perhaps_die()
        return saved

    runtime.create, store.save = create_and_perhaps_die, save_and_perhaps_die
    controllers = 0
    while store.unfinished() and controllers < 1000:
        runtime.callbacks.clear()
        admission = AdmissionQueue(Capacity(cpus=4, memory=0))
        controller = Controller(store, runtime, clock, admission=admission)
        controller.recover()
        controllers += 1
        try:
            while store.unfinished() and clock.now() < 100_000:
                if not controller.work(timeout=0):
                    clock.advance(1.0)
                for uid, replica in runtime.alive():
                    if chance.random() < 0.5:
                        live_out(runtime, uid, replica)
        except Killed:
            continue
    assert controllers > 1
    assert runtime.most_alive <= 4
    check_ends(store, runtime)
