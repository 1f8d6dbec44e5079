"""Random histories of the parts of the controller: queue, expectations, admission."""

from __future__ import annotations

from controller_doubles import NOTHING, HandClock
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from windlass.controller.admission import AdmissionQueue
from windlass.controller.expectations import PATIENCE, Expectations
from windlass.controller.queue import FIRST_RETRY, LONGEST_RETRY, WorkQueue
from windlass.model.hardware.resources import Accelerator, Capacity, Device, Resources
from windlass.model.job import JobSpec, Role
from windlass.model.status import Phase, Replica, ReplicaId

KEYS = st.sampled_from("abcd")


class Queues(RuleBasedStateMachine):
    """A work queue beside a model of pending, active and delayed keys."""

    def __init__(self):
        super().__init__()
        self.clock = HandClock()
        self.queue = WorkQueue(self.clock)
        self.wanted: list[str] = []  # in the order in which they became ready
        self.again: set[str] = set()  # to be repeated when their work is done
        self.working: set[str] = set()
        self.due: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    def want(self, key):
        if key in self.working:
            self.again.add(key)
        elif key not in self.wanted:
            self.wanted.append(key)

    def delay(self, key, seconds):
        due = self.clock.now() + seconds
        self.due[key] = min(self.due.get(key, due), due)

    @rule(key=KEYS)
    def add(self, key):
        self.queue.add(key)
        self.want(key)

    @rule(key=KEYS, seconds=st.sampled_from([0.0, 0.01, 1.0, 5.0, 60.0]))
    def add_after(self, key, seconds):
        self.queue.add_after(key, seconds)
        if seconds:
            self.delay(key, seconds)
        else:
            self.want(key)

    @rule(key=KEYS)
    def fail(self, key):
        self.queue.add_rate_limited(key)
        failures = self.failures.get(key, 0)
        self.failures[key] = failures + 1
        self.delay(key, min(FIRST_RETRY * 2.0**failures, LONGEST_RETRY))

    @rule(key=KEYS)
    def succeed(self, key):
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(key=KEYS)
    def cancel(self, key):
        self.queue.cancel(key)
        self.due.pop(key, None)

    @rule(seconds=st.sampled_from([0.004, 0.02, 1.0, 30.0]))
    def wait(self, seconds):
        self.clock.advance(seconds)
        len(self.queue)  # a `get` fires due timers
        for key, due in sorted(self.due.items(), key=lambda entry: (entry[1], entry[0])):
            if due <= self.clock.now():
                del self.due[key]
                self.want(key)

    @rule()
    def get(self):
        key = self.queue.get(timeout=0)
        assert key == (self.wanted.pop(0) if self.wanted else None)
        if key is not None:
            assert key not in self.working, "two work on one key"
            self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data):
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(key)
        self.working.remove(key)
        if key in self.again:
            self.again.remove(key)
            self.wanted.append(key)

    @invariant()
    def no_key_is_lost_or_invented(self):
        assert len(self.queue) == len(self.wanted)
        assert self.queue.is_quiet == (not self.wanted and not self.working)


NAMES = st.builds(ReplicaId, st.just("worker"), st.integers(0, 2), st.integers(1, 2))
VIEWS = st.dictionaries(
    NAMES, st.tuples(st.sampled_from(list(Phase)), st.booleans()), max_size=4
).map(
    lambda seen: [
        Replica(id=name, phase=phase, deleting=deleting) for name, (phase, deleting) in seen.items()
    ]
)


class Expecting(RuleBasedStateMachine):
    """The expectations of one job beside a model: all kinds are met, or five minutes pass."""

    def __init__(self):
        super().__init__()
        self.expectations = Expectations()
        self.now = 0.0
        self.creates: set[ReplicaId] = set()
        self.deletes: set[ReplicaId] = set()
        self.until = 0.0

    @rule(creates=st.sets(NAMES, max_size=3), deletes=st.sets(NAMES, max_size=3))
    def expect(self, creates, deletes):
        self.expectations.expect("job", creates=creates, deletes=deletes, now=self.now)
        if creates or deletes:
            self.creates |= creates
            self.deletes |= deletes
            self.until = self.now + PATIENCE

    @rule(name=NAMES)
    def created(self, name):
        self.expectations.created("job", name)
        self.creates.discard(name)

    @rule(name=NAMES)
    def withdraw(self, name):
        self.expectations.withdraw("job", name)
        self.creates.discard(name)
        self.deletes.discard(name)

    @rule()
    def forget(self):
        self.expectations.forget("job")
        self.creates, self.deletes = set(), set()

    @rule(seconds=st.sampled_from([0.0, 1.0, 150.0, 300.0]), view=VIEWS)
    def look(self, seconds, view):
        self.now += seconds
        for replica in view:
            self.creates.discard(replica.id)
        lives = {
            replica.id for replica in view if not replica.phase.is_final and not replica.deleting
        }
        self.deletes &= lives
        wait = self.expectations.outstanding("job", view, self.now)
        is_met = not self.creates and not self.deletes
        if is_met or self.now >= self.until:
            assert wait == 0.0
            self.creates, self.deletes = set(), set()
        else:
            assert wait == self.until - self.now
        assert self.expectations.outstanding("other", view, self.now) == 0.0


