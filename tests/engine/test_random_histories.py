"""Random histories: the invariants of a job hold after any sequence of events."""

from __future__ import annotations

import copy

import msgspec
import pytest
from engine_simulation import World, job, role
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from windlass.engine.decide import decide
from windlass.engine.restart_policy import Verdict, exit_verdict
from windlass.engine.sizes import effective_spec, sizes_left, sizes_of
from windlass.model.job import CleanPolicy, RestartPolicy, RestartScope, SuccessPolicy
from windlass.model.status import ConditionType, Phase, ReplicaId

ROLES = ("chief", "worker", "ps")
EXIT_CODES = st.sampled_from([0, 0, 1, 127, 128, 137, 143, 255, None])
PICK = st.integers(0, 1_000)

SPECS = st.builds(
    lambda sizes, policies, service, framework, **options: job(
        *(
            role(name, size, restart_policy=policy, service=name == "ps" and service)
            for name, size, policy in zip(ROLES, sizes, policies, strict=True)
        ),
        framework=framework,
        **options,
    ),
    sizes=st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(0, 2)),
    policies=st.tuples(*[st.sampled_from(list(RestartPolicy))] * 3),
    service=st.booleans(),
    framework=st.sampled_from(["", "tensorflow", "torch"]),
    restart_scope=st.sampled_from(list(RestartScope)),
    backoff_limit=st.integers(0, 4),
    active_deadline=st.sampled_from([None, 50.0, 2000.0]),
    ttl_after_finished=st.sampled_from([None, 0.0, 30.0]),
    clean_policy=st.sampled_from(list(CleanPolicy)),
    success_policy=st.sampled_from(list(SuccessPolicy)),
    backend=st.sampled_from(["local", "kubernetes"]),
)


