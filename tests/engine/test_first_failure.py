"""First failures: a failed job names the replica that failed first."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from engine_simulation import World, job, role, started

from windlass.model.job import RestartPolicy, RestartScope
from windlass.model.records import TrialState
from windlass.model.status import GIVEN_UP, ConditionType, Phase, ReplicaId

ON_FAILURE, EXIT_CODE = RestartPolicy.ON_FAILURE, RestartPolicy.EXIT_CODE


def end_at(world, name, time, exit_code=1, **options):
    world.end(name, exit_code, **options)
    world.put(world.newest(name), ended=time)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_first_of_several_failures_is_the_cause(order):
    world = started(job(role("worker", 3)))
    for moment, index in enumerate(order):
        end_at(world, f"worker-{index}", 2000.0 + moment, exit_code=index + 1)
    world.reconcile()
    first = order[0]
    message = f"worker-{first} (attempt 1) failed with exit code {first + 1}"
    assert world.failure == ("ReplicaFailed", message)
    assert world.status.decisive == ReplicaId("worker", first, 1)


def test_failures_at_equal_or_unknown_times_are_ordered_as_declared():
    world = World(job(role("b", 2), role("a", 2)))
    world.reconcile()
    for name in ("a-1", "a-0", "b-1"):
        end_at(world, name, 2000.0)
    end_at(world, "b-0", None)
    assert world.reconcile().status.decisive == ReplicaId("b", 1, 1)
    world = World(job(role("b", 2), role("a", 2)))
    world.reconcile()
    for name in ("a-0", "b-1"):
        end_at(world, name, None)
    assert world.reconcile().status.decisive == ReplicaId("b", 1, 1)


@pytest.mark.parametrize("reason", ["Stopped", GIVEN_UP])
def test_a_replica_stopped_by_windlass_is_not_the_cause(reason):
    world = started(job(role("worker", 2)))
    end_at(world, "worker-0", 2000.0, 143, reason=reason)
    end_at(world, "worker-1", 2001.0, 1)
    assert world.reconcile().status.decisive == ReplicaId("worker", 1, 1)


def test_the_cause_is_undecided_while_another_dead_replica_has_not_reported():
    world = started(job(role("worker", 2)))
    world.now = 2000.0
    end_at(world, "worker-0", 2000.0)
    world.put(world.newest("worker-1"), ended=2000.0)  # its program; its children take longer
    assert world.reconcile().is_idle
    assert not world.status.is_finished
    end_at(world, "worker-1", 1999.9, 41)
    assert world.reconcile().status.decisive == ReplicaId("worker", 1, 1)


@pytest.mark.parametrize("scope", list(RestartScope))
@pytest.mark.parametrize("limit", [0, 6])
def test_a_restart_is_caused_by_the_first_failure_even_if_reported_later(scope, limit):
    spec = job(
        role("worker", 2, restart_policy=ON_FAILURE), restart_scope=scope, backoff_limit=limit
    )
    world = started(spec)
    world.now = 2000.0
    end_at(world, "worker-0", 2000.0)
    world.put(world.newest("worker-1"), ended=2000.0)
    world.reconcile()
    is_alone = scope is RestartScope.REPLICA and limit > 0  # it affects no other replica
    assert world.status.restarts == int(is_alone)
    assert not world.status.is_finished
    end_at(world, "worker-1", 1999.9, 41)
    world.reconcile()
    if limit == 0:
        assert world.status.decisive == ReplicaId("worker", 1, 1)
    elif is_alone:
        assert world.status.restarts == 2
    else:
        assert world.status.restarts == 1
        restarting = world.status.condition(ConditionType.RESTARTING)
        assert "worker-1 (attempt 1) failed with exit code 41" in restarting.message


def test_the_wait_for_the_report_of_another_failure_is_limited():
    world = started(job(role("worker", 2)))
    world.now = 2000.0
    end_at(world, "worker-0", 2000.0)
    world.put(world.newest("worker-1"), ended=2000.0)
    world.reconcile()
    world.now = 2020.0
    assert world.reconcile().status.decisive == ReplicaId("worker", 0, 1)


def test_with_job_scope_the_first_failure_causes_the_restart():
    spec = job(role("worker", 3, restart_policy=ON_FAILURE), restart_scope=RestartScope.JOB)
    world = started(spec)
    end_at(world, "worker-0", 2000.2, 1)
    end_at(world, "worker-1", 2000.1, 1)
    end_at(world, "worker-2", 2000.0, 137, reason="Signal")
    world.reconcile()
    message = world.condition(ConditionType.RESTARTING).message
    assert message == ("worker-2 (attempt 1) was killed by SIGKILL (exit code 137); restart 1 of 6")
    assert [replica.restarts for replica in world.status.replicas] == [0, 0, 1]


@pytest.mark.parametrize("together", [True, False])
def test_with_job_scope_a_peer_failure_after_a_retryable_one_does_not_fail_the_job(together):
    """The result must not depend on whether both ends are observed together."""
    spec = job(role("worker", 2, restart_policy=EXIT_CODE), restart_scope=RestartScope.JOB)
    world = started(spec)
    end_at(world, "worker-1", 2000.0, 137, reason="Signal")
    if not together:
        decision = world.decide()
        world.status = decision.status
    end_at(world, "worker-0", 2000.1, 1)
    world.reconcile()
    assert world.state is TrialState.RESTARTING
    world.reconcile(after=1)
    assert world.alive == ["worker-0.2", "worker-1.2"]


@pytest.mark.parametrize("ends", [(2000.0, 2000.0), (None, 2000.0)])
def test_a_possible_consequence_of_a_retryable_failure_does_not_fail_the_job(ends):
    """Pods report their ends in whole seconds, and a lost pod reports no end."""
    retryable, for_good = ends
    spec = job(role("worker", 2, restart_policy=EXIT_CODE), restart_scope=RestartScope.JOB)
    world = started(spec)
    end_at(world, "worker-0", retryable, 137)
    end_at(world, "worker-1", for_good, 1)
    world.reconcile()
    assert world.state is TrialState.RESTARTING
    world.reconcile(after=1)
    assert world.alive == ["worker-0.2", "worker-1.2"]


@pytest.mark.parametrize("ends", [(2000.1, 2000.0), (2000.0, None)])
def test_otherwise_a_permanent_failure_comes_before_a_restart(ends):
    retryable, for_good = ends
    spec = job(role("worker", 2, restart_policy=EXIT_CODE), restart_scope=RestartScope.JOB)
    world = started(spec)
    end_at(world, "worker-0", retryable, 137)
    end_at(world, "worker-1", for_good, 1)
    world.reconcile()
    assert world.state is TrialState.FAILED
    assert world.status.decisive == ReplicaId("worker", 1, 1)


@pytest.mark.parametrize("clock", [0.0, -500.0, 500.0])
def test_with_job_scope_the_engine_waits_briefly_for_reports_of_live_peers(clock):
    """The machine of the killed replica may report later than the replicas that died of it.

    The wait does not depend on the clocks of machines.
    """
    spec = job(role("worker", 2, restart_policy=EXIT_CODE), restart_scope=RestartScope.JOB)
    world = started(spec)
    world.now = 2004.0
    end_at(world, "worker-0", 2000.0 + clock, 1)
    assert world.reconcile().requeue_after == 3.0
    assert world.reconcile(after=1).requeue_after == 2.0
    assert world.state is TrialState.RUNNING
    end_at(world, "worker-1", 2000.0 + clock, 137)
    world.reconcile(after=0.5)
    assert world.state is TrialState.RESTARTING
    assert world.status.failing_since is None


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_peer_that_is_being_deleted_is_the_cause_of_other_failures(has_ended):
    """On a drained machine, the other replicas lose the connection before the pod has ended."""
    spec = job(role("worker", 2, restart_policy=EXIT_CODE), restart_scope=RestartScope.JOB)
    world = started(spec, keeps_ended=False)
    world.put(world.newest("worker-1"), deleting=True)
    if has_ended:
        end_at(world, "worker-1", 1999.0, 143, deleting=True)
    end_at(world, "worker-0", 2000.0, 1)
    for _ in range(3):
        world.reconcile(after=10)
        assert world.state is not TrialState.FAILED
    world.vanish("worker-1")
    world.reconcile()
    assert world.state is TrialState.RESTARTING
    world.reconcile(after=2)
    world.reconcile()
    assert world.alive == ["worker-0.2", "worker-1.2"]


def test_the_wait_for_a_terminating_replica_is_limited():
    spec = job(role("worker", 2, restart_policy=EXIT_CODE), restart_scope=RestartScope.JOB)
    world = started(spec, keeps_ended=False)
    world.put(world.newest("worker-1"), deleting=True)
    end_at(world, "worker-0", 2000.0, 1)
    assert world.reconcile().requeue_after == 600.0
    world.reconcile(after=600)
    assert world.status.decisive == ReplicaId("worker", 0, 1)


@pytest.mark.parametrize("meanwhile", ["a peer dies of it", "deadline", "suspend", "clock"])
def test_events_during_the_wait_for_reports_do_not_undo_a_failure(meanwhile):
    spec = job(
        role("worker", 3, restart_policy=EXIT_CODE),
        restart_scope=RestartScope.JOB,
        active_deadline=1002.0,
    )
    world = started(spec)
    world.now = 2000.0
    end_at(world, "worker-0", 2000.0, 1)
    world.reconcile()
    assert world.state is TrialState.RUNNING
    if meanwhile == "a peer dies of it":
        end_at(world, "worker-1", 2001.0, 134)
        world.reconcile(after=1)
        assert (world.state, world.status.restarts) == (TrialState.RUNNING, 0)
        end_at(world, "worker-2", 2001.0, 134)
    elif meanwhile == "suspend":
        world.spec = msgspec.structs.replace(world.spec, suspend=True)
    world.reconcile(after={"deadline": 2.5, "clock": -100}.get(meanwhile, 0.5))
    assert world.failure[0] == "ReplicaFailed"
    assert world.status.decisive == ReplicaId("worker", 0, 1)


@pytest.mark.parametrize("peer", ["ended after it", "never starts again"])
def test_the_engine_does_not_wait_for_reports_without_need(peer):
    policy = RestartPolicy.NEVER if peer == "never starts again" else EXIT_CODE
    spec = job(
        role("master", restart_policy=EXIT_CODE),
        role("worker", restart_policy=policy),
        restart_scope=RestartScope.JOB,
    )
    world = started(spec)
    end_at(world, "master-0", 2000.0, 1)
    if peer == "ended after it":
        end_at(world, "worker-0", 2000.1, 134)
    world.reconcile()
    assert world.status.decisive == ReplicaId("master", 0, 1)


def test_the_wait_for_reports_is_short():
    spec = job(role("worker", 2, restart_policy=EXIT_CODE), restart_scope=RestartScope.JOB)
    world = started(spec)
    end_at(world, "worker-0", 2000.0, 1)
    world.reconcile()
    assert not world.status.is_finished
    world.reconcile(after=3)
    assert world.status.decisive == ReplicaId("worker", 0, 1)


def test_with_replica_scope_a_permanent_failure_always_fails_the_job():
    world = started(job(role("worker", 2, restart_policy=EXIT_CODE)))
    end_at(world, "worker-0", 2000.0, 137)
    end_at(world, "worker-1", 2001.0, 1)
    world.reconcile()
    assert world.status.decisive == ReplicaId("worker", 1, 1)


def test_the_failure_that_exceeds_the_limit_is_the_decisive_one():
    world = started(job(role("worker", 3, restart_policy=ON_FAILURE), backoff_limit=2))
    end_at(world, "worker-0", 2000.2)
    world.reconcile()
    end_at(world, "worker-1", 2000.4, 1)
    end_at(world, "worker-2", 2000.3, 2)
    world.reconcile()
    assert world.failure[0] == "BackoffLimitExceeded"
    assert world.status.decisive == ReplicaId("worker", 1, 1)


@pytest.mark.parametrize(
    ("roles", "framework", "decisive"),
    [
        ([("worker", 2), ("chief", 1)], "tensorflow", "chief"),
        ([("worker", 2), ("master", 1)], "torch", "master"),
        ([("ps", 1), ("worker", 2)], "tensorflow", "worker"),
        ([("b", 1), ("a", 2)], "", "b"),
    ],
)
def test_rank_0_is_decisive_for_a_success(roles, framework, decisive):
    spec = job(
        *(role(name, count, service=name == "ps") for name, count in roles), framework=framework
    )
    world = started(spec)
    for replica in list(world.replicas):
        end_at(world, f"{replica.role}-{replica.index}", 2000.0 - replica.index, 0)
    world.reconcile()
    assert world.state is TrialState.SUCCEEDED
    assert world.status.decisive == ReplicaId(decisive, 0, 1)


@pytest.mark.parametrize("why", ["deadline", "stop"])
def test_an_end_without_a_failed_attempt_has_no_decisive_one(why):
    world = started(job(active_deadline=60.0))
    if why == "stop":
        world.status = type(world.status)(stop_requested=True, admitted=True)
        world.end("main-0", 143, reason="Stopped")
    world.reconcile(after=100)
    assert world.status.is_finished
    assert world.status.decisive is None


# Messages


def test_the_message_of_a_single_replica_names_only_its_attempt():
    world = started(job(role("main", restart_policy=ON_FAILURE), backoff_limit=2))
    messages = []
    for _ in range(3):
        world.end("main-0", 1)
        world.reconcile()
        condition = world.status.condition(ConditionType.FAILED)
        messages.append((condition or world.condition(ConditionType.RESTARTING)).message)
        world.reconcile(after=5)
        world.run_all()
    assert messages == [
        "exit code 1; restart 1 of 2",
        "exit code 1 in attempt 2; restart 2 of 2",
        "exit code 1 in attempt 3; restarted twice, which is the limit",
    ]


@pytest.mark.case(5)
def test_limit_0_means_that_no_restart_is_allowed():
    world = started(job(role("main", restart_policy=ON_FAILURE), backoff_limit=0))
    world.end("main-0", 1)
    world.reconcile()
    assert world.failure == ("BackoffLimitExceeded", "exit code 1; no restart is allowed")
    assert world.status.restarts == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exit_code": 137, "reason": "Signal"}, "was killed by SIGKILL (exit code 137)"),
        ({"exit_code": 3}, "failed with exit code 3"),
        (
            {"exit_code": 137, "reason": "OOMKilled"},
            "failed with exit code 137 (SIGKILL), OOMKilled",
        ),
        (
            {"exit_code": 127, "reason": "StartFailed", "message": "no train"},
            "could not start: no train",
        ),
        (
            {"exit_code": None, "reason": "Lost", "message": "node\n gone"},
            "ended (Lost): node gone",
        ),
        ({"exit_code": None}, "ended without an exit code"),
    ],
)
def test_the_message_of_one_of_several_replicas_names_it_with_its_attempt(options, message):
    world = started(job(role("worker", 2, restart_policy=ON_FAILURE)))
    world.end("worker-1", 1)
    world.reconcile()
    world.reconcile(after=1)
    world.spec = job(role("worker", 2))
    world.end("worker-1", **options)
    world.reconcile()
    assert world.failure == ("ReplicaFailed", f"worker-1 (attempt 2) {message}")


def test_a_replica_that_vanished_too_often_is_reported():
    world = started(job(role("worker", 2), backoff_limit=0), keeps_ended=False)
    world.vanish("worker-1")
    world.reconcile()
    assert world.failure[1] == "worker-1 (attempt 1) vanished; no restart is allowed"
    assert world.status.decisive == ReplicaId("worker", 1, 1)


def test_under_always_a_successful_end_over_the_limit_is_not_called_a_failure():
    world = started(job(role("worker", 2, restart_policy=RestartPolicy.ALWAYS), backoff_limit=0))
    world.put(world.newest("worker-0"), phase=Phase.SUCCEEDED, exit_code=0)
    world.reconcile()
    assert world.failure[1] == "worker-0 (attempt 1) ended with exit code 0; no restart is allowed"