SIZES_BY_ROLE = st.fixed_dictionaries({"chief": st.integers(0, 1), "worker": st.integers(0, 5)})
MACHINE = Capacity(cpus=6, memory=0, devices=tuple(Device(index=n, kind="t4") for n in range(4)))


def spec_of(sizes, gpus):
    accelerator = Accelerator(kind="t4") if gpus else None
    chief, worker = Resources(cpus=0.5), Resources(cpus=1, accelerator=accelerator)
    return JobSpec(
        roles=(
            Role(executable=NOTHING, name="chief", replicas=sizes["chief"], resources=chief),
            Role(executable=NOTHING, name="worker", replicas=sizes["worker"], resources=worker),
        )
    )


class Admissions(RuleBasedStateMachine):
    """Jobs that come, grow, shrink and leave, beside a model of their capacity."""

    def __init__(self):
        super().__init__()
        self.queue = AdmissionQueue(MACHINE)
        self.specs: dict[str, JobSpec] = {}
        self.has: dict[str, dict[str, int]] = {}
        self.devices: dict[str, dict] = {}

    def created(self, key):
        return "abcd".index(key)

    @rule(key=KEYS, sizes=SIZES_BY_ROLE, gpus=st.booleans())
    def ask(self, key, sizes, gpus):
        """A job arrives or requests another size. The needs of a replica stay the same."""
        if key in self.specs:
            gpus = self.specs[key].roles[1].resources.accelerator is not None
        self.specs[key] = spec_of(sizes, gpus)
        self.queue.submit(key, self.specs[key], priority=0, created=self.created(key))

    @rule()
    def let_in(self):
        before = {key: self.queue.explain(key) for key in self.specs}
        for key in self.queue.admit_waiting():
            assert before[key] is not None, "it was let in and had not waited"
            sizes = {role.name: role.replicas for role in self.specs[key].roles}
            has = self.has.get(key, {})
            self.has[key] = {name: max(size, has.get(name, 0)) for name, size in sizes.items()}
            devices = self.queue.devices(key)
            for place, assigned in self.devices.get(key, {}).items():
                assert devices[place] == assigned, "a replica that runs got other devices"
            self.devices[key] = devices

    @rule(key=KEYS)
    def shrink(self, key):
        """The surplus replicas of a smaller job are gone."""
        if key not in self.has:
            return
        most = {role.name: role.replicas for role in self.specs[key].roles}
        self.queue.shrink(key, self.specs[key], most)
        self.has[key] = {name: min(size, most[name]) for name, size in self.has[key].items()}
        self.devices[key] = self.queue.devices(key)

    @rule(key=KEYS)
    def leave(self, key):
        self.queue.release(key)
        for memory in (self.specs, self.has, self.devices):
            memory.pop(key, None)

    @rule()
    def die(self):
        """Start another process, which knows only the records."""
        self.queue = AdmissionQueue(MACHINE)
        for key, spec in self.specs.items():
            if key in self.has:
                gpus = spec.roles[1].resources.accelerator is not None
                held = spec_of(self.has[key], gpus)
                self.queue.restore(key, held, 0, self.created(key), self.devices[key])
            self.queue.submit(key, spec, 0, self.created(key))

    @invariant()
    def each_job_has_its_capacity_and_waits_for_the_rest(self):
        for key in "abcd":
            room = self.queue.allocation_of(key)
            assert (room.sizes if room else None) == self.has.get(key)
            asks = key in self.specs and (
                key not in self.has
                or any(role.replicas > self.has[key][role.name] for role in self.specs[key].roles)
            )
            assert self.queue.is_waiting(key) == asks
            assert (self.queue.explain(key) is not None) == asks

    @invariant()
    def no_capacity_is_assigned_twice(self):
        used = sum(has["chief"] * 0.5 + has["worker"] for has in self.has.values())
        assert used <= MACHINE.cpus
        assert self.queue.free().cpus == MACHINE.cpus - used
        indexes = [
            index for device in self.devices.values() for some in device.values() for index in some
        ]
        assert len(indexes) == len(set(indexes))
        free = {device.index for device in self.queue.free().devices}
        assert free == {0, 1, 2, 3} - set(indexes)
        for key, has in self.has.items():
            wants = self.specs[key].roles[1].resources.accelerator is not None
            places = {("worker", index) for index in range(has["worker"])} if wants else set()
            assert set(self.devices[key]) == places

    @invariant()
    def the_first_job_that_fits_is_admitted(self):
        """The first job that still waits after a pass does not fit into the free capacity."""
        self.let_in()
        for key in sorted(self.specs, key=self.created):
            waits = self.queue.explain(key)
            if waits is None:
                continue
            assert "about to" not in waits[0]
            if waits[1] == 1:
                assert waits[0].startswith("needs"), waits


TestQueues = Queues.TestCase
TestExpecting = Expecting.TestCase
TestAdmissions = Admissions.TestCase
TestQueues.settings = TestExpecting.settings = TestAdmissions.settings = settings(
    stateful_step_count=30, derandomize=True
)
