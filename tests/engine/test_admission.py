from __future__ import annotations

import pytest
from engine_simulation import job, role
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.admission import (
    Allocation,
    Demand,
    FreeCapacity,
    Need,
    WaitingJob,
    admit,
    assign_devices,
    demand_of,
    order_ahead,
)
from windlass.engine.wait_reasons import explain, impossible
from windlass.model.hardware.resources import Accelerator, Capacity, Device, Resources


def gpus(*kinds):
    return tuple(Device(index=n, kind=kind) for n, kind in enumerate(kinds))


def machine(cpus=4.0, memory=0, devices=()):
    return Capacity(cpus=cpus, memory=memory, devices=devices)


def wants(key, cpus=1.0, memory=0, gpus=0, kind="gpu", **options):
    needs = (Need("main", 0, kind, gpus),) if gpus else ()
    return WaitingJob(key=key, demand=Demand(round(cpus * 1000), memory, needs), **options)


def runs(waiting, *devices):
    devices_by_role = {("main", 0): devices} if devices else {}
    return Allocation(
        key=waiting.key, demand=waiting.demand, order=waiting.order, devices=devices_by_role
    )


def in_order(*waiting):
    return sorted(waiting, key=lambda job: job.order)


def admitted(waiting, running, capacity):
    return [job.key for job in admit(waiting, running, capacity).admitted]


def test_all_replicas_of_a_job_are_admitted_together_or_none():
    spec = job(role("a", 2), role("b", 3, resources=Resources(cpus=0.5)))
    demand = demand_of(spec)
    assert demand.millicpus == 3500
    big = WaitingJob(key="big", demand=demand)
    assert admitted([big], [], machine(cpus=3.4)) == []
    assert admitted([big], [], machine(cpus=3.5)) == ["big"]


def test_jobs_are_admitted_in_order_of_arrival():
    jobs = in_order(wants("b", created=2), wants("a", created=1), wants("c", created=3))
    assert admitted(jobs, [], machine(cpus=2)) == ["a", "b"]


def test_priority_comes_before_age():
    jobs = in_order(wants("old", created=1), wants("urgent", created=2, priority=5))
    assert admitted(jobs, [], machine(cpus=1)) == ["urgent"]


def test_tenths_of_a_cpu_add_up_exactly():
    jobs = [wants(str(n), cpus=0.1, created=n) for n in range(11)]
    assert len(admitted(jobs, [], machine(cpus=1))) == 10


def test_memory_counts_if_it_is_requested():
    jobs = in_order(wants("a", memory=6, created=1), wants("b", memory=6, created=2))
    assert admitted(jobs, [], machine(memory=10)) == ["a"]
    assert admitted([wants("c")], [], machine(memory=0)) == ["c"]


def test_a_small_job_does_not_pass_one_it_would_delay():
    running = [runs(wants("x", cpus=3))]
    jobs = in_order(wants("big", cpus=4, created=1), wants("small", cpus=1, created=2))
    assert admitted(jobs, running, machine(cpus=4)) == []


def test_a_small_job_passes_a_big_one_it_does_not_delay():
    running = [runs(wants("x", cpus=2))]
    jobs = in_order(wants("big", cpus=3, created=1), wants("small", cpus=1, created=2))
    assert admitted(jobs, running, machine(cpus=4)) == ["small"]


def test_jobs_that_passed_before_are_remembered():
    small = wants("small", cpus=1, created=2)
    running = [runs(wants("x", cpus=2)), runs(small)]
    jobs = in_order(wants("big", cpus=3, created=1), wants("tiny", cpus=1, created=3))
    assert admitted(jobs, running, machine(cpus=4)) == []


def test_a_job_waiting_for_gpus_does_not_block_one_without_gpus():
    capacity = machine(cpus=4, devices=gpus("a100", "a100"))
    running = [runs(wants("x", cpus=0, gpus=2, created=0), 0, 1)]
    jobs = in_order(
        wants("gpu", gpus=2, created=1), *(wants(f"cpu-{n}", created=2) for n in "abcd")
    )
    assert admitted(jobs, running, capacity) == ["cpu-a", "cpu-b", "cpu-c"]


