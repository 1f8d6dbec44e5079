from __future__ import annotations

import threading

import pytest

from windlass.controller.expectations import Expectations
from windlass.model.status import Phase, Replica, ReplicaId

ONE, TWO = ReplicaId("main", 0, 1), ReplicaId("main", 1, 1)


def seen(name, phase=Phase.RUNNING, **options):
    return Replica(id=name, phase=phase, **options)


def test_no_expectation_blocks_nothing():
    assert Expectations().outstanding("job", [], now=0.0) == 0.0


def test_creations_are_observed_one_by_one_and_stay_observed():
    expectations = Expectations()
    expectations.expect("job", creates=[ONE, TWO], deletes=[], now=0.0)
    assert expectations.outstanding("job", [seen(ONE)], now=1.0) == 299.0
    assert expectations.outstanding("job", [seen(TWO)], now=1.0) == 0.0


def test_an_accepted_creation_counts_although_the_replica_is_gone_again():
    expectations = Expectations()
    expectations.expect("job", creates=[ONE, TWO], deletes=[], now=0.0)
    expectations.created("job", ONE)
    assert expectations.outstanding("job", [], now=1.0) == 299.0
    expectations.created("job", TWO)
    assert expectations.outstanding("job", [], now=1.0) == 0.0


def test_a_creation_does_not_satisfy_an_expected_deletion():
    expectations = Expectations()
    expectations.expect("job", creates=[], deletes=[ONE], now=0.0)
    expectations.created("job", ONE)
    assert expectations.outstanding("job", [seen(ONE)], now=1.0) == 299.0


def test_another_attempt_does_not_satisfy_an_expectation():
    expectations = Expectations()
    expectations.expect("job", creates=[ONE], deletes=[], now=0.0)
    assert expectations.outstanding("job", [seen(ReplicaId("main", 0, 2))], now=1.0) > 0


@pytest.mark.parametrize(
    "view", [[], [seen(ONE, Phase.FAILED)], [seen(ONE, deleting=True)]], ids=str
)
def test_a_deletion_is_observed_when_the_replica_is_gone_ended_or_stopping(view):
    expectations = Expectations()
    expectations.expect("job", creates=[], deletes=[ONE], now=0.0)
    assert expectations.outstanding("job", [seen(ONE)], now=1.0) > 0
    assert expectations.outstanding("job", view, now=1.0) == 0.0


def test_all_kinds_must_be_met():
    expectations = Expectations()
    expectations.expect("job", creates=[TWO], deletes=[ONE], now=0.0)
    assert expectations.outstanding("job", [], now=1.0) > 0
    expectations.expect("other", creates=[TWO], deletes=[ONE], now=0.0)
    assert expectations.outstanding("other", [seen(ONE), seen(TWO)], now=1.0) > 0
    assert expectations.outstanding("other", [seen(TWO)], now=1.0) == 0.0


def test_unmet_expectations_expire_after_five_minutes():
    expectations = Expectations()
    expectations.expect("job", creates=[ONE], deletes=[], now=0.0)
    assert expectations.outstanding("job", [], now=299.0) == 1.0
    assert expectations.outstanding("job", [], now=300.0) == 0.0


def test_a_failed_request_is_not_expected():
    expectations = Expectations()
    expectations.expect("job", creates=[ONE], deletes=[TWO], now=0.0)
    expectations.withdraw("job", ONE)
    expectations.withdraw("job", TWO)
    assert expectations.outstanding("job", [seen(TWO)], now=0.0) == 0.0


def test_jobs_do_not_share_expectations_and_can_be_forgotten():
    expectations = Expectations()
    expectations.expect("job", creates=[ONE], deletes=[], now=0.0)
    assert expectations.outstanding("other", [], now=0.0) == 0.0
    expectations.forget("job")
    assert expectations.outstanding("job", [], now=0.0) == 0.0


def test_with_many_threads_no_job_continues_before_all_requests_are_observed():
    """Workers reconcile different jobs in parallel, and runtimes report from their own threads."""
    expectations = Expectations()
    early = []

    def work(uid):
        for attempt in range(1, 200):
            new, old = ReplicaId("main", 0, attempt), ReplicaId("main", 0, attempt - 1)
            expectations.expect(uid, creates=[new], deletes=[old], now=0.0)
            for view in ([seen(old)], [seen(old), seen(new)]):
                if expectations.outstanding(uid, view, now=1.0) == 0.0:
                    early.append((uid, attempt, view))
            if expectations.outstanding(uid, [seen(new)], now=1.0) > 0:
                early.append((uid, attempt, "held up"))

    threads = [threading.Thread(target=work, args=(f"job-{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert early == []
