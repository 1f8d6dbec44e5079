"""The environment of the controller, in memory: a manual clock, a store, a runtime."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from windlass.controller.admission import AdmissionQueue
from windlass.controller.controller import Controller
from windlass.model.hardware.resources import Capacity, Device
from windlass.model.job import Assignment, Job, JobSpec, ProcessCall, Role
from windlass.model.records import TrialState, derive_state
from windlass.model.status import JobStatus, Phase, Replica, ReplicaId

NOTHING = ProcessCall(argv=("true",))


def job(number: int = 1, *roles: Role, **options: object) -> Job:
    role_options = {
        name: options.pop(name)
        for name in ("replicas", "resources", "restart_policy")
        if name in options
    }
    roles = roles or (Role(executable=NOTHING, name="main", **role_options),)
    spec = JobSpec(roles=roles, **options)
    return Job(uid=f"job-{number}", trial_id=number, spec=spec)


def until(is_so: Callable[[], bool]) -> None:
    """Wait for the work of other threads, for at most a minute."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.001)


class HandClock:
    """A clock that a test advances by hand."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._lock = threading.Lock()
        self._conditions: set[threading.Condition] = set()

    def now(self) -> float:
        return self._now

    monotonic = now

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        with self._lock:
            self._conditions.add(condition)
        # With a timeout: the clock may have advanced before this condition was registered.
        condition.wait(0.05 if timeout is None or timeout > 0 else 0)

    def advance(self, seconds: float) -> None:
        with self._lock:
            conditions = list(self._conditions)
        for condition in conditions:
            condition.acquire()
        try:
            self._now += seconds
            for condition in conditions:
                condition.notify_all()
        finally:
            for condition in conditions:
                condition.release()


class MemoryStore:
    """Jobs and statuses in memory. It notifies waiting threads about each save."""

    def __init__(self, *jobs: Job) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.jobs: dict[str, Job] = {}
        self.statuses: dict[str, JobStatus] = {}
        self.events: dict[str, list[str]] = {}
        self.replicas: dict[str, tuple[Replica, ...]] = {}
        self.saves: Counter[str] = Counter()
        self.before_save = lambda uid: None
        for job in jobs:
            self.add(job)

    def add(self, new: Job, status: JobStatus | None = None) -> str:
        with self.changed:
            self.jobs[new.uid] = new
            self.statuses[new.uid] = status or JobStatus()
        return new.uid

    def change(self, uid: str, **changes: object) -> None:
        with self.changed:
            self.statuses[uid] = msgspec.structs.replace(self.statuses[uid], **changes)

    def respec(self, uid: str, **changes: object) -> None:
        """Change the spec of a job, as users do. The status changes with it."""
        with self.changed:
            old = self.jobs[uid]
            spec = msgspec.structs.replace(old.spec, **changes)
            self.jobs[uid] = msgspec.structs.replace(old, spec=spec)
            self.change(uid, generation=self.statuses[uid].generation + 1)

    def scale(self, uid: str, **sizes: int) -> None:
        self.respec(
            uid,
            roles=tuple(
                msgspec.structs.replace(role, replicas=sizes.get(role.name, role.replicas))
                for role in self.jobs[uid].spec.roles
            ),
        )

    def load(self, uid):
        with self.changed:
            return (self.jobs[uid], self.statuses[uid]) if uid in self.jobs else None

    def save(self, uid, old, new, events, replicas):
        self.before_save(uid)
        with self.changed:
            if self.statuses[uid] != old:
                return False
            self.statuses[uid] = new
            self.events.setdefault(uid, []).extend(f"{e.reason}: {e.message}" for e in events)
            self.replicas[uid] = tuple(replicas)
            self.saves[uid] += 1
            self.changed.notify_all()
            return True

    def unfinished(self):
        with self.changed:
            return [uid for uid, status in self.statuses.items() if not status.settled]

    def state(self, uid: str) -> TrialState:
        with self.changed:
            return derive_state(self.statuses[uid])


class MemoryRuntime:
    """Replicas in memory, which run and end by calls of the test.

    Ended ones are always reported.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.replicas: dict[tuple[str, ReplicaId], Replica] = {}
        self.devices: dict[tuple[str, ReplicaId], tuple[int, ...]] = {}
        self.starts: Counter[tuple[str, ReplicaId]] = Counter()
        self.most_alive = 0
        self.assignments: dict[tuple[str, ReplicaId], Assignment] = {}
        self.made_for: dict[tuple[str, ReplicaId], Job] = {}
        self.addresses_asked: list[str] = []
        self.last_port = 1000
        self.callbacks: list[object] = []
        self.on_create = lambda uid, replica: None
        self.on_delete = lambda uid, replica: None
        self.stops_at_once = True

    def addresses(self, job, assigned):
        with self.lock:
            self.addresses_asked.append(job.uid)
            names = [
                f"{role.name}-{index}" for role in job.spec.roles for index in range(role.replicas)
            ]
            addresses = dict(assigned)
            for name in names:
                self.last_port += name not in addresses
                addresses.setdefault(name, f"127.0.0.1:{self.last_port}")
            return addresses

    def create(self, job, replica, assignment):
        self.on_create(job.uid, replica)
        with self.lock:
            key = (job.uid, replica)
            if key in self.replicas:
                return
            self.starts[key] += 1
            self.devices[key] = assignment.devices
            self.assignments[key], self.made_for[key] = assignment, job
            self.replicas[key] = Replica(id=replica, phase=Phase.PENDING)
            self.most_alive = max(self.most_alive, len(self.alive()))
        self.tell(job.uid)

    def delete(self, job, replica, grace, *, interrupt=False):
        self.on_delete(job.uid, replica)
        with self.lock:
            observed = self.replicas.get((job.uid, replica))
            if observed is None or observed.phase.is_final:
                return
            self.put(job.uid, replica, deleting=True)
            if self.stops_at_once:
                self.finish_delete(job.uid, replica)
        self.tell(job.uid)

    def finish_delete(self, uid, replica):
        self.put(uid, replica, phase=Phase.FAILED, exit_code=143, reason="Stopped", deleting=False)

    def list(self, job):
        with self.lock:
            return [replica for (uid, _), replica in self.replicas.items() if uid == job.uid]

    def watch(self, callback):
        self.callbacks.append(callback)

    def release(self, job_uid):
        pass

    # The calls of tests

    def tell(self, uid: str) -> None:
        for callback in list(self.callbacks):
            callback(uid)

    def put(self, uid: str, replica: ReplicaId, **changes: object) -> None:
        with self.lock:
            old = self.replicas[uid, replica]
            self.replicas[uid, replica] = msgspec.structs.replace(old, **changes)

    def run(self, uid: str, replica: ReplicaId, now: float = 0.0) -> None:
        self.put(uid, replica, phase=Phase.RUNNING, started=now)
        self.tell(uid)

    def end(self, uid: str, replica: ReplicaId, exit_code: int | None = 0) -> None:
        with self.lock:
            if self.replicas[uid, replica].phase.is_final:
                return
            phase = Phase.SUCCEEDED if exit_code == 0 else Phase.FAILED
            self.put(uid, replica, phase=phase, exit_code=exit_code)
        self.tell(uid)

    def alive(self) -> list[tuple[str, ReplicaId]]:
        with self.lock:
            return [key for key, replica in self.replicas.items() if not replica.phase.is_final]


