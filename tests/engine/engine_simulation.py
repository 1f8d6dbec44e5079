"""Builders of jobs, and a world that executes decisions, for the tests of the engine."""

from __future__ import annotations

import msgspec

from windlass.engine.decide import decide
from windlass.engine.decision import Decision
from windlass.engine.sizes import effective_spec
from windlass.model.job import JobSpec, ProcessCall, RestartPolicy, Role
from windlass.model.records import TrialState, derive_state
from windlass.model.status import (
    Condition,
    ConditionType,
    JobStatus,
    Phase,
    Replica,
    ReplicaId,
)

NOTHING = ProcessCall(argv=("true",))


def role(name: str = "worker", replicas: int = 1, **options: object) -> Role:
    return Role(executable=NOTHING, name=name, replicas=replicas, **options)


def job(*roles: Role, **options: object) -> JobSpec:
    return JobSpec(roles=roles or (role("main"),), **options)


class World:
    """A job, a simulated runtime, and a manual clock.

    With `keeps_ended`, ended attempts are reported forever, as local processes are. Without it,
    a deleted replica is gone, as a pod is.
    """

    def __init__(self, spec: JobSpec, *, keeps_ended: bool = True, admitted: bool = True) -> None:
        self.spec = spec
        self.keeps_ended = keeps_ended
        self.status = JobStatus(admitted=admitted)
        self.replicas: dict[ReplicaId, Replica] = {}
        self.now = 1000.0
        self.events: list[str] = []
        self.created: list[ReplicaId] = []
        self.last = Decision(status=self.status)

    # Actions of the job

    def run_all(self) -> None:
        """Run all pending replicas."""
        for replica in list(self.replicas.values()):
            if replica.phase is Phase.PENDING and not replica.deleting:
                self.put(replica.id, phase=Phase.RUNNING, started=self.now)
        self.reconcile()

    def end(self, name: str, exit_code: int | None, **options: object) -> None:
        """End the newest attempt of `role-index` without a reconcile."""
        phase = Phase.SUCCEEDED if exit_code == 0 else Phase.FAILED
        self.put(self.newest(name), phase=phase, exit_code=exit_code, ended=self.now, **options)

    def vanish(self, name: str) -> None:
        del self.replicas[self.newest(name)]

    def put(self, name: ReplicaId, **changes: object) -> None:
        old = self.replicas.get(name, Replica(id=name, phase=Phase.PENDING))
        self.replicas[name] = msgspec.structs.replace(old, **changes)

    def newest(self, name: str) -> ReplicaId:
        role_name, _, index = name.rpartition("-")
        place = (role_name, int(index))
        return max(replica for replica in self.replicas if (replica.role, replica.index) == place)

    # Decisions about the job

    def reconcile(self, after: float = 0.0) -> Decision:
        """Advance the time, decide, and execute the decision."""
        self.now += after
        decision = self.decide()
        self.status = decision.status
        self.apply(decision)
        return decision

    def decide(self) -> Decision:
        self.last = decide(self.present, self.status, self.seen, self.now)
        self.events += [event.reason for event in self.last.events]
        return self.last

    @property
    def present(self) -> JobSpec:
        """The job at its current size: the requested size, limited by its capacity."""
        return effective_spec(self.spec, self.status.sizes)

    @property
    def seen(self) -> list[Replica]:
        return list(self.replicas.values())

    def apply(self, decision: Decision) -> None:
        for replica in decision.delete:
            if replica not in self.replicas:
                continue
            if not self.keeps_ended:
                del self.replicas[replica]
            elif not self.replicas[replica].phase.is_final:
                self.put(
                    replica, phase=Phase.FAILED, exit_code=143, reason="Stopped", ended=self.now
                )
        for replica in decision.create:
            self.created.append(replica)
            self.replicas.setdefault(replica, Replica(id=replica, phase=Phase.PENDING))

    def settle(self, looks: int = 5) -> None:
        """Reconcile until nothing is left to do."""
        for _ in range(looks):
            before = self.status
            if self.reconcile().is_idle and self.status == before:
                return
        raise AssertionError(f"it never comes to rest: {self.last}")

    # State of the job

    @property
    def state(self) -> TrialState:
        return derive_state(self.status)

    def condition(self, kind: ConditionType) -> Condition:
        condition = self.status.condition(kind)
        assert condition is not None, kind
        return condition

    @property
    def failure(self) -> tuple[str, str]:
        condition = self.condition(ConditionType.FAILED)
        assert condition.status
        return condition.reason, condition.message

    @property
    def alive(self) -> list[str]:
        return sorted(str(replica.id) for replica in self.seen if not replica.phase.is_final)


def started(spec: JobSpec, **options: bool) -> World:
    """A world in which every replica of the job runs."""
    world = World(spec, **options)
    world.reconcile()
    world.reconcile()
    world.run_all()
    return world


def with_policy(policy: RestartPolicy, **options: object) -> JobSpec:
    return job(role("main", restart_policy=policy), **options)
