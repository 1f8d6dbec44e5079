from __future__ import annotations

import threading

from controller_doubles import job

from windlass.controller.admission import AdmissionQueue
from windlass.model.hardware.resources import Accelerator, Capacity, Device, Resources

MACHINE = Capacity(cpus=2, memory=0, devices=tuple(Device(index=n, kind="t4") for n in range(2)))


def submit(queue, number, priority=0, **options):
    made = job(number, **options)
    queue.submit(made.uid, made.spec, priority, number)
    return made.uid


def test_jobs_start_as_capacity_becomes_free():
    queue = AdmissionQueue(MACHINE)
    for number in range(5):
        submit(queue, number)
    assert queue.admit_waiting() == ["job-0", "job-1"]
    assert queue.admit_waiting() == []
    assert len(queue) == 3
    queue.release("job-1")
    assert queue.admit_waiting() == ["job-2"]
    assert queue.is_admitted("job-2")


def test_submitting_again_changes_nothing():
    queue = AdmissionQueue(MACHINE)
    submit(queue, 1, replicas=2)
    submit(queue, 2)
    assert queue.admit_waiting() == ["job-1"]
    submit(queue, 1, replicas=2)
    submit(queue, 2)
    assert queue.admit_waiting() == []
    assert len(queue) == 1


def test_a_queued_job_can_change_its_priority():
    queue = AdmissionQueue(Capacity(cpus=1, memory=0))
    for number in range(3):
        submit(queue, number)
    assert queue.admit_waiting() == ["job-0"]
    submit(queue, 2, priority=1)
    queue.release("job-0")
    assert queue.admit_waiting() == ["job-2"]


def test_a_job_that_ran_before_the_head_came_has_not_passed_it():
    queue = AdmissionQueue(Capacity(cpus=4, memory=0))
    submit(queue, 1, replicas=2)
    assert queue.admit_waiting() == ["job-1"]
    submit(queue, 2, priority=1, replicas=3)
    assert queue.admit_waiting() == []
    # The head waits for job 1 in any case. It fits beside one more CPU, but not beside two.
    submit(queue, 3)
    submit(queue, 4)
    assert queue.admit_waiting() == ["job-3"]
    queue.release("job-1")
    assert queue.admit_waiting() == ["job-2"]
    assert not queue.is_admitted("job-4")


def test_the_next_process_remembers_jobs_that_passed_the_head():
    queue = AdmissionQueue(Capacity(cpus=4, memory=0))
    submit(queue, 1, replicas=3)
    for number, cpus in (0, 2), (2, 1):  # job 2 has passed job 1, which waits for job 0
        ran = job(number, replicas=cpus)
        queue.restore(ran.uid, ran.spec, 0, number, {})
    submit(queue, 3)
    assert queue.admit_waiting() == []


def test_a_job_that_stops_waiting_leaves_the_queue():
    queue = AdmissionQueue(Capacity(cpus=1, memory=0))
    for number in range(4):
        submit(queue, number)
    queue.admit_waiting()
    assert queue.explain("job-3") == ("needs 1 CPU, 0 free; 3rd in queue", 3)
    queue.release("job-1")
    assert queue.explain("job-3") == ("needs 1 CPU, 0 free; 2nd in queue", 2)
    assert queue.explain("job-1") is None
    assert queue.explain("job-0") is None


def test_devices_are_held_until_released():
    queue = AdmissionQueue(MACHINE)
    wanted = Resources(cpus=0.1, accelerator=Accelerator(kind="t4"))
    for number in range(3):
        submit(queue, number, resources=wanted)
    assert queue.admit_waiting() == ["job-0", "job-1"]
    assert queue.devices("job-0") == {("main", 0): (0,)}
    assert queue.devices("job-1") == {("main", 0): (1,)}
    queue.release("job-0")
    assert queue.admit_waiting() == ["job-2"]
    assert queue.devices("job-2") == {("main", 0): (0,)}
    assert queue.devices("job-0") == {}


def test_an_already_running_job_keeps_its_devices():
    queue = AdmissionQueue(MACHINE)
    wanted = Resources(cpus=0.1, accelerator=Accelerator(kind="t4"))
    old = job(7, resources=wanted)
    queue.restore(old.uid, old.spec, 0, 7, {("main", 0): (0,)})
    submit(queue, 8, resources=wanted)
    assert queue.admit_waiting() == ["job-8"]
    assert queue.devices("job-8") == {("main", 0): (1,)}
    assert queue.devices("job-7") == {("main", 0): (0,)}


def test_two_thousand_jobs_pass_through_in_order():
    queue = AdmissionQueue(MACHINE)
    for number in range(2000):
        submit(queue, number)
    done, running = [], queue.admit_waiting()
    while running:
        uid = running.pop(0)
        done.append(uid)
        queue.release(uid)
        running += queue.admit_waiting()
    assert done == [f"job-{number}" for number in range(2000)]


def test_no_capacity_is_assigned_twice_with_many_threads():
    queue = AdmissionQueue(MACHINE)
    admitted, lock = [], threading.Lock()

    def work(start):
        for number in range(start, start + 50):
            submit(queue, number)
            while True:
                for uid in queue.admit_waiting():
                    with lock:
                        admitted.append(uid)
                    queue.release(uid)
                if not queue.explain(f"job-{number}"):
                    break

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(admitted) == len(set(admitted)) == 200


def test_no_capacity_is_assigned_twice_to_growing_and_shrinking_jobs():
    queue = AdmissionQueue(Capacity(cpus=8, memory=0))
    lock, used, most, trouble = threading.Lock(), [0], [0], []

    def account(change):
        with lock:
            used[0] += change
            most[0] = max(most[0], used[0])

    def pass_until(is_so):
        while not is_so():
            queue.admit_waiting()

    def work(number):
        uid = f"job-{number}"
        for _ in range(40):
            submit(queue, number, replicas=1)
            pass_until(lambda: queue.is_admitted(uid))
            account(1)
            submit(queue, number, replicas=3)
            pass_until(lambda: queue.allocation_of(uid).sizes["main"] == 3)
            account(2)
            if queue.is_waiting(uid):
                trouble.append(uid)
            account(-2)
            queue.shrink(uid, job(number, replicas=1).spec, {"main": 1})
            account(-1)
            queue.release(uid)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert trouble == []
    assert most[0] <= 8
    assert queue.free().cpus == 8
