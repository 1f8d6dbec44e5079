from __future__ import annotations

import math
import random
import threading
from collections import Counter

import pytest
from controller_doubles import HandClock, until

from windlass.controller.queue import LONGEST_DELAY, WorkQueue


def drain(queue):
    keys = []
    while (key := queue.get(timeout=0)) is not None:
        keys.append(key)
        queue.done(key)
    return keys


def test_keys_arrive_once_in_the_order_they_were_added():
    queue = WorkQueue(HandClock())
    for key in "abacab":
        queue.add(key)
    assert drain(queue) == ["a", "b", "c"]


def test_a_key_added_while_it_is_processed_is_processed_again():
    queue = WorkQueue(HandClock())
    queue.add("a")
    assert queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    assert queue.get(timeout=0) is None
    queue.done("a")
    assert drain(queue) == ["a"]


def test_a_delayed_key_arrives_when_it_is_due():
    clock = HandClock()
    queue = WorkQueue(clock)
    queue.add_after("a", 5.0)
    assert drain(queue) == []
    clock.advance(4.9)
    assert drain(queue) == []
    clock.advance(0.2)
    assert drain(queue) == ["a"]


def test_the_earliest_of_several_delays_counts():
    clock = HandClock()
    queue = WorkQueue(clock)
    queue.add_after("a", 5.0)
    queue.add_after("a", 2.0)
    queue.add_after("a", 9.0)
    clock.advance(2.0)
    assert drain(queue) == ["a"]
    clock.advance(100.0)
    assert drain(queue) == []


def test_a_delayed_key_can_arrive_earlier_for_another_reason_and_keeps_its_delay():
    clock = HandClock()
    queue = WorkQueue(clock)
    queue.add_after("a", 5.0)
    queue.add("a")
    assert drain(queue) == ["a"]
    clock.advance(5.0)
    assert drain(queue) == ["a"]


def test_a_cancelled_delay_has_no_effect_and_a_new_delay_counts():
    clock = HandClock()
    queue = WorkQueue(clock)
    queue.add_after("a", 5.0)
    queue.cancel("a")
    queue.add_after("a", 7.0)
    clock.advance(5.0)
    assert drain(queue) == []
    clock.advance(2.0)
    assert drain(queue) == ["a"]


def test_a_delay_of_zero_is_now():
    queue = WorkQueue(HandClock())
    queue.add_after("a", 0.0)
    assert drain(queue) == ["a"]


@pytest.mark.parametrize("delay", [2.4e11, math.inf])
def test_a_key_due_in_thousands_of_years_arrives_after_a_day(delay):
    """A lock raises for such a timeout, which would end the thread that waits for a key."""
    clock = HandClock()
    queue = WorkQueue(clock)
    queue.add_after("a", delay)
    clock.advance(LONGEST_DELAY - 1)
    assert drain(queue) == []
    clock.advance(1)
    assert drain(queue) == ["a"]
    assert threading.TIMEOUT_MAX > LONGEST_DELAY


def test_failures_double_the_delay_up_to_a_minute_and_success_resets_it():
    clock = HandClock()
    queue = WorkQueue(clock)

    def delay_of_next_failure():
        queue.add_rate_limited("a")
        waited = queue._next_timer() - clock.monotonic()
        clock.advance(waited)
        assert drain(queue) == ["a"]
        return round(waited, 6)

    delays = [delay_of_next_failure() for _ in range(16)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-2:] == [60.0, 60.0]
    queue.forget("a")
    assert delay_of_next_failure() == 0.005


def test_a_shutdown_releases_all_waiting_threads():
    queue = WorkQueue(HandClock())
    got = []
    threads = [threading.Thread(target=lambda: got.append(queue.get())) for _ in range(4)]
    for thread in threads:
        thread.start()
    queue.shutdown()
    for thread in threads:
        thread.join(30)
    assert got == [None] * 4
    queue.add("a")
    queue.add_after("a", 1)
    assert queue.get() is None


def test_a_waiting_worker_wakes_for_a_delay_that_is_set_later():
    clock = HandClock()
    queue = WorkQueue(clock)
    got = []

    def work():
        while (key := queue.get()) is not None:
            got.append(key)
            queue.done(key)
            reached.set()

    reached = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    queue.add_after("late", 100.0)
    queue.add_after("early", 1.0)
    clock.advance(1.0)
    assert reached.wait(30)
    assert got == ["early"]
    queue.shutdown()
    thread.join(30)


def test_with_many_threads_no_key_is_processed_twice_at_a_time_or_lost():
    queue = WorkQueue()
    keys = [f"key-{n}" for n in range(20)]
    guards = {key: threading.Lock() for key in keys}
    latest = dict.fromkeys(keys, 0)  # the value of a key's last addition
    seen = dict.fromkeys(keys, 0)
    works: Counter[str] = Counter()
    overlaps = []

    def work():
        while (key := queue.get()) is not None:
            if not guards[key].acquire(blocking=False):
                overlaps.append(key)
                continue
            seen[key] = latest[key]
            works[key] += 1
            guards[key].release()
            queue.done(key)

    def produce(seed):
        chance = random.Random(seed)
        for number in range(1, 500):
            key = chance.choice(keys)
            latest[key] = max(latest[key], number)
            how = chance.random()
            if how < 0.8:
                queue.add(key)
            elif how < 0.9:
                queue.add_after(key, chance.random() / 1000)
            else:
                queue.add_rate_limited(key)
                queue.forget(key)

    workers = [threading.Thread(target=work) for _ in range(6)]
    producers = [threading.Thread(target=produce, args=(seed,)) for seed in range(4)]
    for thread in workers + producers:
        thread.start()
    for thread in producers:
        thread.join(60)
    for key in keys:
        queue.add(key)
    until(lambda: queue.is_quiet)
    queue.shutdown()
    for thread in workers:
        thread.join(60)
    assert overlaps == []
    assert seen == latest
    assert set(works) == set(keys)