class Killed(BaseException):
    """The sudden death of a controller."""


class ControllerHarness:
    """A store, a runtime and a controller on one clock, controlled by hand."""

    def __init__(self, *jobs, cpus=None, devices=0):
        self.clock = HandClock()
        self.store = MemoryStore(*jobs)
        self.runtime = MemoryRuntime()
        self.capacity = cpus and Capacity(
            cpus=cpus, memory=0, devices=tuple(Device(index=n, kind="t4") for n in range(devices))
        )
        self.begin()

    def begin(self):
        """Create a new controller, as after the death of the old one."""
        self.runtime.callbacks.clear()
        admission = AdmissionQueue(self.capacity) if self.capacity else None
        self.controller = Controller(self.store, self.runtime, self.clock, admission=admission)
        self.controller.recover()

    def work(self, looks=1000):
        for done in range(looks):
            if not self.controller.work(timeout=0):
                return done
        raise AssertionError("it never comes to rest")

    def status(self, uid="job-1") -> JobStatus:
        return self.store.statuses[uid]

    def alive(self):
        return sorted(f"{uid} {replica}" for uid, replica in self.runtime.alive())

    def run_all(self):
        """Run all created replicas, and reconcile until nothing is left to do."""
        for uid, replica in self.runtime.alive():
            if self.runtime.replicas[uid, replica].phase is Phase.PENDING:
                self.runtime.run(uid, replica, self.clock.now())
        self.work()

    def scale(self, uid="job-1", **sizes):
        self.store.scale(uid, **sizes)
        self.controller.wake(uid)
        self.work()

    def suspend(self, suspend=True, uid="job-1"):
        self.store.respec(uid, suspend=suspend)
        self.controller.wake(uid)
        self.work()
