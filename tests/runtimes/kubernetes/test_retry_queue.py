"""Background tasks are retried until they succeed, one at a time for each key."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from harness import PATIENCE, eventually
from windlass.model.errors import WindlassError
from windlass.runtimes.kubernetes import retry_queue as module
from windlass.runtimes.kubernetes.retry_queue import RetryQueue, TaskFailure


@pytest.fixture
def errands(monkeypatch: pytest.MonkeyPatch) -> Iterator[RetryQueue]:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    made = RetryQueue()
    yield made
    made.close()


def test_a_failing_task_is_retried_and_reports_its_reason_and_remedy(
    errands: RetryQueue,
) -> None:
    tries, go_on = [], threading.Event()

    def act() -> None:
        tries.append(1)
        if not go_on.is_set():
            raise WindlassError("The cluster is away.", hint="Wait.")

    errands.do("a", act)
    eventually(lambda: len(tries) > 2, "it is tried again")
    assert errands.failure("a").message == "The cluster is away."
    assert errands.failure("a").message_with_hint == "The cluster is away. Wait."
    go_on.set()
    eventually(lambda: not errands.is_wanted("a"), "it is done")
    assert errands.failure("a") == TaskFailure()


def test_one_task_of_a_key_runs_at_a_time_and_the_newest_counts(errands: RetryQueue) -> None:
    began, go_on, done = threading.Event(), threading.Event(), []

    def first() -> None:
        began.set()
        assert go_on.wait(PATIENCE)
        done.append("first")

    errands.do("a", first)
    assert began.wait(PATIENCE)
    errands.do("a", lambda: done.append("second"))
    errands.do("a", lambda: done.append("third"))
    errands.do("b", lambda: done.append("other"))
    eventually(lambda: done == ["other"], "others are not held up")
    go_on.set()
    eventually(lambda: done == ["other", "first", "third"], "then the newest")


def test_a_delayed_task_can_be_cancelled_or_run_earlier(errands: RetryQueue) -> None:
    done: list[str] = []
    errands.do("a", lambda: done.append("late"), after=1000)
    errands.do("a", lambda: done.append("soon"))
    errands.do("b", lambda: done.append("never"), after=0.05)
    errands.forget("b")
    errands.do("c", lambda: done.append("last"), after=0.1)
    eventually(lambda: "last" in done, "what is later than the forgotten was done")
    assert done == ["soon", "last"]


def test_a_woken_task_is_retried_at_once(
    errands: RetryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 10_000.0)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 10_000.0)
    tries, go_on, is_held = [], threading.Event(), threading.Event()

    def act() -> None:
        tries.append(1)
        if len(tries) == 2:
            is_held.set()
            assert go_on.wait(PATIENCE)
        if len(tries) < 4:
            raise WindlassError("It is not there yet.")

    errands.wake("a")  # an unknown key has no effect
    errands.do("a", act)
    eventually(lambda: errands.failure("a").message != "", "it fails")
    errands.wake("b")
    errands.wake("a")
    assert is_held.wait(PATIENCE)
    errands.wake("a")  # while it runs: then once more
    go_on.set()
    eventually(lambda: len(tries) == 3 and errands.failure("a").message != "", "it is done again")
    eventually(lambda: "a" not in errands._busy, "and fails again")
    assert len(tries) == 3
    errands.wake()  # all of them
    eventually(lambda: not errands.is_wanted("a"), "it is done")
    assert len(tries) == 4