def test_gpus_reserved_for_the_head_are_not_given_to_others():
    capacity = machine(cpus=8, devices=gpus("a100", "a100", "a100"))
    running = [runs(wants("x", gpus=2, created=0), 0, 1)]
    jobs = in_order(wants("head", gpus=3, created=1), wants("other", gpus=1, created=2))
    assert admitted(jobs, running, capacity) == []
    jobs = in_order(wants("head", gpus=2, created=1), wants("other", gpus=1, created=2))
    assert admitted(jobs, running, capacity) == ["other"]


def test_a_job_too_big_for_the_machine_blocks_no_other_job():
    jobs = in_order(wants("monster", cpus=99, created=1), wants("small", created=2))
    assert admitted(jobs, [], machine(cpus=4)) == ["small"]


def test_devices_are_assigned_by_kind_and_never_twice():
    capacity = machine(devices=gpus("t4", "a100-80gb", "a100"))
    jobs = in_order(
        wants("a", gpus=1, kind="a100", created=1),
        wants("b", gpus=1, kind="a100", created=2),
        wants("c", gpus=1, kind="gpu", created=3),
    )
    given_devices = [job.devices["main", 0] for job in admit(jobs, [], capacity).admitted]
    assert given_devices == [(2,), (1,), (0,)]


def test_a_replica_that_needs_a_certain_device_chooses_before_one_that_takes_any():
    needs = [Need("a", 0, "gpu", 1), Need("b", 0, "t4", 1)]
    devices = {device.index: device for device in gpus("t4", "a100")}
    assert assign_devices(needs, devices) == {("a", 0): (1,), ("b", 0): (0,)}


def test_a_machine_smaller_than_its_running_jobs_admits_no_job():
    running = [runs(wants("x", cpus=8))]
    assert admitted([wants("a", cpus=0.1)], running, machine(cpus=4)) == []


def test_equal_jobs_behind_a_refused_one_are_skipped():
    numbers = []

    def line():
        for number in range(100_000):
            numbers.append(number)
            yield wants(str(number), created=number)

    admit(line(), [], machine(cpus=2), shapes=1)
    assert len(numbers) == 3


DEMANDS = st.builds(
    wants,
    key=st.just(""),
    cpus=st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0]),
    memory=st.sampled_from([0, 5, 10]),
    gpus=st.integers(0, 2),
    kind=st.sampled_from(["gpu", "a100", "t4"]),
)


@given(
    demands=st.lists(DEMANDS, max_size=12),
    priorities=st.lists(st.integers(0, 2), min_size=12, max_size=12),
    split=st.integers(0, 12),
)
def test_no_missing_capacity_is_assigned_and_the_head_waits_for_no_later_job(
    demands, priorities, split
):
    capacity = machine(cpus=4, memory=20, devices=gpus("a100", "t4", "a100"))
    jobs = [
        WaitingJob(key=str(n), demand=demand.demand, priority=priority, created=n)
        for n, (demand, priority) in enumerate(zip(demands, priorities, strict=False))
    ]
    running = list(admit(in_order(*jobs[:split]), [], capacity).admitted)
    taken = {job.key for job in running}
    waiting = in_order(*(job for job in jobs if job.key not in taken))
    shapes = len({job.demand for job in waiting})
    result = admit(waiting, running, capacity, shapes=shapes)
    assert result == admit(waiting, running, capacity)
    everyone = running + list(result.admitted)
    assert sum(job.demand.millicpus for job in everyone) <= 4000
    assert sum(job.demand.memory for job in everyone) <= 20
    devices = [index for job in everyone for some in job.devices.values() for index in some]
    assert len(set(devices)) == len(devices)
    let_in = {job.key for job in result.admitted}
    refused = [job for job in waiting if job.key not in let_in]
    heads = [job for job in refused if FreeCapacity(capacity).assign(job.demand) is not None]
    if heads:
        passed = [job for job in result.admitted if job.order > heads[0].order]
        before = [job for job in running if job.order > heads[0].order]
        if passed:
            assert FreeCapacity(capacity, before + passed).assign(heads[0].demand) is not None