class Histories(RuleBasedStateMachine):
    """A job with any events, under a controller that may die at any point."""

    @initialize(spec=SPECS, keeps_ended=st.booleans(), admitted=st.booleans())
    def begin(self, spec, keeps_ended, admitted):
        self.world = World(spec, keeps_ended=keeps_ended, admitted=False)
        if admitted:
            self.give_room()
        self.slow_deletes = False
        self.before = self.world.status
        self.started_as = {}  # the sizes of the groups that attempts were started in

    # Actions of the controller

    @rule(after=st.sampled_from([0.0, 0.5, 1.0, 30.0, 700.0]))
    def reconcile(self, after):
        self.world.now += after
        decision = self.judged()
        self.world.status = decision.status
        for replica in decision.create:
            self.started_as[replica] = sizes_of(self.world.present)
        self.carry_out(decision)

    @rule()
    def die_between_save_and_create(self):
        self.world.status = self.judged().status

    @rule()
    def die_between_create_and_save(self):
        self.carry_out(self.judged())

    def judged(self):
        world = self.world
        decision = decide(world.present, world.status, world.seen, world.now)
        again = decide(world.present, world.status, list(reversed(world.seen)), world.now)
        assert decision == again, "a decision depends on the order of reports"
        self.check_idempotence(decision)
        self.check_the_cause(decision.status)
        assert len(set(decision.create)) == len(decision.create)
        assert len(set(decision.delete)) == len(decision.delete)
        for replica in decision.create:
            assert replica.index < world.status.sizes[replica.role], "it has no room"
            assert world.status.admitted
            assert not world.spec.suspend
            assert not world.status.stop_requested
            assert replica not in world.replicas, "it was created twice"
            for other in world.seen:
                if (other.id.role, other.id.index) == (replica.role, replica.index):
                    assert other.phase.is_final, "its place is still taken"
                    assert not other.deleting, "its place is still taken"
        for replica in decision.delete:
            assert not world.replicas[replica].deleting, "it was asked to stop already"
        if decision.requeue_after is not None:
            assert decision.requeue_after > 0
        return decision

    def check_idempotence(self, decision):
        """A stored decision that was not executed is requested again, without anything else."""
        world = self.world
        spec = effective_spec(world.spec, decision.status.sizes)
        twice = decide(spec, decision.status, world.seen, world.now)
        assert twice.status == decision.status
        assert twice.create == decision.create
        lives = lambda replica_id: not world.replicas[replica_id].phase.is_final  # noqa: E731
        assert sorted(filter(lives, twice.delete)) == sorted(filter(lives, decision.delete))
        assert not {event.reason for event in twice.events} - {"ReplicaStopping"}

    def check_the_cause(self, after):
        """No permanent failure is earlier than the one that is named as the cause."""
        world, failed = self.world, after.condition(ConditionType.FAILED)
        if world.status.is_finished or failed is None or failed.reason != "ReplicaFailed":
            return
        blamed = world.replicas[after.decisive]
        assert blamed.phase is Phase.FAILED
        histories = {(replica.role, replica.index): replica for replica in after.replicas}
        for candidate in world.seen:
            history = histories.get((candidate.id.role, candidate.id.index))
            is_judged = (
                history is not None
                and history.attempt == candidate.id.attempt
                and history.not_before is None
                and history.phase is Phase.FAILED
                and candidate.reason != "Stopped"
                and candidate.ended is not None
            )
            policy = world.spec.role(candidate.id.role).restart_policy
            if is_judged and exit_verdict(policy, candidate.exit_code) is Verdict.FAILED:
                assert candidate.ended >= blamed.ended, "another one failed before"

    def carry_out(self, decision):
        if not self.slow_deletes:
            self.world.apply(decision)
            return
        for replica in decision.delete:
            if not self.world.keeps_ended or not self.world.replicas[replica].phase.is_final:
                self.world.put(replica, deleting=True)
        self.world.apply(msgspec.structs.replace(decision, delete=()))

    # Events of the runtime

    def pick(self, number, accept):
        accepted = [replica for replica in self.world.seen if accept(replica)]
        return accepted[number % len(accepted)].id if accepted else None

    @rule(number=PICK)
    def one_runs(self, number):
        if name := self.pick(number, lambda replica: replica.phase is Phase.PENDING):
            self.world.put(name, phase=Phase.RUNNING, started=self.world.now)

    @rule()
    def all_run(self):
        for replica in self.world.seen:
            if replica.phase is Phase.PENDING:
                self.world.put(replica.id, phase=Phase.RUNNING, started=self.world.now)

    @rule(number=PICK, exit_code=EXIT_CODES)
    def one_ends(self, number, exit_code):
        if name := self.pick(
            number, lambda replica: not replica.phase.is_final and not replica.deleting
        ):
            phase = Phase.SUCCEEDED if exit_code == 0 else Phase.FAILED
            self.world.put(name, phase=phase, exit_code=exit_code, ended=self.world.now)

    @rule(number=PICK)
    def one_cannot_be_told_of(self, number):
        if name := self.pick(number, lambda replica: replica.phase is Phase.RUNNING):
            self.world.put(name, phase=Phase.UNKNOWN)

    @rule(number=PICK)
    def one_vanishes(self, number):
        if not self.world.keeps_ended and (name := self.pick(number, lambda _: True)):
            del self.world.replicas[name]

    @rule(number=PICK)
    def one_is_deleted_by_hand(self, number):
        accept = lambda replica: not replica.phase.is_final  # noqa: E731
        if not self.world.keeps_ended and (name := self.pick(number, accept)):
            self.world.put(name, deleting=True)

    @rule(number=PICK)
    def one_is_doubled(self, number):
        if name := self.pick(number, lambda replica: replica.phase is Phase.RUNNING):
            twin = ReplicaId(name.role, name.index, name.attempt + 1)
            if twin not in self.world.replicas:
                self.world.put(twin, phase=Phase.RUNNING, started=self.world.now)

    @rule(slow=st.booleans())
    def deletes_take_time(self, slow):
        self.slow_deletes = slow

    @rule()
    def deletes_come_true(self):
        finish_deletes(self.world)

    # Actions of users

    @rule()
    def suspend_or_resume(self):
        world = self.world
        world.spec = msgspec.structs.replace(world.spec, suspend=not world.spec.suspend)

    @rule(size=st.integers(0, 4))
    def scale(self, size):
        roles = tuple(
            msgspec.structs.replace(role, replicas=size) if role.name == "worker" else role
            for role in self.world.spec.roles
        )
        self.world.spec = msgspec.structs.replace(self.world.spec, roles=roles)
        generation = self.world.status.generation + 1
        self.world.status = msgspec.structs.replace(self.world.status, generation=generation)
        self.before = msgspec.structs.replace(self.before, generation=generation)

    # Actions of the admission queue

    @precondition(lambda self: not self.world.status.is_finished)
    @rule()
    def give_room(self):
        """Admit the job, or let it grow to its requested size."""
        has, requested = self.world.status.sizes, sizes_of(self.world.spec)
        sizes = {name: max(size, has.get(name, 0)) for name, size in requested.items()}
        self.world.status = msgspec.structs.replace(self.world.status, admitted=True, sizes=sizes)

    @precondition(lambda self: not self.world.status.is_finished)
    @rule()
    def take_room_back(self):
        world = self.world
        if world.status.admitted:
            sizes = sizes_left(world.spec, world.status.sizes, world.seen)
            world.status = msgspec.structs.replace(world.status, sizes=sizes)

    @precondition(lambda self: not self.world.status.is_finished)
    @rule(number=st.integers(0, 3))
    def stop_now_and_then(self, number):
        if number == 0:
            self.world.status = msgspec.structs.replace(self.world.status, stop_requested=True)

    # Invariants

    @invariant()
    def conditions_agree(self):
        status = self.world.status
        running, restarting = ConditionType.RUNNING, ConditionType.RESTARTING
        succeeded, failed = ConditionType.SUCCEEDED, ConditionType.FAILED
        assert not (status.holds(running) and status.holds(restarting))
        assert not (status.holds(succeeded) and status.holds(failed))
        if status.is_finished:
            assert not status.holds(running)
            assert not status.holds(restarting)
            assert status.completion_time is not None
        if status.holds(running):
            assert status.start_time is not None

    @invariant()
    def the_decisive_attempt_is_known_exactly_when_there_was_one(self):
        status = self.world.status
        end = status.condition(ConditionType.SUCCEEDED) or status.condition(ConditionType.FAILED)
        by_attempts = ("Completed", "ReplicaFailed", "BackoffLimitExceeded")
        assert (status.decisive is not None) == (end is not None and end.reason in by_attempts)

    @invariant()
    def restarts_are_counted_and_limited(self):
        status = self.world.status
        assert status.restarts <= self.world.spec.backoff_limit
        assert status.restarts == sum(replica.restarts for replica in status.replicas)

    @invariant()
    def conditions_never_go_back_in_time(self):
        old, new = self.before, self.world.status
        for kind in ConditionType:
            was, now_is = old.condition(kind), new.condition(kind)
            if was is None:
                continue
            assert now_is is not None
            assert now_is.last_update >= was.last_update
            assert now_is.last_transition >= was.last_transition
            if (was.status, was.reason) == (now_is.status, now_is.reason):
                assert was == now_is
            if was.status == now_is.status:
                assert was.last_transition == now_is.last_transition
        attempts = {(replica.role, replica.index): replica.attempt for replica in new.replicas}
        for old_replica in old.replicas:
            assert attempts.get((old_replica.role, old_replica.index), 0) >= old_replica.attempt
        assert new.restarts >= old.restarts
        if old.is_finished:
            changed = msgspec.structs.replace(new, settled=old.settled)
            assert changed == old, "a finished job changed"
            assert new.settled >= old.settled
        self.before = new

    @invariant()
    def without_further_events_the_job_settles(self):
        world = copy.copy(self.world)
        world.replicas = dict(world.replicas)
        for _ in range(8):
            finish_deletes(world)
            before = world.status
            decision = world.reconcile()
            if decision.is_idle and world.status == before:
                break
            if world.keeps_ended and world.status.is_finished and not decision.create:
                ended = [world.replicas[replica].phase.is_final for replica in decision.delete]
                if all(ended) and world.status == before:
                    break  # ended replicas that are always reported are always deleted
        else:
            raise AssertionError(f"it never comes to rest: {decision}")
        if world.status.is_finished and world.spec.clean_policy is CleanPolicy.NONE:
            return
        if not world.status.admitted and not world.status.is_finished:
            return
        self.check_that_all_replicas_have_the_current_size(world)
        places = [
            (replica.id.role, replica.id.index)
            for replica in world.seen
            if not replica.phase.is_final
        ]
        assert len(set(places)) == len(places), "two attempts of one replica live"
        wanted = sizes_of(world.present)
        assert all(index < wanted[name] for name, index in places), "a stray lives"

    def check_that_all_replicas_have_the_current_size(self, world):
        if world.spec.restart_scope is RestartScope.REPLICA or world.status.is_finished:
            return
        for replica in world.seen:
            if not replica.phase.is_final and replica.id in self.started_as:
                assert self.started_as[replica.id] == sizes_of(world.present)


def finish_deletes(world):
    for replica in world.seen:
        if replica.deleting and world.keeps_ended:
            phase = replica.phase if replica.phase.is_final else Phase.FAILED
            world.put(replica.id, phase=phase, deleting=False, reason="Stopped", exit_code=143)
        elif replica.deleting:
            del world.replicas[replica.id]


TestHistories = pytest.mark.case(14)(Histories.TestCase)
TestHistories.settings = settings(stateful_step_count=40, derandomize=True)
