from __future__ import annotations

import pytest
from engine_simulation import World, job, role, started, with_policy

from windlass.engine.restart_policy import Verdict, exit_verdict
from windlass.model.job import RestartPolicy, RestartScope
from windlass.model.records import TrialState
from windlass.model.status import ConditionType, Phase, ReplicaId

NEVER, ON_FAILURE = RestartPolicy.NEVER, RestartPolicy.ON_FAILURE
ALWAYS, EXIT_CODE = RestartPolicy.ALWAYS, RestartPolicy.EXIT_CODE

TABLE = [
    # policy, exit 0, 1-127, 128-255, none
    (NEVER, Verdict.DONE, Verdict.FAILED, Verdict.FAILED, Verdict.FAILED),
    (ON_FAILURE, Verdict.DONE, Verdict.RESTART, Verdict.RESTART, Verdict.RESTART),
    (ALWAYS, Verdict.RESTART, Verdict.RESTART, Verdict.RESTART, Verdict.RESTART),
    (EXIT_CODE, Verdict.DONE, Verdict.FAILED, Verdict.RESTART, Verdict.RESTART),
]


@pytest.mark.case(2)
@pytest.mark.parametrize(("policy", "zero", "low", "high", "none"), TABLE)
def test_the_table_of_restart_policies_holds(policy, zero, low, high, none):
    assert exit_verdict(policy, 0) is zero
    assert {exit_verdict(policy, code) for code in range(1, 128)} == {low}
    assert {exit_verdict(policy, code) for code in range(128, 256)} == {high}
    assert exit_verdict(policy, None) is none


@pytest.mark.case(2)
@pytest.mark.parametrize("keeps_ended", [True, False])
@pytest.mark.parametrize("policy", list(RestartPolicy))
@pytest.mark.parametrize("exit_code", [0, 1, 127, 128, 130, 137, 143, 255, None])
def test_the_policy_determines_the_meaning_of_an_end(policy, exit_code, keeps_ended):
    world = started(with_policy(policy), keeps_ended=keeps_ended)
    world.end("main-0", exit_code)
    world.reconcile()
    verdict = exit_verdict(policy, exit_code)
    if verdict is Verdict.DONE:
        assert world.state is TrialState.SUCCEEDED
    elif verdict is Verdict.FAILED:
        assert world.state is TrialState.FAILED
        assert world.failure[0] == "ReplicaFailed"
    else:
        assert world.state is TrialState.RESTARTING
        assert world.status.restarts == 1
        assert world.last.requeue_after == 1.0
        assert world.alive == []
        world.reconcile(after=1.0)
        assert world.alive == ["main-0.2"]
        world.run_all()
        assert world.state is TrialState.RUNNING


@pytest.mark.case(8)
def test_an_eviction_without_exit_code_is_retried_under_exit_code():
    world = started(with_policy(EXIT_CODE))
    world.end("main-0", None, reason="Evicted", message="the node ran out of memory")
    world.reconcile()
    assert world.state is TrialState.RESTARTING
    message = world.condition(ConditionType.RESTARTING).message
    assert message == "Evicted: the node ran out of memory; restart 1 of 6"


@pytest.mark.case(8)
def test_an_eviction_is_a_failure_although_the_program_exited_with_0():
    world = started(with_policy(EXIT_CODE))
    world.put(world.newest("main-0"), phase=Phase.FAILED, exit_code=0, reason="Evicted")
    world.reconcile()
    assert world.state is TrialState.RESTARTING


def test_delays_double_to_five_minutes():
    world = started(with_policy(ON_FAILURE, backoff_limit=20))
    delays = []
    for _ in range(12):
        world.end("main-0", 1)
        delays.append(world.reconcile().requeue_after)
        world.reconcile(after=delays[-1])
        world.run_all()
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_with_job_scope_the_delay_doubles_with_any_cause():
    roles = role("worker", 3, restart_policy=ON_FAILURE)
    world = started(job(roles, restart_scope=RestartScope.JOB))
    delays = []
    for cause in ("worker-1", "worker-2", "worker-1", "worker-0"):
        world.end(cause, 1)
        delays.append(world.reconcile().requeue_after)
        world.reconcile(after=delays[-1])
        world.run_all()
    assert delays == [1, 2, 4, 8]


def test_a_delay_is_reset_after_ten_minutes_of_running():
    world = started(with_policy(ON_FAILURE))
    for ran, delay in [(0, 1), (599, 2), (599, 4), (600, 1), (0, 2)]:
        world.now += ran
        world.end("main-0", 1)
        assert world.reconcile().requeue_after == delay
        world.reconcile(after=delay)
        world.run_all()
    assert world.status.restarts == 5


def test_no_replica_starts_before_its_delay_is_over():
    world = started(with_policy(ON_FAILURE))
    world.end("main-0", 1)
    world.reconcile()
    assert world.reconcile(after=0.25).create == ()
    assert world.last.requeue_after == 0.75
    assert world.reconcile(after=0.75).create == (ReplicaId("main", 0, 2),)


@pytest.mark.case(5)
@pytest.mark.parametrize("policy", [ON_FAILURE, EXIT_CODE, ALWAYS])
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_job_fails_when_its_restarts_would_exceed_the_limit(policy, limit):
    world = started(with_policy(policy, backoff_limit=limit))
    for _ in range(limit):
        world.end("main-0", 137, reason="Signal")
        world.reconcile()
        assert world.state is TrialState.RESTARTING
        world.reconcile(after=400)
        world.run_all()
    world.end("main-0", 137, reason="Signal")
    world.reconcile()
    reason, message = world.failure
    assert reason == "BackoffLimitExceeded"
    assert "killed by SIGKILL (exit code 137)" in message
    assert world.status.restarts == limit
    assert len(world.created) == limit + 1