# Explanations


@pytest.mark.parametrize(
    ("waiting", "position", "text"),
    [
        (wants("a", gpus=4), 3, "needs 4 GPUs, 2 free; 3rd in queue"),
        (wants("a", gpus=3, kind="t4"), 1, "needs 3 GPUs (t4), 1 free; 1st in queue"),
        (wants("a", cpus=2), 1, "needs 2 CPUs, 0.5 free; 1st in queue"),
        (wants("a", cpus=1), 2, "needs 1 CPU, 0.5 free; 2nd in queue"),
        (wants("a", cpus=0.5, memory=8 * 10**9), 1,
         "needs 8.0 GB of memory, 6.0 GB free; 1st in queue"),
        (wants("a", cpus=0.5), 1, "about to start; 1st in queue"),
        (wants("a", cpus=0.5), 4, "would fit, but must not delay the 3 ahead; 4th in queue"),
        (wants("a", cpus=9), 2, "needs 9 CPUs; there are 4; 2nd in queue"),
    ],
)  # fmt: skip
def test_a_queued_job_names_its_reason_and_its_position(waiting, position, text):
    devices = gpus("t4", "a100", "t4", "t4")
    capacity = machine(cpus=4, memory=10**10, devices=devices)
    running = [runs(wants("x", cpus=3.5, memory=4 * 10**9, gpus=2), 0, 2)]
    if waiting.demand.accelerators:
        capacity = machine(cpus=9, memory=10**10, devices=devices)
    assert explain(waiting.demand, position, running, capacity) == text


def needing(replicas=1, accelerator=None, **resources):
    demand = Resources(accelerator=accelerator, **resources)
    return job(role("worker", replicas, resources=demand))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (needing(cpus=2), None),
        (needing(cpus=16), "needs 16 CPUs on one machine; there are 2"),
        (needing(replicas=4), "needs 4 CPUs for its 4 replicas; there are 2"),
        (
            needing(memory=64 * 10**9),
            "needs 64.0 GB of memory on one machine; there is 8.0 GB",
        ),
        (
            needing(accelerator=Accelerator(kind="a100", count=2)),
            "needs 2 GPUs (a100) on one machine; there are 0",
        ),
        (needing(accelerator=Accelerator(kind="t4")), None),
        (
            needing(cpus=4, accelerator=Accelerator(kind="gpu", count=2)),
            "needs 2 GPUs on one machine; there is 1; needs 4 CPUs on one machine; there are 2",
        ),
        (
            needing(replicas=2, cpus=0.1, accelerator=Accelerator(kind="t4")),
            "needs 2 GPUs (t4) for its 2 replicas; there is 1",
        ),
    ],
)
def test_a_job_that_can_never_fit_is_refused_with_a_reason(spec, reason):
    assert impossible(spec, machine(cpus=2, memory=8 * 10**9, devices=gpus("t4"))) == reason


@given(data=st.data())
def test_a_job_can_always_be_moved_right_ahead_of_another(data: st.DataObject) -> None:
    """After any number of moves, the job is right ahead of the other, and no other moves."""
    line = [
        (-priority, float(number), (), str(number))
        for number, priority in enumerate((5, 5, 0, 0, 0, 0))
    ]
    line.sort()
    for _ in range(data.draw(st.integers(1, 30))):
        moved, target = data.draw(st.permutations(line))[:2]
        rest = [key for key in line if key != moved]
        at = rest.index(target)
        priority, age, moves = order_ahead(target, rest[at - 1] if at else None, int(moved[3]))
        new = (-priority, age, moves, moved[3])
        line = sorted([*rest, new])
        assert line == [*rest[:at], new, *rest[at:]]
