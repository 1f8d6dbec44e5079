"""Known failures of other systems that have no test file of their own."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from engine_simulation import World, job, role, started

from windlass.model.job import RestartPolicy, RestartScope
from windlass.model.records import TrialState
from windlass.model.status import Phase, ReplicaId

NEVER, EXIT_CODE = RestartPolicy.NEVER, RestartPolicy.EXIT_CODE
RETRYING = [RestartPolicy.ON_FAILURE, RestartPolicy.ALWAYS, EXIT_CODE]


def test_every_case_has_a_test():
    """Marks name the cases in the tests of the engine and the controller."""
    tests = Path(__file__).parents[1]
    texts = [
        path.read_text()
        for room in ("engine", "controller")
        for path in (tests / room).glob("*.py")
    ]
    marked = {int(match) for text in texts for match in re.findall(r"mark\.case\((\d+)\)", text)}
    assert marked == set(range(1, 15))


# 3: kill -9 of the chief, and of worker 0


def cluster(policy, **options):
    return job(
        role("chief", restart_policy=policy),
        role("worker", 2, restart_policy=policy),
        role("ps", service=True, restart_policy=policy),
        framework="tensorflow",
        **options,
    )


@pytest.mark.case(3)
@pytest.mark.parametrize("victim", ["chief-0", "worker-0"])
@pytest.mark.parametrize("policy", RETRYING)
def test_a_killed_chief_or_worker_restarts_alone(policy, victim):
    world = started(cluster(policy))
    others = [replica for replica in world.alive if not replica.startswith(victim)]
    world.end(victim, 137, reason="Signal")
    world.reconcile()
    assert world.state is TrialState.RESTARTING
    assert world.alive == others
    world.reconcile(after=1)
    assert sorted({*world.alive} - {*others}) == [f"{victim}.2"]
    world.run_all()
    assert world.state is TrialState.RUNNING


@pytest.mark.case(3)
@pytest.mark.parametrize("victim", ["chief-0", "worker-0"])
def test_a_killed_chief_or_worker_without_restarts_fails_the_job_and_is_named(victim):
    world = started(cluster(NEVER))
    world.end(victim, 137, reason="Signal")
    world.reconcile()
    message = f"{victim} (attempt 1) was killed by SIGKILL (exit code 137)"
    assert world.failure == ("ReplicaFailed", message)
    world.settle()
    assert world.alive == []


@pytest.mark.case(3)
@pytest.mark.parametrize("victim", [0, 1])
def test_with_job_scope_a_killed_worker_restarts_all_replicas(victim):
    spec = job(
        role("worker", 3, restart_policy=EXIT_CODE), framework="torch",
        restart_scope=RestartScope.JOB,
    )  # fmt: skip
    world = started(spec)
    world.end(f"worker-{victim}", 137, reason="Signal")
    world.reconcile()
    assert world.alive == []
    world.reconcile(after=1)
    assert world.alive == ["worker-0.2", "worker-1.2", "worker-2.2"]
    assert world.status.restarts == 1


@pytest.mark.case(3)
def test_worker_0_killed_after_the_chief_has_succeeded_changes_nothing():
    world = started(cluster(EXIT_CODE))
    world.end("worker-0", 137, reason="Signal")
    world.end("chief-0", 0)
    world.reconcile()
    assert world.state is TrialState.SUCCEEDED
    assert world.status.restarts == 0


# 9: orphans, duplicates, deleted replicas


@pytest.mark.case(9)
@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.RUNNING, Phase.UNKNOWN])
def test_an_orphan_is_adopted(phase):
    world = World(job(role("worker", 2)))
    world.put(ReplicaId("worker", 1, 3), phase=phase)
    assert world.reconcile().create == (ReplicaId("worker", 0, 1),)
    assert [replica.attempt for replica in world.status.replicas] == [1, 3]


# 11: ended while it starts


@pytest.mark.case(11)
@pytest.mark.parametrize("keeps_ended", [True, False])
@pytest.mark.parametrize("created", [0, 1, 3])
def test_a_job_stopped_while_it_starts_leaves_nothing_behind(created, keeps_ended):
    """Three replicas are recorded, and only some of them exist when the stop arrives."""
    world = World(job(role("worker", 3)), keeps_ended=keeps_ended)
    decision = world.decide()
    world.status = decision.status
    world.apply(msgspec.structs.replace(decision, create=decision.create[:created]))
    world.status = msgspec.structs.replace(world.status, stop_requested=True)
    world.settle()
    assert world.state is TrialState.STOPPED
    assert world.alive == []
    assert len(world.created) == created
    assert world.status.settled


@pytest.mark.case(11)
def test_a_replica_that_appears_after_the_end_is_stopped():
    world = World(job(role("worker", 2)))
    decision = world.decide()
    world.status = msgspec.structs.replace(decision.status, stop_requested=True)
    world.settle()
    assert world.state is TrialState.STOPPED
    world.apply(decision)  # a request from before the stop takes effect only now
    world.settle()
    assert world.alive == []