def test_the_message_about_the_limit_names_the_last_failure():
    world = started(with_policy(ON_FAILURE, backoff_limit=1))
    world.end("main-0", 1)
    world.reconcile()
    world.reconcile(after=1)
    world.end("main-0", 3)
    world.reconcile()
    assert world.failure[1] == "exit code 3 in attempt 2; restarted once, which is the limit"


def test_simultaneous_failures_cannot_exceed_the_limit_together():
    spec = job(role("worker", 3, restart_policy=ON_FAILURE), backoff_limit=2)
    world = started(spec)
    for index in range(3):
        world.end(f"worker-{index}", index + 1)
    world.reconcile()
    reason, message = world.failure
    assert reason == "BackoffLimitExceeded"
    assert message == (
        "worker-2 (attempt 1) failed with exit code 3; the limit of 2 restarts is used up"
    )
    assert world.status.decisive == ReplicaId("worker", 2, 1)
    assert world.status.restarts == 0


def test_one_replica_restarts_alone():
    world = started(job(role("worker", 3, restart_policy=ON_FAILURE)))
    world.end("worker-1", 1)
    world.reconcile()
    assert world.alive == ["worker-0.1", "worker-2.1"]
    world.reconcile(after=1)
    assert world.alive == ["worker-0.1", "worker-1.2", "worker-2.1"]
    assert [replica.restarts for replica in world.status.replicas] == [0, 1, 0]


@pytest.mark.parametrize("keeps_ended", [True, False])
def test_with_job_scope_all_replicas_stop_and_start_together(keeps_ended):
    spec = job(role("worker", 3, restart_policy=ON_FAILURE), restart_scope=RestartScope.JOB)
    world = started(spec, keeps_ended=keeps_ended)
    world.end("worker-1", 1)
    world.end("worker-2", 0)
    world.reconcile()
    assert world.alive == []
    assert world.status.restarts == 1
    world.reconcile(after=1)
    assert world.alive == ["worker-0.2", "worker-1.2", "worker-2.2"]
    world.run_all()
    assert world.state is TrialState.RUNNING


def test_with_job_scope_simultaneous_peer_failures_are_one_restart():
    spec = job(role("worker", 4, restart_policy=ON_FAILURE), restart_scope=RestartScope.JOB)
    world = started(spec)
    world.end("worker-1", 1)
    world.end("worker-3", 134)
    world.reconcile()
    world.end("worker-0", 134)
    world.reconcile(after=0.5)
    assert world.status.restarts == 1
    assert world.status.holds(ConditionType.RESTARTING)


def test_with_job_scope_no_replica_starts_while_another_is_still_stopping():
    spec = job(role("worker", 2, restart_policy=ON_FAILURE), restart_scope=RestartScope.JOB)
    world = started(spec)
    world.end("worker-1", 1)
    decision = world.decide()
    assert ReplicaId("worker", 0, 1) in decision.delete
    world.status = decision.status
    world.put(ReplicaId("worker", 0, 1), deleting=True)
    assert world.reconcile(after=30).is_idle
    world.end("worker-0", 143, deleting=False)
    assert world.reconcile().create == (ReplicaId("worker", 0, 2), ReplicaId("worker", 1, 2))


def test_a_restart_waits_until_the_old_attempt_is_gone():
    world = started(with_policy(ON_FAILURE), keeps_ended=False)
    world.end("main-0", 1)
    world.status = world.decide().status  # and the pod is only marked for deletion
    world.put(world.newest("main-0"), deleting=True)
    assert world.reconcile(after=10).is_idle
    world.vanish("main-0")
    assert world.reconcile().create == (ReplicaId("main", 0, 2),)


def test_a_failed_service_is_restarted_like_any_replica():
    spec = job(role("worker"), role("ps", service=True, restart_policy=ON_FAILURE))
    world = started(spec)
    world.end("ps-0", 1)
    world.reconcile()
    world.reconcile(after=1)
    assert world.alive == ["ps-0.2", "worker-0.1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exit_code": 3}, "exit code 3"),
        ({"exit_code": 137, "reason": "Signal"}, "killed by SIGKILL (exit code 137)"),
        ({"exit_code": 137, "reason": "OOMKilled"}, "exit code 137 (SIGKILL), OOMKilled"),
        (
            {"exit_code": None, "reason": "StartFailed", "message": "no such file: train"},
            "could not start: no such file: train",
        ),
        ({"exit_code": None, "reason": "Lost"}, "Lost"),
        ({"exit_code": None}, "ended without an exit code"),
        ({"exit_code": 255}, "exit code 255"),
    ],
)
def test_the_message_of_a_single_replica_describes_its_end(options, message):
    world = started(with_policy(NEVER))
    world.end("main-0", **options)
    world.reconcile()
    assert world.failure == ("ReplicaFailed", message)


def test_the_message_of_one_of_several_replicas_names_it():
    world = started(job(role("worker", 3)))
    world.end("worker-2", 139, reason="Signal")
    world.reconcile()
    message = "worker-2 (attempt 1) was killed by SIGSEGV (exit code 139)"
    assert world.failure == ("ReplicaFailed", message)


def test_the_failure_is_named_by_the_first_failed_role_and_index():
    world = World(job(role("b", 2), role("a", 2)))
    world.reconcile()
    for name in ("a-0", "b-1"):
        world.end(name, 1)
    world.replicas = dict(reversed(world.replicas.items()))
    world.reconcile()
    assert world.failure[1].startswith("b-1")
